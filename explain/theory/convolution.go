package theory

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var convolutionView = View{
	Name:  "convolution",
	Short: "A convolution as a matrix and by FFT, and what wraps around without padding",
	Long: `Shows the causal convolution y_k = Σ_{j≤k} K_j u_{k-j} of a signal u with a kernel K of equal length l:

  as a matrix   y = T u with the Toeplitz matrix T_ij = K_{i-j}, i ≥ j
  by FFT        y = IFFT(FFT(K) · FFT(u)), both padded with zeros to 2l - 1
  circular      the same without padding, which is the circulant C_ij = K_{(i-j) mod l}: the end of the signal wraps
                around onto its beginning, and the error is K_{l+i-j} u_j summed over j > i

A kernel is exponential, oscillation (a damped wave), box (a mean), difference or echo, or numbers: 1,0.5,0.25.`,
	Example: `  hippo explain ssm convolution
  hippo explain ssm convolution --kernel oscillation --signal square
  hippo explain ssm convolution --kernel 1,-1 --signal prices.csv --column close --out prices.svg`,
	New: func() Options {
		return &ConvolutionOptions{
			SignalOptions: SignalOptions{Signal: "sum", Length: 64, Turns: 3, Seed: 1}, Kernel: "exponential",
			Memory: 8,
		}
	},
}

// ConvolutionOptions holds the options of the view convolution.
type ConvolutionOptions struct {
	SignalOptions
	Kernel string  `json:"kernel" help:"exponential, oscillation, box, difference or echo, or numbers with commas"`
	Memory float64 `json:"memory" min:"0.5" max:"4096" help:"samples that a kernel by name fades over or spans"`
}

// mostMatrix is the maximum length of a signal, since its matrix is shown.
const mostMatrix = 1024

// kernels maps names to kernels: functions of the lag j and the memory in samples.
var kernels = map[string]func(j int, memory float64) float64{
	"exponential": func(j int, memory float64) float64 { return math.Exp(-float64(j)/memory) / memory },
	"oscillation": func(j int, memory float64) float64 {
		return math.Exp(-float64(j)/memory) * math.Cos(2*math.Pi*float64(j)/memory) * 2 / memory
	},
	"box": func(j int, memory float64) float64 {
		if float64(j) < memory {
			return 1 / math.Ceil(memory)
		}
		return 0
	},
	"difference": func(j int, _ float64) float64 { return []float64{1, -1, 0}[min(j, 2)] },
	"echo": func(j int, memory float64) float64 {
		switch j {
		case 0:
			return 1
		case int(memory):
			return 0.5
		}
		return 0
	},
}

// kernelNames lists the names of kernels.
var kernelNames = []string{"exponential", "oscillation", "box", "difference", "echo"}

// kernel returns the l values of the kernel that the options name or list.
func (o *ConvolutionOptions) kernel(l int) ([]float64, error) {
	kernel := make([]float64, l)
	if f := kernels[o.Kernel]; f != nil {
		for j := range kernel {
			kernel[j] = f(j, o.Memory)
		}
		return kernel, nil
	}
	parts := strings.Split(o.Kernel, ",")
	if len(parts) > l {
		return nil, fmt.Errorf("kernel: found %d numbers, want at most as many as the signal has: %d", len(parts), l)
	}
	for j, text := range parts {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(v) || math.Abs(v) > largest {
			return nil, fmt.Errorf("kernel: found %.60q, want one of %s, or numbers such as 1,0.5,0.25", o.Kernel,
				strings.Join(kernelNames, ", "))
		}
		kernel[j] = v
	}
	return kernel, nil
}

// Page returns the page of the convolution.
func (o *ConvolutionOptions) Page(context.Context) (*figure.Page, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	l := len(s.u)
	if l > mostMatrix {
		return nil, fmt.Errorf("length: found a signal of %d samples, want at most %d, as its matrix is shown", l,
			mostMatrix)
	}
	kernel, err := o.kernel(l)
	if err != nil {
		return nil, err
	}
	y := ssm.Convolve(kernel, s.u)
	fast := ssm.ConvolveFFT(kernel, s.u)[:l]
	circular := ssm.ConvolveCircular(kernel, s.u)
	wrapped := floats.SubTo(make([]float64, l), circular, y)

	toeplitz, note := matrixMap(ssm.Toeplitz(kernel, l))
	circulant, _ := matrixMap(ssm.Circulant(kernel, l))
	page := &figure.Page{
		Title:    "Convolution",
		Subtitle: fmt.Sprintf("signal: %s, %d samples; kernel: %s", s.name, l, o.Kernel),
		Notes:    s.notes,
	}
	if note != "" {
		page.Notes = append(page.Notes, note)
	}
	apart := floats.Distance(fast, y, math.Inf(1))
	page.Figures = []*figure.Figure{
		still("signals", "A signal, a kernel and their convolution",
			"y_k = Σ_{j≤k} K_j u_{k-j}: every input starts an echo of the kernel, "+
				"and the output is the sum of the echoes.",
			"", lines("signal u and output y", "sample", "", line("u", s.u), line("y = K * u", y)),
			lines("kernel K", "lag", "", stepped(line("K", kernel)))),
		still("matrix", "The same as a matrix",
			"y = T u. The Toeplitz matrix T has K_{i-j} at row i and column j: it is constant along diagonals, "+
				"and zero above the main one, because the output knows nothing of the future.", "",
			mapPanel("T (Toeplitz)", "input", "output", toeplitz),
			mapPanel("C (circulant)", "input", "output", circulant)),
		still("transform", "By Fourier transforms",
			fmt.Sprintf("The transform of y is the product of those of K and u, "+
				"for transforms of at least 2l - 1 = %d points with zeros behind both. "+
				"The output by FFT and by the sum differ by at most %.1e, which is rounding. "+
				"The sum takes l²/2 = %d products; the transforms a multiple of l log₂ l = %.0f.", 2*l-1, apart, l*l/2,
				float64(l)*math.Log2(float64(l))),
			"Cooley and Tukey 1965", spectra(kernel, s.u, y), lines("y by FFT minus y by the sum", "sample", "",
				line("difference", floats.SubTo(make([]float64, l), fast, y)))),
		still("wrap-around", "Without padding the end wraps around",
			"The product of transforms of l points is the circular convolution y = C u. "+
				"The corner of C above the diagonal takes the end of the signal for what was before its beginning. "+
				fmt.Sprintf("Here that changes the output by up to %.3g.", floats.Norm(wrapped, math.Inf(1))),
			"", lines("outputs", "sample", "", line("y = T u", y), dashed(line("C u, circular", circular))),
			lines("error: (C - T) u", "sample", "", line("wrapped around", wrapped))),
	}
	return page, nil
}

// spectra returns a panel of the magnitudes of the transforms of kernel, signal and output, each padded to twice its
// length.
func spectra(kernel, u, y []float64) figure.Panel {
	var all []figure.Series
	for _, s := range []struct {
		name string
		x    []float64
	}{{"|FFT(u)|", u}, {"|FFT(K)|", kernel}, {"|FFT(y)|", y}} {
		z := ssm.RealFFT(append(slices.Clone(s.x), make([]float64, len(s.x))...))
		size := make([]float64, len(z))
		for k, v := range z {
			size[k] = cmplx.Abs(v)
		}
		all = append(all, figure.Series{Name: s.name, X: upTo(len(z), 1/float64(2*len(u))), Y: onLog(size)})
	}
	p := lines("spectra", "turns per sample", "size", all...)
	p.Y.Log = true
	return p
}

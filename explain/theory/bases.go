package theory

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var basesView = View{
	Name:  "bases",
	Short: "Fourier, Legendre, Laguerre and Chebyshev functions, and a signal as a sum of them",
	Long: `Shows four families of functions side by side, and a signal approximated by the first N of each:

  f(x) ≈ Σ_{i<N} c_i φ_i(x),  c_i = ∫ f φ_i (dx, or w dx for Chebyshev)

  Fourier     1, √2 cos 2πx, √2 sin 2πx, ...            x from 0 to 1, the signal as if it repeated
  Legendre    √(2i+1) P_i(2x-1)                         x from 0 to 1
  Chebyshev   √2 T_i(2x-1), weight 1/(π√(x(1-x)))       x from 0 to 1, with an eye on both ends
  Laguerre    exp(-x/2) L_i(x)                          x from 0, the end of the signal, back to --span, its beginning

Samples are held, so that the coefficients are those of a staircase. The error is the root mean square of what is
missing at the samples, over that of the signal.`,
	Example: `  hippo explain ssm bases
  hippo explain ssm bases --signal square --turns 2 --n 32
  hippo explain ssm bases --signal recording.wav --length 2048`,
	New: func() Options {
		return &BasesOptions{SignalOptions: SignalOptions{Signal: "sum", Length: 256, Turns: 3, Seed: 1}, N: 16}
	},
}

// BasesOptions holds the options of the view bases.
type BasesOptions struct {
	SignalOptions
	N    int     `json:"n" min:"1" max:"128" help:"functions of each family"`
	Span float64 `json:"span" min:"0" max:"1000" help:"where Laguerre has the beginning of the signal; 0: 2n"`
}

// family is a basis with a function that computes the coefficients of samples on [0, 1].
type family struct {
	name    string
	phi     ssm.Basis
	project func(n int, f []float64) []float64
	// at maps a position from 0 to 1 in the signal to the x of the basis.
	at func(v float64) float64
}

func families(span float64) []family {
	same := func(v float64) float64 { return v }
	on01 := func(phi ssm.Basis) func(n int, f []float64) []float64 {
		return func(n int, f []float64) []float64 { return ssm.ProjectSamples(phi, n, 1, f) }
	}
	return []family{
		{"Fourier", ssm.Fourier, on01(ssm.Fourier), same},
		{"Legendre", ssm.Legendre, on01(ssm.Legendre), same},
		{"Chebyshev", ssm.Chebyshev, ssm.ProjectChebyshev, same},
		{"Laguerre", ssm.Laguerre, func(n int, f []float64) []float64 {
			back := slices.Clone(f)
			slices.Reverse(back)
			return ssm.ProjectSamples(ssm.Laguerre, n, span, back)
		}, func(v float64) float64 { return span * (1 - v) }},
	}
}

// Page returns the page with the families and the approximations.
func (o *BasesOptions) Page(ctx context.Context) (*figure.Page, error) {
	s, err := o.take()
	if err != nil {
		return nil, err
	}
	span := o.Span
	if span == 0 {
		span = 2 * float64(o.N)
	}
	page := &figure.Page{
		Title:    "Orthogonal bases",
		Subtitle: fmt.Sprintf("signal: %s, %d samples; the first %d functions of each family", s.name, len(s.u), o.N),
		Notes:    s.notes,
	}
	functions := still("functions", "The first functions of each family",
		"Each function is at right angles to all others: the integral of a product of two is 0. "+
			"So the coefficient of one does not depend on how many others are used. Laguerre functions fade with x, "+
			"the time before now.", "")
	sums := &figure.Figure{Name: "approximation", Title: "The signal as a sum of the first N",
		Caption: "f ≈ Σ_{i<N} c_i φ_i. The more functions, the finer what can be followed; a jump needs many. " +
			fmt.Sprintf("Laguerre functions see the signal backwards, "+
				"from its end at x = 0 to its beginning at x = %.4g.", span)}
	counts := frameCounts(o.N)
	frames := make([]figure.Frame, len(counts))
	for f, n := range counts {
		frames[f].Label = fmt.Sprintf("N = %d", n)
	}
	size := still("coefficients", "Coefficients",
		"|c_i|: how fast they fall says how well the family fits the signal.", "")
	var errors []figure.Series
	lo, hi := bounds(s.u)
	for _, fam := range families(span) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		functions.Frames[0].Panels = append(functions.Frames[0].Panels, o.functions(fam, span))
		c := fam.project(o.N, s.u)
		partial := partialSums(fam, c, len(s.u))
		e := figure.Series{Name: fam.name, X: upTo(o.N+1, 1)[1:], Y: onLog(errorsOf(partial, s.u))}
		errors = append(errors, e)
		at := evenly(len(s.u), mostPoints)
		for f, n := range counts {
			p := lines(fmt.Sprintf("%s, N = %d: error %.3g", fam.name, n, e.Y[n-1]), "sample", "",
				picked("signal", s.u, at), picked(fam.name, partial[n-1], at))
			p.Y.Min, p.Y.Max = lo, hi
			frames[f].Panels = append(frames[f].Panels, p)
		}
		bar := figure.Panel{Title: fam.name, X: figure.Axis{Label: "i"}, Y: figure.Axis{Label: "c_i"},
			Bars: &figure.Bars{Names: texts(o.N, 0, 1), Series: []figure.Series{{Name: fam.name, Y: c}}}}
		size.Frames[0].Panels = append(size.Frames[0].Panels, bar)
	}
	sums.Frames, sums.Columns = frames, 2
	falling := lines("error by N", "N", "relative error", errors...)
	falling.Y.Log = true
	page.Figures = []*figure.Figure{functions, sums, still("errors", "How the error falls",
		"Root mean square of signal minus sum, over that of the signal. "+
			"Fourier series are slow where the ends of the signal differ, since the series takes them for neighbors.",
		"", falling), size}
	return page, nil
}

// Errors returns the relative errors of approximating the signal u (l) by the sum of the first 1, 2, ..., n functions
// of a family, which is "Fourier", "Legendre", "Chebyshev" or "Laguerre", as in the view bases. span is for Laguerre
// only.
func Errors(name string, u []float64, n int, span float64) ([]float64, error) {
	for _, fam := range families(span) {
		if fam.name == name {
			return errorsOf(partialSums(fam, fam.project(n, u), len(u)), u), nil
		}
	}
	return nil, fmt.Errorf("found the basis %q, want Fourier, Legendre, Chebyshev or Laguerre", name)
}

func errorsOf(partial [][]float64, u []float64) []float64 {
	all := make([]float64, len(partial))
	for n, y := range partial {
		all[n] = relative(y, u)
	}
	return all
}

// functions returns a panel of the first few functions of a family.
func (o *BasesOptions) functions(fam family, span float64) figure.Panel {
	const grid, most = 200, 5
	n := min(o.N, most)
	end := 1.0
	if fam.name == "Laguerre" {
		end = span
	}
	var all []figure.Series
	for i := range n {
		s := figure.Series{Name: fmt.Sprintf("φ_%d", i)}
		for k := range grid + 1 {
			x := end * float64(k) / grid
			s.X, s.Y = append(s.X, x), append(s.Y, fam.phi(n, x)[i])
		}
		all = append(all, s)
	}
	return lines(fam.name, "x", "", all...)
}

// partialSums returns Σ_{i<n} c_i φ_i at the middle of each of l samples, for n = 1 to len(c).
func partialSums(fam family, c []float64, l int) [][]float64 {
	sums := make([][]float64, len(c))
	for n := range sums {
		sums[n] = make([]float64, l)
	}
	for k := range l {
		sum := 0.0
		for n, phi := range fam.phi(len(c), fam.at((float64(k)+0.5)/float64(l))) {
			sum += c[n] * phi
			sums[n][k] = sum
		}
	}
	return sums
}

// frameCounts returns the numbers of functions to show in succession: all up to 8, then about a fifth more each time,
// and n.
func frameCounts(n int) []int {
	var counts []int
	for k := 1; k < n; k = max(k+1, int(math.Round(1.2*float64(k)))) {
		counts = append(counts, k)
	}
	return append(counts, n)
}

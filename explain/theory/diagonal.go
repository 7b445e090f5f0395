package theory

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/ssm"
)

var diagonalView = View{
	Name:  "diagonal",
	Short: "A diagonal SSM as a bank of filters: modes, kernels, frequency responses, poles",
	Long: `Shows the diagonal state-space model of S4D and H3: n/2 modes x_i' = A_i x_i + B_i u that do not mix, and the
output y = 2 Re Σ C_i x_i. Each mode is a filter that rings at its frequency and fades at its rate:

  kernel       K_l = 2 Re Σ_i C_i Bbar_i Abar_iˡ         a Vandermonde product
  response     H(θ) = Σ_l K_l exp(-iθl)                  θ: angle from one sample to the next
  half-life    ln 2 / (-Re A dt) samples

A starts from one of the initializations of S4D, arXiv:2206.11893, §4: lin is -½ + iπk, close to the Fourier memory; inv
and legs are close to HiPPO-LegS. C is 1, or random as before training (--random).`,
	Example: `  hippo explain ssm diagonal
  hippo explain ssm diagonal --init legs --n 16 --dt 0.02
  hippo explain ssm diagonal --init inv --random --seed 3 --method zoh`,
	New: func() Options {
		return &DiagonalOptions{Init: "lin", N: 8, Dt: 0.05, Method: "bilinear", Length: 256, Seed: 1}
	},
}

// DiagonalOptions holds the options of the view diagonal.
type DiagonalOptions struct {
	Init   string  `json:"init" enum:"lin,inv,inv2,quad,real,legs" help:"the initialization of A"`
	N      int     `json:"n" min:"2" max:"64" help:"numbers in the state, even: n/2 modes"`
	Dt     float64 `json:"dt" min:"0.00001" max:"10" help:"time from one sample to the next"`
	Method string  `json:"method" enum:"bilinear,zoh,euler,backward_diff" help:"rule of sampling"`
	Length int     `json:"length" min:"8" max:"4096" help:"samples of the kernel"`
	Random bool    `json:"random" help:"draw C as training starts, where it would be 1"`
	Seed   uint64  `json:"seed" help:"of a random C"`
}

// model returns the system that the options specify.
func (o *DiagonalOptions) model() (*ssm.Diagonal, ssm.Method, error) {
	method, err := ssm.ParseMethod(o.Method)
	if err != nil {
		return nil, 0, err
	}
	a, b, err := ssm.DiagonalInit(o.Init, o.N, ssm.ConventionH3)
	if err != nil {
		return nil, 0, err
	}
	s := &ssm.Diagonal{A: a, B: b, C: make([]complex128, len(a)), Dt: o.Dt, Pairs: true}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for i := range s.C {
		s.C[i] = 1
		if o.Random {
			s.C[i] = ssm.ComplexNormal(rng)
		}
	}
	return s, method, nil
}

// Page returns the page with the modes and their sum.
func (o *DiagonalOptions) Page(context.Context) (*figure.Page, error) {
	s, method, err := o.model()
	if err != nil {
		return nil, err
	}
	page := &figure.Page{
		Title: "A diagonal SSM: a bank of filters",
		Subtitle: fmt.Sprintf("%s, a state of %d numbers in %d modes, dt %g, sampled by %s", o.Init, o.N, len(s.A),
			o.Dt, o.Method),
	}
	kernel := s.Kernel(method, o.Length)
	if !(rms(kernel) < largest) {
		return nil, fmt.Errorf("method: the kernel grows without bound, "+
			"as the rule %s is unstable at dt %v for these modes; want a smaller --dt or another --method", o.Method,
			o.Dt)
	}
	abar, _ := s.Discretize(method)
	at := evenly(o.Length, mostPoints)
	whole := lines("kernel", "lag in samples", "", picked("K", kernel, at))
	const shown = 16
	modes := lines("modes", "lag in samples", "")
	responses := lines("frequency responses", "turns per sample", "|H|")
	responses.Y.Log = true
	table := &figure.Table{Columns: []string{"mode", "A", "Abar", "half-life in samples", "turns per sample"}}
	for i := range s.A {
		one := &ssm.Diagonal{A: s.A[i : i+1], B: s.B[i : i+1], C: s.C[i : i+1], Dt: s.Dt, Pairs: true}
		name := fmt.Sprintf("mode %d", i)
		if i < shown {
			modes.Lines.Series = append(modes.Lines.Series, picked(name, one.Kernel(method, o.Length), at))
			responses.Lines.Series = append(responses.Lines.Series, response(name, one, method))
		}
		table.Rows = append(table.Rows, []string{fmt.Sprint(i), fmt.Sprintf("%.4g%+.4gi", real(s.A[i]), imag(s.A[i])),
			fmt.Sprintf("%.4f%+.4fi", real(abar[i]), imag(abar[i])), figure.Number(
				math.Ln2 / -math.Log(cmplx.Abs(abar[i]))),
			figure.Number(cmplx.Phase(abar[i]) / (2 * math.Pi))})
	}
	if len(s.A) > shown {
		page.Notes = append(page.Notes, fmt.Sprintf("The first %d of %d modes are drawn.", shown, len(s.A)))
	}
	continuous := plane("A", false, points("A", s.A))
	continuous.Lines.At = []float64{0}
	all := response("all modes", s, method)
	all.Dashed = true
	responses.Lines.Series = append(responses.Lines.Series, all)
	page.Figures = []*figure.Figure{
		still("kernels", "The kernel is a sum of modes", "K_l = 2 Re Σ_i C_i Bbar_i Abar_iˡ. "+
			"Each mode rings at the frequency of its imaginary part and fades by its real part; C weighs them.",
			"S4D, arXiv:2206.11893, §3", whole, modes),
		still("responses", "Each mode lets its frequencies pass",
			"The size of the response to a wave of each frequency. "+
				"A small dt moves all filters to slower waves and makes them remember longer.", "", responses),
		still("poles", "Poles in both planes", "Left: A, in units of time, one of each conjugate pair. Right: Abar, "+
			"which must be inside the unit circle; near it a mode remembers long.", "",
			continuous, plane("Abar", true, points("Abar", abar)), figure.Panel{Title: "modes", Table: table}),
	}
	return page, nil
}

// response returns the frequency response of a system, from 0 to half the sampling rate.
func response(name string, s *ssm.Diagonal, m ssm.Method) figure.Series {
	out := figure.Series{Name: name}
	for i := range mostPoints {
		turns := 0.5 * (float64(i) + 0.5) / mostPoints
		out.X = append(out.X, turns)
		out.Y = append(out.Y, max(cmplx.Abs(s.FrequencyResponse(m, 2*math.Pi*turns)), 1e-17))
	}
	return out
}

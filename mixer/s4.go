package mixer

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// S4 is the layer of "Efficiently Modeling Long Sequences with Structured State Spaces" (arXiv:2111.00396):
//
//	x' = (Λ - P P^*) x + B u,  y = GLU( W gelu( C x + D u ) + b )
//
// with one system for each channel, discretized by the bilinear rule. Λ, P and B are those of a measure's HiPPO matrix
// in the basis in which its normal part is diagonal. Instead of C, C~ = C (I - Ābar^l_max) is trained: the kernel of
// the first l_max steps is the inverse Fourier transform of sums with Cauchy matrices (appendix C.3). Longer sequences
// are convolved in pieces of l_max that pass on the state. The state is (d_model, d_state/2, 2).
//
// Deliberate differences: C~ starts as a normal draw, where the release draws C and multiplies it by I - Ābar^l_max;
// each channel's C is a separate parameter: C, C_1 and so on.
type S4 struct {
	s4Layer
	C                            []*nn.Param
	LogDt, B, P, InvWReal, WImag *nn.Param
	params                       []*engine.DPLRParams
}

// S4Info describes S4.
var S4Info = Info{
	Name: "s4", Paper: "Efficiently Modeling Long Sequences with Structured State Spaces, arXiv:2111.00396",
	Time:  "l·log l·d + l_max·d_state·d + l·d²",
	State: "d·d_state", Causal: true, Bidirectional: true, Recurrent: true, Builder: builder(s4OptionsOf, newS4),
	Tiny: Tiny{Options: "l_max=256", DModel: 128, NLayer: 4, DInner: 640},
}

type s4Options struct {
	DState  int     `json:"d_state" help:"state size of a channel, two numbers for each complex mode"`
	Measure string  `json:"measure" help:"the HiPPO matrix that A starts from, such as legs, legt, fourier, fourier2"`
	DtMin   float64 `json:"dt_min" help:"smallest initial dt"`
	DtMax   float64 `json:"dt_max" help:"largest initial dt"`
	LMax    int     `json:"l_max" help:"length of the kernel; longer ones go in slow pieces" min:"1" max:"1048576"`
	layerOptions
}

func s4OptionsOf(c Config) s4Options {
	o := s4Options{c.DState, c.Measure, c.DtMin, c.DtMax, 1024, layerDefaults()}
	if o.Measure == "" || strings.HasPrefix(o.Measure, "diag-") {
		o.Measure = "legs" // the model's own measure is for diagonal systems
	}
	return o
}

// newS4 returns an S4 mixer whose parameters have no values yet.
func newS4(cfg Config, o s4Options) (Mixer, error) {
	cfg.DState, cfg.DtMin, cfg.DtMax = o.DState, o.DtMin, o.DtMax
	if err := cfg.checkSystem(); err != nil {
		return nil, err
	}
	measure := o.Measure
	if measure == "fourier" { // as the release calls it
		measure = "fout"
	}
	low, err := ssm.LowRank(measure, 2) // the rank does not depend on the size
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	normal := sync.OnceValue(func() *ssm.DPLR { // only Init computes it: with a large state that takes minutes
		s, _, err := ssm.NPLR(measure, o.DState)
		return must(s, err)
	})
	d, n, rank := cfg.DModel, o.DState/2, len(low)
	m := &S4{
		s4Layer: newS4Layer(d, n, o.layerOptions),
		LogDt:   nn.NewParam(nn.SSMSystem, logUniform(o.DtMin, o.DtMax), d),
		B: nn.NewParam(nn.SSMSystem, repeated(n, func(i int) []float64 { return parts2(normal().B[i]) }),
			1, d, n, 2),
		// Λ may be imaginary, but the trained parameter is the logarithm of its negated real part.
		InvWReal: nn.NewParam(nn.SSMSystem, repeated(n, func(i int) []float64 {
			return []float64{math.Log(max(1e-4, -real(normal().Lambda[i])))}
		}), d, n),
		WImag: nn.NewParam(nn.SSMSystem, repeated(n,
			func(i int) []float64 { return []float64{imag(normal().Lambda[i])} }), d, n),
	}
	var p *tensor.Tensor
	if rank > 0 {
		at := repeated(d*n*rank, func(i int) []float64 { return parts2(normal().P[i/(d*n)][i%n]) })
		m.P = nn.NewParam(nn.SSMSystem, at, rank, d, n, 2)
		p = m.P.Tensor
	}
	for range o.ways() {
		c := nn.NewParam(nn.SSM, nn.Normal(math.Sqrt(0.5)), 1, d, n, 2)
		params := &engine.DPLRParams{
			LogDt: m.LogDt.Tensor, InvAReal: m.InvWReal.Tensor, AImag: m.WImag.Tensor, B: m.B.Tensor, P: p,
			Ct: c.Tensor, L: o.LMax,
		}
		m.C, m.params = append(m.C, c), append(m.params, params)
		m.systems = append(m.systems, system{
			run: func(t *autograd.Tape, u, skip *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
				return t.DPLRSSM(u, t.DPLRSystem(params), skip, r, slots)
			},
			kernel:  func(t *autograd.Tape, l int) *tensor.Tensor { return t.DPLRKernel(t.DPLRSystem(params), l) },
			longest: o.LMax,
		})
	}
	return m, nil
}

// Params visits the parameters under the names of the official layer.
func (m *S4) Params(prefix string, visit nn.Visitor) {
	m.visitD(prefix, visit)
	kernel := prefix + "kernel.kernel."
	visitC(kernel, visit, m.C)
	visit(kernel+"log_dt", m.LogDt)
	visit(kernel+"B", m.B)
	if m.P != nil {
		visit(kernel+"P", m.P)
	}
	visit(kernel+"inv_w_real", m.InvWReal)
	visit(kernel+"w_imag", m.WImag)
	m.Out.Params(prefix+"output_linear.0.", visit)
}

func parts2(z complex128) []float64 { return []float64{real(z), imag(z)} }

func (m *S4) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

func (m *S4) system() System {
	s := systemOf("kernel.kernel", engine.NegExp, m.InvWReal, m.WImag, m.LogDt)
	s.LowRank = mapped(m.P, func(x float64) float64 { return x })
	return s
}

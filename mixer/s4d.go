package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// S4D is the diagonal state-space layer of "On the Parameterization and Initialization of Diagonal State Space Models"
// (arXiv:2206.11893):
//
//	y = GLU( W gelu( SSM_diag(u) + D u ) + b )
//
// By default it is the minimal official form, with B = 1 frozen, zero-order hold and Re A = -exp. Options train B,
// discretize by the bilinear rule, keep Re A negative in another way or not at all (§3.4), or make all modes real. Its
// state is (d_model, d_state/2, 2), or (d_model, d_state, 2) if modes are real.
//
// Deliberate differences: each channel's C is a separate parameter: C, C_1 and so on; B starts at 1 for every measure.
type S4D struct {
	s4Layer
	C                         []*nn.Param
	LogDt, LogAReal, AImag, B *nn.Param // AImag is nil if modes are real, B if it is frozen
	real                      engine.RealPart
}

// S4DInfo describes S4D.
var S4DInfo = Info{
	Name:  "s4d",
	Paper: "On the Parameterization and Initialization of Diagonal State Space Models, arXiv:2206.11893",
	Time:  "l·log l·d + l·d²", State: "d·d_state",
	Causal: true, Bidirectional: true, Recurrent: true, Builder: builder(s4dOptionsOf, newS4D),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 672},
}

type s4dOptions struct {
	diagonalOptions
	Disc   string `json:"disc" enum:"zoh,bilinear" help:"how the system is sampled"`
	TrainB bool   `json:"train_b" help:"B is trained instead of 1"`
	Re     string `json:"real_transform" enum:"exp,softplus,relu,none" help:"of what -Re A is"`
	Real   bool   `json:"real" help:"d_state real modes instead of d_state/2 complex ones; A starts at -1, -2, ..."`
	layerOptions
}

func s4dOptionsOf(c Config) s4dOptions {
	return s4dOptions{diagonalOptions: diagonalOptionsOf(c), Disc: "zoh", Re: "exp", layerOptions: layerDefaults()}
}

// realParts are the options to constrain Re A.
var realParts = map[string]engine.RealPart{
	"exp": engine.NegExp, "softplus": engine.NegSoftplus, "relu": engine.NegReLU, "none": engine.Negative,
}

// startingAt returns an Init for the parameter of Re A. It converts values drawn for -exp such that Re A starts the
// same.
func startingAt(r engine.RealPart, logs func(*rand.Rand, []float32)) func(*rand.Rand, []float32) {
	if r == engine.NegExp {
		return logs
	}
	return func(rng *rand.Rand, x []float32) {
		logs(rng, x)
		for i, l := range x {
			re := math.Exp(float64(l))
			switch r {
			case engine.NegSoftplus:
				re = math.Log(math.Expm1(re))
			case engine.NegReLU:
				re -= engine.ReLUFloor
			}
			x[i] = float32(re)
		}
	}
}

// newS4D returns an S4D mixer whose parameters have no values yet.
func newS4D(cfg Config, o s4dOptions) (Mixer, error) {
	o.set(&cfg)
	disc := engine.ZOH
	if o.Disc == "bilinear" {
		disc = engine.Bilinear
	}
	if o.Real {
		return newRealS4D(cfg, o, disc)
	}
	diag, err := newDiagonal(cfg.DModel, cfg, disc)
	if err != nil {
		return nil, err
	}
	n := cfg.DState / 2
	m := &S4D{s4Layer: newS4Layer(cfg.DModel, n, o.layerOptions), LogDt: diag.LogDt, LogAReal: diag.InvAReal,
		AImag: diag.AImag, real: realParts[o.Re]}
	m.LogAReal.Init = startingAt(m.real, m.LogAReal.Init)
	var b *tensor.Tensor // ones
	if o.TrainB {
		m.B = nn.NewParam(nn.SSMSystem, repeated(1, func(int) []float64 { return []float64{1, 0} }), cfg.DModel, n, 2)
		b = m.B.Tensor
	}
	for range o.ways() {
		c := nn.NewParam(nn.SSM, nn.Normal(math.Sqrt(0.5)), 1, cfg.DModel, n, 2)
		params := &engine.DiagParams{
			LogDt: m.LogDt.Tensor, InvAReal: m.LogAReal.Tensor, AImag: m.AImag.Tensor, B: b, C: c.Tensor, Disc: disc,
			Real: m.real,
		}
		m.C, m.systems = append(m.C, c), append(m.systems, sampled(params))
	}
	return m, nil
}

// newRealS4D is newS4D for real modes.
func newRealS4D(cfg Config, o s4dOptions, disc engine.Discretization) (Mixer, error) {
	if err := cfg.checkSystem(); err != nil {
		return nil, err
	}
	d, n := cfg.DModel, cfg.DState
	if 2*n > maxState {
		return nil, fmt.Errorf("d_state: found %d, want at most %d real modes", n, maxState/2)
	}
	m := &S4D{
		s4Layer: newS4Layer(d, n, o.layerOptions),
		LogDt:   nn.NewParam(nn.SSMSystem, logUniform(cfg.DtMin, cfg.DtMax), d),
		LogAReal: nn.NewParam(nn.SSMSystem,
			startingAt(realParts[o.Re],
				repeated(n, func(i int) []float64 { return []float64{math.Log(float64(i + 1))} })),
			d, n),
		real: realParts[o.Re],
	}
	if o.TrainB {
		m.B = nn.NewParam(nn.SSMSystem, nn.Constant(1), d, n)
	}
	for range o.ways() {
		real := &realDiagonal{logDt: m.LogDt.Tensor, logA: m.LogAReal.Tensor, zeros: zeros(d, n), disc: disc,
			part: m.real}
		c := nn.NewParam(nn.SSM, nn.Normal(1), 1, d, n)
		real.c = c.Tensor
		if m.B != nil {
			real.b = m.B.Tensor
		}
		m.C = append(m.C, c)
		m.systems = append(m.systems,
			diagonalSystem(func(t *autograd.Tape) *engine.DiagSystem { return t.DiagSystem(real.params(t)) },
				func(t *autograd.Tape) *engine.DiagSystem { return t.DiagSystem(unevenly(real.params(t))) }))
	}
	return m, nil
}

// Params visits the parameters under the names of the official layer.
func (m *S4D) Params(prefix string, visit nn.Visitor) {
	m.visitD(prefix, visit)
	visitC(prefix+"kernel.", visit, m.C)
	visit(prefix+"kernel.log_dt", m.LogDt)
	name := "kernel.log_A_real"
	if m.real != engine.NegExp { // not a logarithm
		name = "kernel.inv_A_real"
	}
	visit(prefix+name, m.LogAReal)
	if m.AImag != nil {
		visit(prefix+"kernel.A_imag", m.AImag)
	}
	if m.B != nil {
		visit(prefix+"kernel.B", m.B)
	}
	m.Out.Params(prefix+"output_linear.0.", visit)
}

func (m *S4D) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

func (m *S4D) system() System { return systemOf("kernel", m.real, m.LogAReal, m.AImag, m.LogDt) }

package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mamba is the block of "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (arXiv:2312.00752, §3.4):
//
//	x, z = In(u);   x = silu(conv1d(x));   Δ, B, C = softplus(Dt(Δ')), B, C   with (Δ', B, C) = X(x)
//	y = Out( SSM(Δ, A, B, C)(x) · silu(z) )
//
// over d_inner = expand·d_model channels. The state is the previous inputs of the filter, (d_conv-1, d_inner), and the
// SSM's state, (d_inner, d_state). Its size does not depend on the length of the sequence.
//
// Δ', B and C may each be divided by their root mean square, as in Falcon Mamba (arXiv:2410.05355), or also multiplied
// by learned weights, as in Jamba (arXiv:2403.19887).
type Mamba struct {
	In, X, Dt, Out *nn.Linear
	Conv           shortConv
	ALog, D        *nn.Param // A = -exp(ALog) (d_inner, d_state), the skip D (d_inner)

	DtNorm, BNorm, CNorm *nn.RMSNorm // learned; nil for none

	opt  mambaOptions
	d    int // d_inner
	ones [2]func() *tensor.Tensor
}

// MambaInfo describes Mamba.
var MambaInfo = Info{
	Name:  "mamba",
	Paper: "Mamba: Linear-Time Sequence Modeling with Selective State Spaces, arXiv:2312.00752",
	Time:  "l·d·d_state + l·d²", State: "2·d·(d_state + d_conv - 1)",
	Causal: true, Recurrent: true, Builder: builder(mambaDefaults, newMamba),
	Tiny: Tiny{DModel: 128, NLayer: 7},
}

// mambaCommon has the options common to both Mambas.
type mambaCommon struct {
	DConv   int     `json:"d_conv" help:"taps of the short filter"`
	Expand  int     `json:"expand" help:"inner channels for each of d_model"`
	Inner   int     `json:"d_inner" help:"inner channels; 0 for expand·d_model"`
	DtMin   float64 `json:"dt_min" help:"smallest initial dt"`
	DtMax   float64 `json:"dt_max" help:"largest initial dt"`
	Bias    bool    `json:"bias" help:"biases in the projections"`
	Conv    bool    `json:"conv_bias" help:"biases in the short filter"`
	NormEps float64 `json:"norm_eps" help:"epsilon of norms inside"`
}

type mambaOptions struct {
	DState int    `json:"d_state" help:"states of a channel"`
	DtRank int    `json:"dt_rank" help:"rank of the projection to dt; 0 for d_model/16, rounded up"`
	BCDt   string `json:"bcdt_norm" enum:"none,rms,learned" help:"norms of what dt, B and C are projected to"`
	mambaCommon
}

// mambaDefaults returns the options of the release. d_state does not come from cfg, whose default is for H3.
func mambaDefaults(c Config) mambaOptions {
	return mambaOptions{DState: 16, BCDt: "none", mambaCommon: mambaCommonDefaults(c)}
}

func mambaCommonDefaults(c Config) mambaCommon {
	return mambaCommon{DConv: 4, Expand: 2, DtMin: c.DtMin, DtMax: c.DtMax, Conv: true, NormEps: mambaEps}
}

// mambaEps is the epsilon of the norms inside the released mixers.
const mambaEps = 1e-5

// maxExpand bounds the cost of a wrong configuration.
const maxExpand = 64

// check returns an error for invalid options. It also computes Inner, the number of inner channels.
func (o *mambaCommon) check(dModel int) error {
	if o.Expand < 1 || o.Expand > maxExpand {
		return fmt.Errorf("expand: found %d, want 1 to %d", o.Expand, maxExpand)
	}
	if o.Inner == 0 {
		o.Inner = o.Expand * dModel
	}
	switch {
	case o.Inner < 1 || o.Inner > maxExpand*dModel:
		return fmt.Errorf("d_inner: found %d, want 1 to %d", o.Inner, maxExpand*dModel)
	case !(o.NormEps > 0):
		return fmt.Errorf("norm_eps: found %g, want more than 0", o.NormEps)
	case o.DConv < 1 || o.DConv > maxState:
		return fmt.Errorf("d_conv: found %d, want 1 to %d", o.DConv, maxState)
	case !(o.DtMin > 0 && o.DtMin <= o.DtMax):
		return fmt.Errorf("dt_min, dt_max: found %g, %g, want 0 < dt_min ≤ dt_max", o.DtMin, o.DtMax)
	}
	return nil
}

// newMamba returns a Mamba mixer whose parameters have no values yet.
func newMamba(cfg Config, o mambaOptions) (Mixer, error) {
	if err := o.check(cfg.DModel); err != nil {
		return nil, err
	}
	if o.DState < 1 || o.DState > maxState {
		return nil, fmt.Errorf("d_state: found %d, want 1 to %d", o.DState, maxState)
	}
	d := o.Inner
	if o.DtRank == 0 {
		o.DtRank = (cfg.DModel + 15) / 16
	}
	if o.DtRank < 1 || o.DtRank > d {
		return nil, fmt.Errorf("dt_rank: found %d, want 0 (for d_model/16) or 1 to %d", o.DtRank, d)
	}
	m := &Mamba{
		In:   projection(cfg.DModel, 2*d, 1, o.Bias),
		Conv: newShortConv(d, o.DConv, o.Conv, engine.SiLU),
		X:    projection(d, o.DtRank+2*o.DState, 1, false),
		Dt: &nn.Linear{
			Weight: nn.NewMatrix(nn.Uniform(1/math.Sqrt(float64(o.DtRank))), d, o.DtRank),
			Bias:   nn.NewParam(nn.Bias, inverseSoftplus(o.DtMin, o.DtMax), d), Activation: engine.Softplus,
		},
		ALog: nn.NewParam(nn.SSMSystem, repeated(o.DState, func(i int) []float64 {
			return []float64{math.Log(float64(i + 1))}
		}), d, o.DState),
		D:   nn.NewParam(nn.SSMSystem, nn.Constant(1), d),
		Out: projection(d, cfg.DModel, cfg.NLayer, o.Bias),
		opt: o, d: d, ones: [2]func() *tensor.Tensor{ones(o.DtRank), ones(2 * o.DState)},
	}
	m.X.Weight.Fine, m.Dt.Weight.Fine = true, true // small, and their errors accumulate in the state
	if o.BCDt == "learned" {
		m.DtNorm, m.BNorm = nn.NewRMSNorm(o.DtRank, o.NormEps), nn.NewRMSNorm(o.DState, o.NormEps)
		m.CNorm = nn.NewRMSNorm(o.DState, o.NormEps)
	}
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *Mamba) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	n := m.opt.DState
	xz := t.Columns(m.In.Forward(t, u), m.d, m.d)
	x := m.Conv.forward(t, xz[0], r)
	p := t.Split(m.X.Forward(t, x), m.opt.DtRank, 2*n)
	dt, bc := m.normed(t, p[0], p[1])
	dt = r.stepped(t, m.Dt.Forward(t, dt)) // Δ = softplus(Dt Δ' + bias)
	y := t.SelectiveScan(x, dt, t.NegExp(m.ALog.Tensor), bc, m.D.Tensor, 1, r.Rows, r.fixed(1))
	return m.Out.Forward(t, t.Gate(y, xz[1], engine.SiLU))
}

// normed applies the norms of Δ' and of B and C, if there are any.
func (m *Mamba) normed(t *autograd.Tape, dt, bc *tensor.Tensor) (_, _ *tensor.Tensor) {
	if m.opt.BCDt == "none" {
		return dt, bc
	}
	weights := [2]*tensor.Tensor{}
	if m.DtNorm == nil {
		weights[0], weights[1] = m.ones[0](), m.ones[1]()
	} else {
		weights[0], weights[1] = m.DtNorm.Weight.Tensor, t.Join(m.BNorm.Weight.Tensor, m.CNorm.Weight.Tensor)
	}
	return t.RMSNorm(dt, weights[0], 1, m.opt.NormEps), t.RMSNorm(bc, weights[1], 2, m.opt.NormEps)
}

// NewState returns the state before the first position, zeros.
func (m *Mamba) NewState() State {
	return newFixedState([]string{"conv", "ssm"}, []int{m.opt.DConv - 1, m.d}, []int{m.d, m.opt.DState}).
		of(PositionRows, Numbers)
}

// Traits returns the traits of a recurrence.
func (m *Mamba) Traits() Traits { return Traits{Steps: true, StepsRows: true} }

// Params visits the parameters under their official names.
func (m *Mamba) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"A_log", m.ALog)
	visit(prefix+"D", m.D)
	m.In.Params(prefix+"in_proj.", visit)
	m.Conv.params(prefix+"conv1d.", visit)
	m.X.Params(prefix+"x_proj.", visit)
	m.Dt.Params(prefix+"dt_proj.", visit)
	if m.DtNorm != nil {
		m.DtNorm.Params(prefix+"dt_norm.", visit)
		m.BNorm.Params(prefix+"b_norm.", visit)
		m.CNorm.Params(prefix+"c_norm.", visit)
	}
	m.Out.Params(prefix+"out_proj.", visit)
}

// shortConv is a causal filter of a few taps for each channel, followed by an activation.
type shortConv struct {
	weight, bias *nn.Param
	activation   engine.Activation
}

// newShortConv returns a filter over d channels whose parameters start as in PyTorch's Conv1d. Without a bias, bias is
// nil.
func newShortConv(d, taps int, bias bool, a engine.Activation) shortConv {
	start := nn.Uniform(1 / math.Sqrt(float64(taps)))
	c := shortConv{weight: nn.NewParam(nn.Mixing, start, d, 1, taps), activation: a}
	if bias {
		c.bias = nn.NewParam(nn.Bias, start, d)
	}
	return c
}

// forward filters x. Part 0 of the rows' states holds the previous inputs.
func (c *shortConv) forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	var bias *tensor.Tensor
	if c.bias != nil {
		bias = c.bias.Tensor
	}
	return t.CausalConv(x, c.weight.Tensor, bias, c.activation, r.Rows, r.fixed(0))
}

func (c *shortConv) params(prefix string, visit nn.Visitor) {
	visit(prefix+"weight", c.weight)
	if c.bias != nil {
		visit(prefix+"bias", c.bias)
	}
}

// projection returns a Linear whose weights start as in PyTorch, divided by √shared. shared is the number of layers for
// a projection that adds to the stream, else 1.
func projection(in, out, shared int, bias bool) *nn.Linear {
	m := &nn.Linear{Weight: nn.NewMatrix(nn.Uniform(1/math.Sqrt(float64(in*max(1, shared)))), out, in)}
	if bias {
		m.Bias = nn.NewParam(nn.Bias, nn.Constant(0), out)
	}
	return m
}

// inverseSoftplus draws dt log-uniformly between lo and hi, and returns x with softplus(x) = dt.
func inverseSoftplus(lo, hi float64) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		for i := range x {
			dt := max(ssm.LogUniform(rng, lo, hi), 1e-4)
			x[i] = float32(dt + math.Log(-math.Expm1(-dt)))
		}
	}
}

func (m *Mamba) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}

func (m *Mamba) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

func (m *Mamba) system() System {
	s := systemOf("", engine.NegExp, m.ALog, nil, nil)
	s.Dt = mapped(m.Dt.Bias, softplus)
	return s
}

package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mamba2 is the block of "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State
// Space Duality" (arXiv:2405.21060, §7):
//
//	z, (x, B, C), dt = In(u);   (x, B, C) = silu(conv1d(x, B, C));   dt = softplus(dt + dt_bias)
//	y = Out( RMSNorm( SSD(dt, A, B, C)(x) · silu(z) ) )
//
// over d_inner = expand·d_model channels in heads of headdim. The heads of a group share B and C. By option, the norm
// is over each group or over all channels, is before the gate, or is left out; dt is limited to a range; and the
// outputs of In are multiplied by constants (as in Falcon-H1, arXiv:2507.22448). The state is the previous inputs of
// the filter, (d_conv-1, d_inner + 2·ngroups·d_state), and the SSM's state, (heads, headdim, d_state). Its size does
// not depend on the length of the sequence.
type Mamba2 struct {
	In, Out         *nn.Linear
	Conv            shortConv
	DtBias, ALog, D *nn.Param // (heads) each
	Norm            *nn.RMSNorm

	opt          mamba2Options
	d            int // d_inner
	heads        int
	scales, none func() *tensor.Tensor // factors of In's outputs, and zeros; nil for no factors
}

// Mamba2Info describes Mamba2.
var Mamba2Info = Info{
	Name: "mamba2",
	Paper: "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State " +
		"Space Duality, arXiv:2405.21060",
	Time: "l·d·d_state + l·d²", State: "2·d·d_state",
	Causal: true, Recurrent: true, Builder: builder(mamba2Defaults, newMamba2),
	Tiny: Tiny{Options: "d_state=32,headdim=32", DModel: 128, NLayer: 8},
}

type mamba2Options struct {
	DState         int     `json:"d_state" help:"states of a channel"`
	HeadDim        int     `json:"headdim" help:"channels of a head; 0 for 64, or a quarter of all if that is less"`
	Groups         int     `json:"ngroups" help:"groups of heads, each with a B and a C of its own"`
	RMSNorm        bool    `json:"rmsnorm" help:"a norm at the gate"`
	NormBeforeGate bool    `json:"norm_before_gate" help:"the norm stands before the gate, not after it"`
	GroupedNorm    bool    `json:"grouped_norm" help:"the norm is over each group, not over all channels"`
	InBias         bool    `json:"in_bias" help:"biases in the first projection, though not in both"`
	OutBias        bool    `json:"out_bias" help:"biases in the last projection, though not in both"`
	DtLow          float64 `json:"dt_low" min:"0" help:"dt is at least that"`
	DtHigh         float64 `json:"dt_high" min:"0" help:"dt is at most that; 0 for any"`
	ZScale         float64 `json:"z_scale" help:"multiplies the gate's part of the first projection"`
	XScale         float64 `json:"x_scale" help:"multiplies its part x"`
	BScale         float64 `json:"b_scale" help:"multiplies its part B"`
	CScale         float64 `json:"c_scale" help:"multiplies its part C"`
	DtScale        float64 `json:"dt_scale" help:"multiplies its part dt"`
	mambaCommon
}

// mamba2Defaults returns the options of the release. d_state does not come from cfg, whose default is for H3.
func mamba2Defaults(c Config) mamba2Options {
	return mamba2Options{DState: 128, Groups: 1, RMSNorm: true, GroupedNorm: true, mambaCommon: mambaCommonDefaults(c),
		ZScale: 1, XScale: 1, BScale: 1, CScale: 1, DtScale: 1}
}

// mamba2HeadDim is the number of channels of a head in the releases.
const mamba2HeadDim = 64

// newMamba2 returns a Mamba-2 mixer whose parameters have no values yet.
func newMamba2(cfg Config, o mamba2Options) (Mixer, error) {
	if err := o.check(cfg.DModel); err != nil {
		return nil, err
	}
	d := o.Inner
	if o.HeadDim == 0 {
		o.HeadDim = min(mamba2HeadDim, d/4)
	}
	switch {
	case o.DState < 1 || o.DState > maxState:
		return nil, fmt.Errorf("d_state: found %d, want 1 to %d", o.DState, maxState)
	case o.HeadDim < 1 || d%o.HeadDim != 0:
		return nil, fmt.Errorf("headdim: found %d, want a divisor of d_inner %d", o.HeadDim, d)
	case o.Groups < 1 || d/o.HeadDim%o.Groups != 0:
		return nil, fmt.Errorf("ngroups: found %d, want a divisor of the %d heads", o.Groups, d/o.HeadDim)
	case o.DtHigh > 0 && o.DtHigh < o.DtLow:
		return nil, fmt.Errorf("dt_low, dt_high: found %g, %g, want dt_low ≤ dt_high", o.DtLow, o.DtHigh)
	}
	heads, filtered := d/o.HeadDim, d+2*o.Groups*o.DState
	m := &Mamba2{
		In:     projection(cfg.DModel, d+filtered+heads, 1, o.Bias || o.InBias),
		Conv:   newShortConv(filtered, o.DConv, o.Conv, engine.SiLU),
		DtBias: nn.NewParam(nn.SSMSystem, inverseSoftplus(o.DtMin, o.DtMax), heads),
		ALog:   nn.NewParam(nn.SSMSystem, logOfUniform(1, 16), heads),
		D:      nn.NewParam(nn.SSMSystem, nn.Constant(1), heads),
		Out:    projection(d, cfg.DModel, cfg.NLayer, o.Bias || o.OutBias),
		opt:    o, d: d, heads: heads,
	}
	if o.RMSNorm {
		m.Norm = nn.NewRMSNorm(d, o.NormEps)
	}
	m.setScales()
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *Mamba2) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	filtered := m.d + 2*m.opt.Groups*m.opt.DState
	in := m.In.Forward(t, u)
	if m.scales != nil {
		in = t.ScaleShift(in, m.scales(), m.none())
	}
	p := t.Columns(in, m.d, filtered, m.heads)
	z, dt := p[0], m.limited(t, t.AddBias(p[2], m.DtBias.Tensor, engine.Softplus))
	xbc := m.Conv.forward(t, p[1], r)
	dt, a := r.stepped(t, dt), t.NegExp(m.ALog.Tensor)
	y := t.SSD(xbc, dt, a, m.D.Tensor, m.opt.HeadDim, m.opt.Groups, r.Rows, r.fixed(1))
	return m.Out.Forward(t, m.gate(t, y, z))
}

// setScales creates the constants that In's outputs are multiplied by, unless all are one.
func (m *Mamba2) setScales() {
	o, bc := &m.opt, m.opt.Groups*m.opt.DState
	parts := []struct {
		n     int
		scale float64
	}{{m.d, o.ZScale}, {m.d, o.XScale}, {bc, o.BScale}, {bc, o.CScale}, {m.heads, o.DtScale}}
	total, all := 0, true
	for _, p := range parts {
		total, all = total+p.n, all && p.scale == 1
	}
	if all {
		return
	}
	m.none = zeros(total)
	m.scales = sync.OnceValue(func() *tensor.Tensor {
		part, end := -1, 0
		return vectorOf(total, func(i int) float32 {
			for i >= end {
				part++
				end += parts[part].n
			}
			return float32(parts[part].scale)
		})
	})
}

// limited returns dt limited to its range.
func (m *Mamba2) limited(t *autograd.Tape, dt *tensor.Tensor) *tensor.Tensor {
	if m.opt.DtLow == 0 && m.opt.DtHigh == 0 {
		return dt
	}
	high := m.opt.DtHigh
	if high == 0 {
		high = math.MaxFloat32
	}
	return t.Clamp(dt, m.opt.DtLow, high)
}

// gate returns RMSNorm(y·silu(z)), RMSNorm(y)·silu(z), or y·silu(z).
func (m *Mamba2) gate(t *autograd.Tape, y, z *tensor.Tensor) *tensor.Tensor {
	groups := 1
	if m.opt.GroupedNorm {
		groups = m.opt.Groups
	}
	if m.Norm != nil && m.opt.NormBeforeGate {
		y = t.RMSNorm(y, m.Norm.Weight.Tensor, groups, m.Norm.Eps)
	}
	y = t.Gate(y, z, engine.SiLU)
	if m.Norm != nil && !m.opt.NormBeforeGate {
		y = t.RMSNorm(y, m.Norm.Weight.Tensor, groups, m.Norm.Eps)
	}
	return y
}

// NewState returns the state before the first position, zeros.
func (m *Mamba2) NewState() State {
	return newFixedState([]string{"conv", "ssm"}, []int{m.opt.DConv - 1, m.d + 2*m.opt.Groups*m.opt.DState},
		[]int{m.heads, m.opt.HeadDim, m.opt.DState}).of(PositionRows, Numbers).mayRound("ssm")
}

// Traits returns the traits of a recurrence.
func (m *Mamba2) Traits() Traits { return Traits{Steps: true, StepsRows: true} }

// Params visits the parameters under their official names.
func (m *Mamba2) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"dt_bias", m.DtBias)
	visit(prefix+"A_log", m.ALog)
	visit(prefix+"D", m.D)
	m.In.Params(prefix+"in_proj.", visit)
	m.Conv.params(prefix+"conv1d.", visit)
	if m.Norm != nil {
		m.Norm.Params(prefix+"norm.", visit)
	}
	m.Out.Params(prefix+"out_proj.", visit)
}

// logOfUniform returns an Init that draws uniformly between lo and hi and takes the logarithm.
func logOfUniform(lo, hi float64) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32(math.Log(lo + (hi-lo)*rng.Float64()))
		}
	}
}

func (m *Mamba2) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}

func (m *Mamba2) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.heads} }

// system returns the poles: one for each head, each with its own step.
func (m *Mamba2) system() System {
	s := systemOf("", engine.NegExp, m.ALog, nil, nil)
	s.Rows, s.Dt = m.heads, mapped(m.DtBias, softplus)
	return s
}

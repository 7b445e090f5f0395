package mixer

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mamba3 is the block of "Mamba-3: Improved Sequence Modeling using State Space Principles" (arXiv:2603.15569):
//
//	z, x, B, C, dt, A, λ, ω = In(u);   dt = softplus(dt + dt_bias), A = -max(h(A), A_floor), λ = σ(λ)
//	φ[t] = φ[t-1] + π·tanh(ω)·dt mod 2π;   B, C = turn(norm(B) + B_bias, φ), turn(norm(C) + C_bias, φ)
//	S[t] = e^(A·dt)·(S[t-1] + (1-λ)·dt·x[t-1]·B[t-1]ᵀ) + λ·dt·x[t]·B[t]ᵀ;   y = Out( (S[t]·C[t] + D·x[t]) ⊙ silu(z) )
//
// over d_inner = expand·d_model channels in heads of headdim. It is a state-space model that is discretized by the
// trapezoid rule, and whose states rotate by angles that depend on the input, as complex states would. h(x) is 1+x for
// x ≥ 0 and 1/(1-x) for x < 0, or softplus. There is no short filter. Norms are over d_state components; with
// is_outproj_norm, another norm over each head precedes the gate.
//
// With is_mimo there are mimo_rank vectors B_r and C_r instead of one each, x_r = x ⊙ mimo_x_r and z_r = z ⊙ mimo_z_r.
// All B_r write to the state, and y = Out( Σ_r mimo_o_r ⊙ y_r ).
//
// The state is the angles φ (heads, angles), S (heads, d_state, headdim), and B (rank, heads, d_state) and x_r (rank,
// heads, headdim) of the last position.
type Mamba3 struct {
	In, Out             *nn.Linear
	DtBias, D           *nn.Param // (heads)
	BBias, CBias        *nn.Param // (heads, rank, d_state)
	BNorm, CNorm        *nn.Param // (d_state)
	MimoX, MimoZ, MimoO *nn.Param // (heads, rank, headdim); nil without is_mimo
	Norm                *nn.Param // (d_inner); nil for none

	opt    mamba3Options
	d      int // d_inner
	heads  int
	angles int
	ranks  int
	no     func() *tensor.Tensor
}

// Mamba3Info describes Mamba3.
var Mamba3Info = Info{
	Name:  "mamba3",
	Paper: "Mamba-3: Improved Sequence Modeling using State Space Principles, arXiv:2603.15569",
	Time:  "l·d·d_state + l·d²", State: "2·d·d_state",
	Causal: true, Recurrent: true, Builder: builder(mamba3Defaults, newMamba3),
	Tiny: Tiny{Options: "d_state=32,headdim=32", DModel: 128, NLayer: 8},
}

type mamba3Options struct {
	DState   int     `json:"d_state" help:"states of a channel"`
	Expand   int     `json:"expand" help:"inner channels for each of d_model"`
	HeadDim  int     `json:"headdim" help:"channels of a head; 0 for 64, or a quarter of all if that is less"`
	Groups   int     `json:"ngroups" help:"groups of heads, each with a B and a C of its own"`
	Rope     float64 `json:"rope_fraction" help:"of the states that turn: 0.5 or 1"`
	Softplus bool    `json:"softplus_A" help:"h is softplus, as in the first releases of the code"`
	AFloor   float64 `json:"A_floor" min:"0" help:"-A is at least that"`
	OutNorm  bool    `json:"is_outproj_norm" help:"a norm of each head before the gate"`
	MIMO     bool    `json:"is_mimo" help:"several vectors B and C for each head"`
	MimoRank int     `json:"mimo_rank" help:"how many, with is_mimo" min:"1" max:"64"`
	DtMin    float64 `json:"dt_min" help:"smallest initial dt"`
	DtMax    float64 `json:"dt_max" help:"largest initial dt"`
	NormEps  float64 `json:"norm_eps" help:"epsilon of norms"`
}

func mamba3Defaults(c Config) mamba3Options {
	return mamba3Options{DState: 128, Expand: 2, Groups: 1, Rope: 0.5, AFloor: 1e-4, MimoRank: 4, DtMin: c.DtMin,
		DtMax: c.DtMax, NormEps: mambaEps}
}

// newMamba3 returns a Mamba-3 mixer whose parameters have no values yet.
func newMamba3(cfg Config, o mamba3Options) (Mixer, error) {
	if o.Expand < 1 || o.Expand > maxExpand {
		return nil, fmt.Errorf("expand: found %d, want 1 to %d", o.Expand, maxExpand)
	}
	d := o.Expand * cfg.DModel
	if o.HeadDim == 0 {
		o.HeadDim = min(mamba2HeadDim, d/4)
	}
	switch {
	case o.DState < 2 || o.DState > maxState || o.DState%2 != 0:
		return nil, fmt.Errorf("d_state: found %d, want an even number from 2 to %d", o.DState, maxState)
	case o.HeadDim < 1 || d%o.HeadDim != 0:
		return nil, fmt.Errorf("headdim: found %d, want a divisor of d_inner %d", o.HeadDim, d)
	case o.Groups < 1 || d/o.HeadDim%o.Groups != 0:
		return nil, fmt.Errorf("ngroups: found %d, want a divisor of the %d heads", o.Groups, d/o.HeadDim)
	case !(o.Rope > 0 && o.Rope <= 1) || int(float64(o.DState)*o.Rope)/2 < 1:
		return nil, fmt.Errorf("rope_fraction: found %g, want at most 1, and an angle for d_state %d", o.Rope, o.DState)
	case !(o.DtMin > 0 && o.DtMin <= o.DtMax):
		return nil, fmt.Errorf("dt_min, dt_max: found %g, %g, want 0 < dt_min ≤ dt_max", o.DtMin, o.DtMax)
	case !(o.NormEps > 0):
		return nil, fmt.Errorf("norm_eps: found %g, want more than 0", o.NormEps)
	}
	heads, angles, ranks, n := d/o.HeadDim, int(float64(o.DState)*o.Rope)/2, 1, o.DState
	if o.MIMO {
		ranks = o.MimoRank
	}
	m := &Mamba3{
		In:     projection(cfg.DModel, 2*d+2*ranks*o.Groups*n+3*heads+angles, 1, false),
		Out:    projection(d, cfg.DModel, cfg.NLayer, false),
		DtBias: nn.NewParam(nn.SSMSystem, inverseSoftplus(o.DtMin, o.DtMax), heads),
		BBias:  nn.NewParam(nn.SSMSystem, nn.Constant(1), heads, ranks, n),
		CBias:  nn.NewParam(nn.SSMSystem, nn.Constant(1), heads, ranks, n),
		BNorm:  nn.NewParam(nn.Norm, nn.Constant(1), n), CNorm: nn.NewParam(nn.Norm, nn.Constant(1), n),
		D:   nn.NewParam(nn.SSMSystem, nn.Constant(1), heads),
		opt: o, d: d, heads: heads, angles: angles, ranks: ranks, no: zeros(d),
	}
	if o.MIMO {
		share := nn.Constant(1 / float32(ranks))
		m.MimoX = nn.NewParam(nn.Mixing, share, heads, ranks, o.HeadDim)
		m.MimoZ = nn.NewParam(nn.Mixing, nn.Constant(1), heads, ranks, o.HeadDim)
		m.MimoO = nn.NewParam(nn.Mixing, share, heads, ranks, o.HeadDim)
	}
	if o.OutNorm {
		m.Norm = nn.NewParam(nn.Norm, nn.Constant(1), d)
	}
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *Mamba3) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	vectors, keys := m.ranks*m.opt.Groups, m.ranks*m.heads*m.opt.DState
	p := t.Split(m.In.Forward(t, u), m.d, m.d, 2*vectors*m.opt.DState, m.heads, m.heads, m.heads, m.angles)
	dt := r.stepped(t, t.AddBias(p[3], m.DtBias.Tensor, engine.Softplus))
	h := engine.HeavyTail
	if m.opt.Softplus {
		h = engine.Softplus
	}
	a := t.Scale(t.Clamp(t.Activate(p[4], h), m.opt.AFloor, math.MaxFloat32), -1)
	phase := t.Phase(t.Scale(t.Activate(p[6], engine.Tanh), math.Pi), dt, r.Rows, r.fixed(0))
	bc := t.RMSNorm(p[2], m.weights(t, vectors), 2*vectors, m.opt.NormEps)
	bias := t.Stack(append(m.ofRanks(t, m.BBias), m.ofRanks(t, m.CBias)...)...)
	bc = t.Turn(bc, bias, phase, engine.Turning{Ranks: 2 * m.ranks, Groups: m.opt.Groups, Heads: m.heads,
		Halves: m.opt.MIMO})
	k := t.Split(bc, keys, keys)
	y := r.oneByOne(t, func(t *autograd.Tape, r *Rows, x ...*tensor.Tensor) *tensor.Tensor {
		return t.Trapezoid(engine.Trapezoid{Q: x[0], K: x[1], V: x[2], A: x[3], Dt: x[4], Lambda: x[5], D: m.D.Tensor,
			Heads: m.heads, Ranks: m.ranks}, r.Rows,
			engine.TrapezoidSlots{S: r.fixed(1), K: r.fixed(2), V: r.fixed(3)})
	}, k[1], k[0], t.Join(m.spread(t, p[1], m.MimoX)...), a, dt, t.Activate(p[5], engine.Sigmoid))
	return m.Out.Forward(t, m.gate(t, y, p[0]))
}

// weights returns the weights of the norms of all vectors B, followed by those of all C.
func (m *Mamba3) weights(t *autograd.Tape, vectors int) *tensor.Tensor {
	all := make([]*tensor.Tensor, 2*vectors)
	for i := range all {
		all[i] = m.BNorm.Tensor
		if i >= vectors {
			all[i] = m.CNorm.Tensor
		}
	}
	return t.Join(all...)
}

// ofRanks returns the parts (heads, n) of a parameter (heads, rank, n), one for each rank.
func (m *Mamba3) ofRanks(t *autograd.Tape, x *nn.Param) []*tensor.Tensor {
	rows, all := engine.EqualRows(m.heads, m.ranks), make([]*tensor.Tensor, m.ranks)
	at, one := make([]int, m.heads), make([]int, m.heads)
	for i := range one {
		one[i] = 1
	}
	for r := range all {
		for i := range at {
			at[i] = r
		}
		all[r] = t.Cut(x.Tensor, rows, at, one)
	}
	return all
}

// spread returns x (n, d_inner) multiplied by the weights of each rank, or x itself without is_mimo.
func (m *Mamba3) spread(t *autograd.Tape, x *tensor.Tensor, by *nn.Param) []*tensor.Tensor {
	if by == nil {
		return []*tensor.Tensor{x}
	}
	all := m.ofRanks(t, by)
	for r, w := range all {
		all[r] = t.ScaleShift(x, w, m.no())
	}
	return all
}

// gate returns the sum over ranks of y·silu(z). y is normalized first if there is a norm.
func (m *Mamba3) gate(t *autograd.Tape, y, z *tensor.Tensor) *tensor.Tensor {
	widths := make([]int, m.ranks)
	for r := range widths {
		widths[r] = m.d
	}
	var sum *tensor.Tensor
	zs, out := m.spread(t, z, m.MimoZ), []*tensor.Tensor(nil)
	if m.MimoO != nil {
		out = m.ofRanks(t, m.MimoO)
	}
	for r, y := range t.Split(y, widths...) {
		if m.Norm != nil {
			y = t.RMSNorm(y, m.Norm.Tensor, m.heads, m.opt.NormEps)
		}
		y = t.Gate(y, zs[r], engine.SiLU)
		if out != nil {
			y = t.ScaleShift(y, out[r], m.no())
		}
		if sum == nil {
			sum = y
		} else {
			sum = t.Add(sum, y)
		}
	}
	return sum
}

// NewState returns the state before the first position, zeros.
func (m *Mamba3) NewState() State {
	h, n, p := m.heads, m.opt.DState, m.opt.HeadDim
	return newFixedState([]string{"angle", "ssm", "k", "v"}, []int{h, m.angles}, []int{h, n, p}, []int{m.ranks, h, n},
		[]int{m.ranks, h, p})
}

// Traits returns the traits of a recurrence.
func (m *Mamba3) Traits() Traits { return Traits{Steps: true, StepsRows: true} }

// Params visits the parameters under their official names.
func (m *Mamba3) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"dt_bias", m.DtBias)
	visit(prefix+"B_bias", m.BBias)
	visit(prefix+"C_bias", m.CBias)
	visit(prefix+"D", m.D)
	if m.opt.MIMO {
		visit(prefix+"mimo_x", m.MimoX)
		visit(prefix+"mimo_z", m.MimoZ)
		visit(prefix+"mimo_o", m.MimoO)
	}
	m.In.Params(prefix+"in_proj.", visit)
	visit(prefix+"B_norm.weight", m.BNorm)
	visit(prefix+"C_norm.weight", m.CNorm)
	if m.Norm != nil {
		visit(prefix+"norm.weight", m.Norm)
	}
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *Mamba3) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.heads} }

// stateRules returns the rule that the angles are not linear.
func (m *Mamba3) stateRules(*autograd.Tape) map[string]StateRule {
	return map[string]StateRule{"angle": {NotLinear: true}}
}

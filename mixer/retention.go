package mixer

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Retention is the mixer of "Retentive Network: A Successor to Transformer for Large Language Models"
// (arXiv:2307.08621, §2): linear attention without a feature map, with rotated queries and keys, whose past decays at a
// different rate in each head h,
//
//	o_t = Σ_{s ≤ t} γ_h^(t-s) ((R_t q_t)·(R_s k_s)) v_s,   γ_h = 1 - 2^(-5-h)
//	y = W_o ( silu(W_g u) ⊙ norm_h(o) )
//
// where R_t is the rotation of position t and k is scaled by 1/√head_dim. As a recurrence,
//
//	S_t = γ_h S_{t-1} + v_t (R_t k_t)ᵀ,   o_t = S_t R_t q_t
//
// it is Mamba-2's (SSD) for dt = 1/√head_dim, A = log(γ)/dt, B = R k and C = R q, and is computed in this way. Its
// state is S (heads, head_dim, head_dim).
//
// With published=true it is as published: values and gates are twice as wide as keys (§3.1), and angles are those of
// the authors' code, base^(-i/(head_dim/2-1)), which ends at 1/base.
//
// Deliberate differences: without published=true, values are as wide as keys, and angles are those of rotary positions,
// base^(-2i/head_dim). In all cases, a pair consists of components from the two halves of a head, where the authors'
// code pairs neighbors; these are equal up to the order of the projections' rows. A head with an odd number of
// components leaves the last one unrotated. The norm of each head is RMSNorm, as in the authors' code, but with
// weights. The normalization of scores in the paper and in the authors' code makes no difference before that norm.
type Retention struct {
	In, Out *nn.Linear // In: gate, values, keys, queries
	Norm    *nn.RMSNorm

	d, heads      int
	wide          int // width of the values
	rotary        engine.Rotary
	dt            float32
	decay, noSkip *tensor.Tensor // A and zeros, for each head
}

// RetentionInfo describes Retention.
var RetentionInfo = Info{
	Name:   "retention",
	Paper:  "Retentive Network: A Successor to Transformer for Large Language Models, arXiv:2307.08621",
	Time:   "l·d·(head_dim + block) + l·d²",
	State:  "d·head_dim",
	Causal: true, Recurrent: true, Builder: builder(retentionDefaults, newRetention),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 512},
}

type retentionOptions struct {
	NumHeads  int  `json:"num_heads" help:"heads, each with a rate of decay of its own"`
	Published bool `json:"published" help:"values twice as wide as keys, and the angles of the authors' code"`
}

func retentionDefaults(c Config) retentionOptions { return retentionOptions{NumHeads: c.NumHeads} }

// newRetention returns a retention mixer whose parameters have no values yet.
func newRetention(cfg Config, o retentionOptions) (Mixer, error) {
	d := cfg.DModel
	if err := checkHeads(o.NumHeads, d); err != nil {
		return nil, err
	}
	if o.NumHeads > 48 {
		return nil, fmt.Errorf("num_heads: found %d, want at most 48: further heads would not forget at all",
			o.NumHeads)
	}
	hd := d / o.NumHeads
	dt := 1 / math.Sqrt(float64(hd))
	decay := make([]float32, o.NumHeads)
	for h := range decay {
		decay[h] = float32(math.Log1p(-math.Exp2(float64(-5-h))) / dt)
	}
	m := &Retention{
		d: d, heads: o.NumHeads, wide: d, rotary: engine.Rotary{Dim: hd - hd%2},
		dt: float32(dt), decay: tensor.FromSlice(decay, o.NumHeads), noSkip: tensor.New(o.NumHeads),
	}
	if o.Published {
		m.wide = 2 * d
		if pairs := float64(hd / 2); pairs > 1 {
			m.rotary.Base = math.Pow(m.rotary.BaseOr10000(), pairs/(pairs-1))
		}
	}
	m.In, m.Out = projection(d, 2*m.wide+2*d, 1, false), projection(m.wide, d, cfg.NLayer, false)
	m.Norm = nn.NewRMSNorm(m.wide, 1e-6)
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *Retention) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	p := t.Split(m.In.Forward(t, u), m.wide, m.wide, m.d, m.d)
	dt := t.New(u.Dim(0), m.heads)
	dt.Fill(m.dt)
	v, k, q := p[1], t.Rotate(p[2], m.heads, m.rotary, r.Rows), t.Rotate(p[3], m.heads, m.rotary, r.Rows)
	o := t.SSD(t.Join(v, k, q), dt, m.decay, m.noSkip, m.wide/m.heads, m.heads, r.Rows, r.fixed(0))
	return m.Out.Forward(t, t.Gate(t.RMSNorm(o, m.Norm.Weight.Tensor, m.heads, m.Norm.Eps), p[0], engine.SiLU))
}

// NewState returns the state before the first position, zeros.
func (m *Retention) NewState() State {
	return newFixedState([]string{"vk"}, []int{m.heads, m.wide / m.heads, m.d / m.heads})
}

// Traits returns the traits of a recurrence.
func (m *Retention) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters.
func (m *Retention) Params(prefix string, visit nn.Visitor) {
	m.In.Params(prefix+"in_proj.", visit)
	m.Norm.Params(prefix+"norm.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *Retention) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.heads} }

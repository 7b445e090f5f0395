package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// DeltaNet is the mixer of "Parallelizing Linear Transformers with the Delta Rule over Sequence Length"
// (arXiv:2406.06484, §2.2 and §4): a linear attention that writes by the delta rule and does not decay,
//
//	β = σ(B(u));   S[t] = S[t-1] + β·k·(v - S[t-1]ᵀ·k)ᵀ,   o = S[t]ᵀ·q;   y = Out( RMSNorm(o) )
//
// q, k, v, the norm of each head and the state are those of deltaHeads.
type DeltaNet struct {
	deltaHeads
	B *nn.Linear
}

// DeltaNetInfo describes DeltaNet.
var DeltaNetInfo = Info{
	Name:   "deltanet",
	Paper:  "Parallelizing Linear Transformers with the Delta Rule over Sequence Length, arXiv:2406.06484",
	Time:   "l·d·(head_k_dim + block) + l·d²",
	State:  "d·head_k_dim",
	Causal: true, Recurrent: true, Builder: builder(deltaDefaults, newDeltaNet),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 576},
}

// newDeltaNet returns a DeltaNet mixer whose parameters have no values yet.
func newDeltaNet(cfg Config, o deltaOptions) (Mixer, error) {
	heads, err := newDeltaHeads(cfg, o)
	if err != nil {
		return nil, err
	}
	return &DeltaNet{deltaHeads: heads, B: gateOf(cfg.DModel, heads.opt.Heads, engine.Sigmoid)}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *DeltaNet) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := m.heads(t, u, r)
	x.Beta, x.G = m.beta(t, m.B, u), t.New(u.Rows(), m.opt.Heads)
	x.G.Fill(0)
	return m.Out.Forward(t, m.normed(t, t.DeltaRule(x, r.Rows, r.fixed(1))))
}

// Params visits the parameters.
func (m *DeltaNet) Params(prefix string, visit nn.Visitor) {
	m.params(prefix, visit, func() { m.B.Params(prefix+"in_proj_b.", visit) })
}

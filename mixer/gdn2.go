package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GDN2 is the mixer of "Gated DeltaNet-2: Decoupling Erase and Write in Linear Attention" (arXiv:2605.22791, §3): KDA
// with an erase gate for each component of a key and a write gate for each component of a value,
//
//	b = σ(B(u));   w = σ(W(u));   f = A₁(A₀(u)) + dt_bias;   g = -exp(A_log)·softplus(f)
//	S' = Diag(e^g)·S[t-1],   S[t] = S' + k·(w⊙v - S'ᵀ·(b⊙k))ᵀ,   o = S[t]ᵀ·q;   y = Out( RMSNorm(o)·σ(Z₁(Z₀(u))) )
//
// It has as many heads of keys as of values. q, k, v, the norm of each head and the state are those of deltaHeads.
type GDN2 struct {
	KDA
	W *nn.Linear
}

// GDN2Info describes GDN2.
var GDN2Info = Info{
	Name:   "gdn2",
	Paper:  "Gated DeltaNet-2: Decoupling Erase and Write in Linear Attention, arXiv:2605.22791",
	Time:   "l·d·(head_k_dim + block) + l·d²",
	State:  "d·head_k_dim",
	Causal: true, Recurrent: true, Builder: builder(gdn2Defaults, newGDN2),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 384},
}

type gdn2Options struct {
	deltaOptions
	fadingOptions
	GateBias bool `json:"gate_bias" help:"a bias in the output's gate"`
}

func gdn2Defaults(c Config) gdn2Options {
	return gdn2Options{deltaOptions: deltaDefaults(c), fadingOptions: fadingDefaults(c), GateBias: true}
}

// newGDN2 returns a GDN-2 mixer whose parameters have no values yet.
func newGDN2(cfg Config, o gdn2Options) (Mixer, error) {
	m, err := newKDA(cfg, kdaOptions{o.deltaOptions, o.fadingOptions, 0, o.GateBias})
	if err != nil {
		return nil, err
	}
	kda := m.(*KDA)
	heads := &kda.opt
	if heads.Heads != heads.KeyHeads {
		return nil, fmt.Errorf("num_v_heads: found %d, want the %d of num_k_heads", heads.Heads, heads.KeyHeads)
	}
	kda.B = gateOf(cfg.DModel, heads.keys(), engine.Sigmoid)
	return &GDN2{KDA: *kda, W: projection(cfg.DModel, heads.values(), 1, false)}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *GDN2) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := m.heads(t, u, r)
	x.G = m.decay(t, u)
	// S[t] = (Diag(e^g) - k·(e^g⊙b⊙k)ᵀ)·S[t-1] + k·(w⊙v)ᵀ
	x.A, x.B = x.K, t.Mul(t.NegExp(x.G), t.Mul(x.K, m.beta(t, m.B, u)))
	x.V = t.Gate(x.V, m.W.Forward(t, u), engine.Sigmoid)
	return m.written(t, u, t.DeltaRule(x, r.Rows, r.fixed(1)))
}

// Params visits the parameters.
func (m *GDN2) Params(prefix string, visit nn.Visitor) {
	m.KDA.Params(prefix, visit)
	m.W.Params(prefix+"in_proj_w.", visit)
}

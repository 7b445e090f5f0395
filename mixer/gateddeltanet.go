package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GatedDeltaNet is the mixer of "Gated Delta Networks: Improving Mamba2 with Delta Rule" (arXiv:2412.06464, §3), as in
// Qwen3-Next, Qwen3.5 and Olmo Hybrid. Its state decays as in Mamba-2, and the value stored for a key is replaced, in
// part, by the new value:
//
//	β = σ(B(u));   g = -exp(A_log)·softplus(A(u) + dt_bias)
//	S' = e^g·S[t-1],   S[t] = S' + β·k·(v - S'ᵀ·k)ᵀ,   o = S[t]ᵀ·q;   y = Out( RMSNorm(o)·silu(Z(u)) )
//
// q, k, v, the norm of each head and the state are those of deltaHeads.
type GatedDeltaNet struct {
	deltaHeads
	Z, B, A *nn.Linear // the bias of A is dt_bias
	ALog    *nn.Param  // (h)
	none    func() *tensor.Tensor
}

// GatedDeltaNetInfo describes GatedDeltaNet.
var GatedDeltaNetInfo = Info{
	Name:   "gated-deltanet",
	Paper:  "Gated Delta Networks: Improving Mamba2 with Delta Rule, arXiv:2412.06464",
	Time:   "l·d·(head_k_dim + block) + l·d²",
	State:  "d·head_k_dim",
	Causal: true, Recurrent: true, Builder: builder(gatedDeltaDefaults, newGatedDeltaNet),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 496},
}

type gatedDeltaOptions struct {
	deltaOptions
	DtMin float64 `json:"dt_min" help:"smallest initial softplus(dt_bias)"`
	DtMax float64 `json:"dt_max" help:"largest initial softplus(dt_bias)"`
}

func gatedDeltaDefaults(c Config) gatedDeltaOptions {
	return gatedDeltaOptions{deltaOptions: deltaDefaults(c), DtMin: c.DtMin, DtMax: c.DtMax}
}

// newGatedDeltaNet returns a gated delta network whose parameters have no values yet.
func newGatedDeltaNet(cfg Config, o gatedDeltaOptions) (Mixer, error) {
	heads, err := newDeltaHeads(cfg, o.deltaOptions)
	if err != nil {
		return nil, err
	}
	if !(o.DtMin > 0 && o.DtMin <= o.DtMax) {
		return nil, fmt.Errorf("dt_min, dt_max: found %g, %g, want 0 < dt_min ≤ dt_max", o.DtMin, o.DtMax)
	}
	n := heads.opt.Heads
	m := &GatedDeltaNet{
		deltaHeads: heads, Z: projection(cfg.DModel, heads.opt.values(), 1, false),
		B: gateOf(cfg.DModel, n, engine.Sigmoid), A: gateOf(cfg.DModel, n, engine.Softplus),
		ALog: nn.NewParam(nn.SSMSystem, logOfUniform(1, 16), n), none: zeros(n),
	}
	m.A.Bias = nn.NewParam(nn.SSMSystem, inverseSoftplus(o.DtMin, o.DtMax), n)
	return m, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *GatedDeltaNet) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := m.heads(t, u, r)
	x.Beta = m.beta(t, m.B, u)
	x.G = t.ScaleShift(m.A.Forward(t, u), t.NegExp(m.ALog.Tensor), m.none())
	o := t.DeltaRule(x, r.Rows, r.fixed(1))
	return m.Out.Forward(t, t.Gate(m.normed(t, o), m.Z.Forward(t, u), engine.SiLU))
}

// Params visits the parameters under the names of Qwen3.5.
func (m *GatedDeltaNet) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"dt_bias", m.A.Bias)
	visit(prefix+"A_log", m.ALog)
	m.params(prefix, visit, func() {
		m.Z.Params(prefix+"in_proj_z.", visit)
		m.B.Params(prefix+"in_proj_b.", visit)
		visit(prefix+"in_proj_a.weight", m.A.Weight)
	})
}

// system returns the poles: one for each head, each with its own step.
func (m *GatedDeltaNet) system() System {
	s := systemOf("", engine.NegExp, m.ALog, nil, nil)
	s.Rows, s.Dt = m.opt.Heads, mapped(m.A.Bias, softplus)
	return s
}

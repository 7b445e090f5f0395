package mixer

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// KDA is Kimi Delta Attention, the mixer of "Kimi Linear: An Expressive, Efficient Attention Architecture"
// (arXiv:2510.26692, §3): a gated delta network in which each component of a key decays at its own rate,
//
//	β = σ(B(u));   f = A₁(A₀(u)) + dt_bias;   g = -exp(A_log)·softplus(f)
//	S' = Diag(e^g)·S[t-1],   S[t] = S' + β·k·(v - S'ᵀ·k)ᵀ,   o = S[t]ᵀ·q;   y = Out( RMSNorm(o)·σ(Z₁(Z₀(u))) )
//
// With a lower bound, g is lower_bound·σ(exp(A_log)·f). q, k, v, the norm of each head and the state are those of
// deltaHeads.
type KDA struct {
	deltaHeads
	fading
	Z [2]*nn.Linear
	B *nn.Linear
}

// KDAInfo describes KDA.
var KDAInfo = Info{
	Name:   "kda",
	Paper:  "Kimi Linear: An Expressive, Efficient Attention Architecture, arXiv:2510.26692",
	Time:   "l·d·(head_k_dim + block) + l·d²",
	State:  "d·head_k_dim",
	Causal: true, Recurrent: true, Builder: builder(kdaDefaults, newKDA),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 512},
}

type kdaOptions struct {
	deltaOptions
	fadingOptions
	LowerBound float64 `json:"lower_bound" help:"g is above that, and a sigmoid; 0 for a softplus without a bound"`
	GateBias   bool    `json:"gate_bias" help:"a bias in the output's gate"`
}

func kdaDefaults(c Config) kdaOptions {
	return kdaOptions{deltaOptions: deltaDefaults(c), fadingOptions: fadingDefaults(c), GateBias: true}
}

// newKDA returns a KDA mixer whose parameters have no values yet.
func newKDA(cfg Config, o kdaOptions) (Mixer, error) {
	heads, err := newDeltaHeads(cfg, o.deltaOptions)
	if err != nil {
		return nil, err
	}
	if !(o.LowerBound <= 0) {
		return nil, fmt.Errorf("lower_bound: found %g, want 0 or less", o.LowerBound)
	}
	fades, err := newFading(cfg, &heads.opt, o.fadingOptions, o.LowerBound)
	if err != nil {
		return nil, err
	}
	return &KDA{
		deltaHeads: heads, fading: fades, B: gateOf(cfg.DModel, heads.opt.Heads, engine.Sigmoid),
		Z: lowRank(cfg.DModel, fades.A[0].Weight.Dim(0), heads.opt.values(), o.GateBias),
	}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *KDA) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := m.heads(t, u, r)
	x.Beta, x.G = m.beta(t, m.B, u), m.decay(t, u)
	return m.written(t, u, t.DeltaRule(x, r.Rows, r.fixed(1)))
}

// written returns the mixer's output y for the values o read from the states.
func (m *KDA) written(t *autograd.Tape, u, o *tensor.Tensor) *tensor.Tensor {
	z := m.Z[1].Forward(t, m.Z[0].Forward(t, u))
	return m.Out.Forward(t, t.Gate(m.normed(t, o), z, engine.Sigmoid))
}

// Params visits the parameters.
func (m *KDA) Params(prefix string, visit nn.Visitor) {
	m.fading.params(prefix, visit)
	m.deltaHeads.params(prefix, visit, func() {
		m.Z[0].Params(prefix+"in_proj_z.0.", visit)
		m.Z[1].Params(prefix+"in_proj_z.1.", visit)
		m.B.Params(prefix+"in_proj_b.", visit)
	})
}

// fading computes the decays of KDA and GDN-2, one for each component of a key.
type fading struct {
	A    [2]*nn.Linear // the bias of the second is dt_bias, (h·dk)
	ALog *nn.Param     // (h)

	bound float64
	each  ofHeads
	none  func() *tensor.Tensor
}

type fadingOptions struct {
	Rank  int     `json:"rank" help:"of the maps to decays and to the output's gate; 0 for head_v_dim"`
	DtMin float64 `json:"dt_min" help:"smallest initial softplus(dt_bias)"`
	DtMax float64 `json:"dt_max" help:"largest initial softplus(dt_bias)"`
}

func fadingDefaults(c Config) fadingOptions { return fadingOptions{DtMin: c.DtMin, DtMax: c.DtMax} }

// newFading returns decays for heads of values. The parameters have no values yet.
func newFading(cfg Config, heads *deltaOptions, o fadingOptions, bound float64) (f fading, err error) {
	if o.Rank == 0 {
		o.Rank = heads.ValueDim
	}
	switch {
	case o.Rank < 1 || o.Rank > maxHeadDim:
		return f, fmt.Errorf("rank: found %d, want 1 to %d", o.Rank, maxHeadDim)
	case !(o.DtMin > 0 && o.DtMin <= o.DtMax):
		return f, fmt.Errorf("dt_min, dt_max: found %g, %g, want 0 < dt_min ≤ dt_max", o.DtMin, o.DtMax)
	}
	n := heads.Heads * heads.KeyDim
	f = fading{
		A: lowRank(cfg.DModel, o.Rank, n, false), ALog: nn.NewParam(nn.SSMSystem, logOfUniform(1, 16), heads.Heads),
		bound: bound, each: newOfHeads(heads.Heads, 1, heads.KeyDim), none: zeros(n),
	}
	f.A[0].Weight.Fine, f.A[1].Weight.Fine = true, true
	f.A[1].Bias = nn.NewParam(nn.SSMSystem, inverseSoftplus(o.DtMin, o.DtMax), n)
	if bound == 0 {
		f.A[1].Activation = engine.Softplus
	}
	return f, nil
}

// decay returns g (n, h·dk).
func (f *fading) decay(t *autograd.Tape, u *tensor.Tensor) *tensor.Tensor {
	rate := f.each.forward(t, t.NegExp(f.ALog.Tensor)) // -exp(A_log) for each component
	x := f.A[1].Forward(t, f.A[0].Forward(t, u))
	if f.bound == 0 {
		return t.ScaleShift(x, rate, f.none())
	}
	return t.Scale(t.Activate(t.ScaleShift(x, t.Scale(rate, -1), f.none()), engine.Sigmoid), f.bound)
}

func (f *fading) params(prefix string, visit nn.Visitor) {
	visit(prefix+"A_log", f.ALog)
	visit(prefix+"dt_bias", f.A[1].Bias)
	f.A[0].Params(prefix+"in_proj_a.0.", visit)
	visit(prefix+"in_proj_a.1.weight", f.A[1].Weight)
}

// system returns the poles: one for each component of a key, each with its own step.
func (f *fading) system() System {
	n := len(f.A[1].Bias.Floats())
	s := System{Rows: n, Dt: mapped(f.A[1].Bias, softplus)}
	rates := mapped(f.ALog, math.Exp)
	for i := range n {
		rate := rates[i*len(rates)/n]
		if f.bound != 0 {
			s.Dt[i], rate = 1/(1+math.Exp(-rate*float64(f.A[1].Bias.Floats()[i]))), -f.bound
		}
		s.Poles = append(s.Poles, complex(-rate, 0))
	}
	return s
}

// lowRank returns a map to fewer channels and a map from those to out channels.
func lowRank(in, rank, out int, bias bool) [2]*nn.Linear {
	return [2]*nn.Linear{projection(in, rank, 1, false), projection(rank, out, 1, bias)}
}

package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GAU is the gated attention unit of "Transformer Quality in Linear Time" (arXiv:2202.10447, §3), causal. Its quadratic
// form is
//
//	y = W_o( silu(W_u x) ⊙ A silu(W_v x) ),  A_ij = relu( q_i·k_j/√s + bias_{i-j} )² / (i+1)
//	q = γ_q ⊙ z + β_q,  k = γ_k ⊙ z + β_k,  z = silu(W_z x)
//
// with one head of s components. Its state, k and the values of all positions, grows with the sequence. With v the
// values silu(W_v x), the linear form (§4.1) and the mixed form of FLASH (§4.2), of chunks of c positions, have
//
//	linear:  A v → q'_i Σ_{j ≤ i} k'_j v_jᵀ / c
//	mixed:   A v → Σ_{j ≤ i, of the chunk of i} A_ij v_j + q'_i Σ_{j of earlier chunks} k'_j v_jᵀ / c
//
// where q' and k' scale and shift z with their own parameters, and positions in A_ij count from the beginning of the
// chunk. The state is the sum over k' vᵀ. In the mixed form it also has k and the values of at most one chunk, and the
// sum over that chunk.
//
// Deliberate differences: the scores are scaled by 1/√s and the sum is divided by the number of positions seen, i+1,
// where the paper divides the scores by the length of the sequence: so any chunking gives the same y. Distances of
// max_distance and more share a bias. The linear sum is divided by c, where the paper has no factor: scores then start
// small.
type GAU struct {
	U, V, Z, Out                 *nn.Linear
	GammaQ, BetaQ, GammaK, BetaK *nn.Param
	Bias                         *nn.Param

	// Parameters of the linear part, nil without it.
	LinearGammaQ, LinearBetaQ, LinearGammaK, LinearBetaK *nn.Param

	s, e, chunk int
	form        string
	never       func() *tensor.Tensor // zero, for the decay of the sum and for its skip
}

// GAUInfo describes GAU.
var GAUInfo = Info{
	Name: "gau", Paper: "Transformer Quality in Linear Time, arXiv:2202.10447", Time: "l²·(d·expand + s) + l·d²·expand",
	State: "l·(d·expand + s)", Causal: true, Builder: builder(gauDefaults, newGAU),
	Tiny: Tiny{Options: "query_dim=64", DModel: 128, NLayer: 8},
}

type gauOptions struct {
	Expand      int `json:"expand" help:"the gate and the values are expand·d_model wide" min:"1" max:"64"`
	QueryDim    int `json:"query_dim" help:"components s of queries and keys" min:"1" max:"65536"`
	MaxDistance int `json:"max_distance" help:"distances from here on share a bias" min:"1" max:"65536"`

	Form  string `json:"form" enum:"quadratic,linear,mixed" help:"which positions see each other, and how"`
	Chunk int    `json:"chunk" help:"linear, mixed: positions of a chunk" min:"1" max:"65536"`
}

func gauDefaults(Config) gauOptions {
	return gauOptions{Expand: 2, QueryDim: 128, MaxDistance: 128, Form: "quadratic", Chunk: 256}
}

// newGAU returns a GAU mixer whose parameters have no values yet.
func newGAU(cfg Config, o gauOptions) (Mixer, error) {
	d, e, s := cfg.DModel, o.Expand*cfg.DModel, o.QueryDim
	m := &GAU{
		U: nn.NewLinear(d, e, nn.InitStd), V: nn.NewLinear(d, e, nn.InitStd), Z: nn.NewLinear(d, s, nn.InitStd),
		Out: nn.NewLinear(e, d, nn.InitStd), s: s, e: e, form: o.Form, chunk: o.Chunk, never: zeros(1),
	}
	m.V.Activation, m.Z.Activation = engine.SiLU, engine.SiLU
	pair := func(gamma, beta **nn.Param) {
		*gamma, *beta = nn.NewParam(nn.Norm, nn.Constant(1), s), nn.NewParam(nn.Norm, nn.Constant(0), s)
	}
	if o.Form != "linear" {
		pair(&m.GammaQ, &m.BetaQ)
		pair(&m.GammaK, &m.BetaK)
		m.Bias = nn.NewParam(nn.Bias, nn.Normal(nn.InitStd), o.MaxDistance)
	}
	if o.Form != "quadratic" {
		pair(&m.LinearGammaQ, &m.LinearBetaQ)
		pair(&m.LinearGammaK, &m.LinearBetaK)
	}
	return m, nil
}

// Forward maps the rows of x (n, d_model) to y of the same shape.
func (m *GAU) Forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	z := m.Z.Forward(t, x) // (n, s)
	v := m.V.Forward(t, x)
	var y *tensor.Tensor // (n, e)
	switch m.form {
	case "linear":
		y = m.sum(t, z, v, r.Rows, r.fixed(0))
	case "mixed":
		y = m.mixed(t, z, v, r)
	default:
		q, k := m.queries(t, z)
		y = r.oneByOne(t, func(t *autograd.Tape, r *Rows, x ...*tensor.Tensor) *tensor.Tensor {
			return t.SquaredReLUAttention(x[0], x[1], x[2], m.Bias.Tensor, r.Rows, r.caches(0), r.caches(1))
		}, q, k, v)
	}
	return m.Out.Forward(t, t.Gate(y, m.U.Forward(t, x), engine.SiLU))
}

// queries returns the queries and keys of the quadratic part.
func (m *GAU) queries(t *autograd.Tape, z *tensor.Tensor) (q, k *tensor.Tensor) {
	return t.ScaleShift(z, m.GammaQ.Tensor, m.BetaQ.Tensor), t.ScaleShift(z, m.GammaK.Tensor, m.BetaK.Tensor)
}

// NewState returns a state without positions.
func (m *GAU) NewState() State {
	switch m.form {
	case "linear":
		return newFixedState([]string{"kv"}, []int{1, m.e, m.s})
	case "mixed":
		return m.newChunkState()
	}
	return newRowState([]string{"k", "v"}, m.s, m.e)
}

// Traits returns traits in which the quadratic form's state grows by a key and a value for each position.
func (m *GAU) Traits() Traits {
	if m.form != "quadratic" {
		return Traits{StepsRows: m.form == "linear"}
	}
	return Traits{Growth: rowBytes(m.s, m.e), StepsRows: true}
}

// Params visits the parameters.
func (m *GAU) Params(prefix string, visit nn.Visitor) {
	m.U.Params(prefix+"u_proj.", visit)
	m.V.Params(prefix+"v_proj.", visit)
	m.Z.Params(prefix+"z_proj.", visit)
	if m.form != "linear" {
		visit(prefix+"q_gamma", m.GammaQ)
		visit(prefix+"q_beta", m.BetaQ)
		visit(prefix+"k_gamma", m.GammaK)
		visit(prefix+"k_beta", m.BetaK)
		visit(prefix+"bias", m.Bias)
	}
	if m.form != "quadratic" {
		visit(prefix+"linear_q_gamma", m.LinearGammaQ)
		visit(prefix+"linear_q_beta", m.LinearBetaQ)
		visit(prefix+"linear_k_gamma", m.LinearGammaK)
		visit(prefix+"linear_k_beta", m.LinearBetaK)
	}
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *GAU) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

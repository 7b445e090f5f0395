package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GAU is the gated attention unit of "Transformer Quality in Linear Time" (arXiv:2202.10447, §3), its quadratic form,
// causal:
//
//	y = W_o( silu(W_u x) ⊙ A silu(W_v x) ),  A_ij = relu( q_i·k_j/√s + bias_{i-j} )² / (i+1)
//	q = γ_q ⊙ z + β_q,  k = γ_k ⊙ z + β_k,  z = silu(W_z x)
//
// with one head of s components. Its state, k and the values of all positions, grows with the sequence.
//
// Deliberate differences: the scores are scaled by 1/√s and the sum is divided by the number of positions seen, i+1,
// where the paper divides the scores by the length of the sequence: so any chunking gives the same y. Distances of
// max_distance and more share a bias.
type GAU struct {
	U, V, Z, Out                 *nn.Linear
	GammaQ, BetaQ, GammaK, BetaK *nn.Param
	Bias                         *nn.Param

	s, e int
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
}

func gauDefaults(Config) gauOptions { return gauOptions{Expand: 2, QueryDim: 128, MaxDistance: 128} }

// newGAU returns a GAU mixer whose parameters have no values yet.
func newGAU(cfg Config, o gauOptions) (Mixer, error) {
	d, e, s := cfg.DModel, o.Expand*cfg.DModel, o.QueryDim
	m := &GAU{
		U: nn.NewLinear(d, e, nn.InitStd), V: nn.NewLinear(d, e, nn.InitStd), Z: nn.NewLinear(d, s, nn.InitStd),
		Out:    nn.NewLinear(e, d, nn.InitStd),
		GammaQ: nn.NewParam(nn.Norm, nn.Constant(1), s), BetaQ: nn.NewParam(nn.Norm, nn.Constant(0), s),
		GammaK: nn.NewParam(nn.Norm, nn.Constant(1), s), BetaK: nn.NewParam(nn.Norm, nn.Constant(0), s),
		Bias: nn.NewParam(nn.Bias, nn.Normal(nn.InitStd), o.MaxDistance), s: s, e: e,
	}
	m.V.Activation, m.Z.Activation = engine.SiLU, engine.SiLU
	return m, nil
}

// Forward maps the rows of x (n, d_model) to y of the same shape.
func (m *GAU) Forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	z := m.Z.Forward(t, x) // (n, s)
	q := t.ScaleShift(z, m.GammaQ.Tensor, m.BetaQ.Tensor)
	k := t.ScaleShift(z, m.GammaK.Tensor, m.BetaK.Tensor)
	v := m.V.Forward(t, x)
	y := r.oneByOne(t, func(t *autograd.Tape, r *Rows, x ...*tensor.Tensor) *tensor.Tensor { // (n, e)
		return t.SquaredReLUAttention(x[0], x[1], x[2], m.Bias.Tensor, r.Rows, r.caches(0), r.caches(1))
	}, q, k, v)
	return m.Out.Forward(t, t.Gate(y, m.U.Forward(t, x), engine.SiLU))
}

// NewState returns a state without positions.
func (m *GAU) NewState() State { return newRowState([]string{"k", "v"}, m.s, m.e) }

// Traits: a key and a value more with each position.
func (m *GAU) Traits() Traits { return Traits{Growth: rowBytes(m.s, m.e), StepsRows: true} }

// Params visits the parameters.
func (m *GAU) Params(prefix string, visit nn.Visitor) {
	m.U.Params(prefix+"u_proj.", visit)
	m.V.Params(prefix+"v_proj.", visit)
	m.Z.Params(prefix+"z_proj.", visit)
	visit(prefix+"q_gamma", m.GammaQ)
	visit(prefix+"q_beta", m.BetaQ)
	visit(prefix+"k_gamma", m.GammaK)
	visit(prefix+"k_beta", m.BetaK)
	visit(prefix+"bias", m.Bias)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *GAU) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

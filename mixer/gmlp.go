package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// GMLP is the block of "Pay Attention to MLPs" (arXiv:2105.08050), made causal. A matrix mixes the positions:
//
//	y = V( z₁ ⊙ (W norm(z₂) + b) ),  z = gelu(U u)
//
// where z₁ and z₂ are the two halves of z or, in the whole form, both equal z. W (l_max, l_max) is lower triangular and
// starts near zero, and b starts at one, so that the block starts as an MLP. Sequences have at most l_max positions.
// The state is norm(z₂) of all positions.
type GMLP struct {
	U1, U2, V *nn.Linear // U2 is nil for the whole form
	Norm      *nn.LayerNorm
	W, B      *nn.Param

	inner, lMax int
}

// GMLPInfo describes GMLP.
var GMLPInfo = Info{
	Name: "gmlp", Paper: "Pay Attention to MLPs, arXiv:2105.08050", Time: "l²·d·expand + l·d²·expand",
	State: "l·d·expand/2", Causal: true, Builder: builder(gmlpDefaults, newGMLP),
	Tiny: Tiny{Options: "l_max=256", DModel: 128, NLayer: 5, LR: 8e-3},
}

type gmlpOptions struct {
	Expand int  `json:"expand" help:"the inner width is expand·d_model" min:"1" max:"64"`
	Split  bool `json:"split" help:"one half of the inner channels gates the other; else all gate themselves"`
	LMax   int  `json:"l_max" help:"longest sequence" min:"1" max:"65536"`
}

func gmlpDefaults(Config) gmlpOptions { return gmlpOptions{Expand: 4, Split: true, LMax: 1024} }

// newGMLP returns a gMLP mixer whose parameters have no values yet.
func newGMLP(cfg Config, o gmlpOptions) (Mixer, error) {
	inner := o.Expand * cfg.DModel
	if o.Split && inner%2 != 0 {
		return nil, fmt.Errorf("expand: found %d, want an even inner width %d·%d to split", o.Expand,
			o.Expand, cfg.DModel)
	}
	m := &GMLP{lMax: o.LMax}
	if o.Split {
		inner /= 2
		m.U2 = gelu(nn.NewLinear(cfg.DModel, inner, nn.InitStd))
	}
	m.inner = inner
	m.U1, m.V = gelu(nn.NewLinear(cfg.DModel, inner, nn.InitStd)), nn.NewLinear(inner, cfg.DModel, nn.InitStd)
	m.Norm = nn.NewLayerNorm(inner, 1e-5)
	m.W, m.B = nn.NewParam(nn.Mixing, nn.Normal(1e-3), o.LMax, o.LMax), nn.NewParam(nn.Bias, nn.Constant(1), o.LMax)
	return m, nil
}

func gelu(m *nn.Linear) *nn.Linear {
	m.Activation = engine.GeluErf
	return m
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *GMLP) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	z1 := m.U1.Forward(t, u) // (n, inner)
	z2 := z1
	if m.U2 != nil {
		z2 = m.U2.Forward(t, u)
	}
	_, z2 = m.Norm.AddForward(t, z2, nil)
	gate := t.SpatialMix(z2, m.W.Tensor, m.B.Tensor, r.Rows, r.caches(0))
	return m.V.Forward(t, t.Mul(z1, gate))
}

// NewState returns a state without positions.
func (m *GMLP) NewState() State { return newRowState([]string{"z"}, m.inner) }

// Traits returns traits in which the length is limited to l_max, since W has a row for each position.
func (m *GMLP) Traits() Traits {
	return Traits{MaxLength: m.lMax, Growth: rowBytes(m.inner), ByPosition: true}
}

// Params visits the parameters.
func (m *GMLP) Params(prefix string, visit nn.Visitor) {
	m.U1.Params(prefix+"proj_1.", visit)
	if m.U2 != nil {
		m.U2.Params(prefix+"proj_2.", visit)
	}
	m.Norm.Params(prefix+"norm.", visit)
	visit(prefix+"spatial.weight", m.W)
	visit(prefix+"spatial.bias", m.B)
	m.V.Params(prefix+"proj_out.", visit)
}

func (m *GMLP) last() (**nn.Linear, Interior) { return &m.V, Interior{} }

package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// RGLRU is the recurrent block of "Griffin: Mixing Gated Linear Recurrences with Local Attention" (arXiv:2402.19427,
// §2.3 and §2.4), as in RecurrentGemma:
//
//	u = conv1d(X(x));   r, i = σ(W_r u + b_r), σ(W_i u + b_i);   a[t] = exp(-8·r[t]·softplus(Λ))
//	h[t] = a[t]·h[t-1] + √(1 - a[t]²)·i[t]·u[t];   y = Out( h · gelu(Y(x)) )
//
// over width channels. W_r and W_i are block diagonal, with one block for each head. At the first position of a
// sequence, h = i·u. The state is the previous inputs of the filter, (d_conv-1, width), and h, (width).
type RGLRU struct {
	X, Y, Out *nn.Linear
	Conv      shortConv
	Lambda    *nn.Param

	Recurrent, Input blockGate // W_r and W_i

	width, taps int
}

// blockGate is a gate with a block-diagonal matrix: weight (heads, in, out), bias (heads, out).
type blockGate struct{ weight, bias *nn.Param }

func newBlockGate(heads, d int) blockGate {
	return blockGate{
		weight: nn.NewParam(nn.Mixing, nn.Uniform(1/math.Sqrt(float64(d))), heads, d, d),
		bias:   nn.NewParam(nn.Bias, nn.Constant(0), heads, d),
	}
}

func (g *blockGate) forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	return t.BlockLinear(x, g.weight.Tensor, g.bias.Tensor, engine.Sigmoid)
}

func (g *blockGate) params(name string, visit nn.Visitor) {
	visit(name+"_weight", g.weight)
	visit(name+"_bias", g.bias)
}

// RGLRUInfo describes RGLRU.
var RGLRUInfo = Info{
	Name: "rg-lru",
	Paper: "Griffin: Mixing Gated Linear Recurrences with Local Attention for Efficient Language Models, " +
		"arXiv:2402.19427",
	Time: "l·d·(d/heads + d_conv) + l·d²", State: "d·d_conv",
	Causal: true, Recurrent: true, Builder: builder(rglruDefaults, newRGLRU),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 608},
}

type rglruOptions struct {
	Width int `json:"width" help:"channels of the recurrence; 0 for d_model" min:"0" max:"65536"`
	Heads int `json:"num_heads" help:"blocks of the matrices of the gates"`
	DConv int `json:"d_conv" help:"taps of the short filter"`
}

func rglruDefaults(c Config) rglruOptions { return rglruOptions{Heads: c.NumHeads, DConv: 4} }

// newRGLRU returns an RG-LRU mixer whose parameters have no values yet.
func newRGLRU(cfg Config, o rglruOptions) (Mixer, error) {
	if o.Width == 0 {
		o.Width = cfg.DModel
	}
	switch {
	case o.DConv < 1 || o.DConv > maxState:
		return nil, fmt.Errorf("d_conv: found %d, want 1 to %d", o.DConv, maxState)
	case o.Heads < 1 || o.Width%o.Heads != 0:
		return nil, fmt.Errorf("num_heads: found %d, want a divisor of the width %d", o.Heads, o.Width)
	}
	m := &RGLRU{
		X: projection(cfg.DModel, o.Width, 1, true), Y: projection(cfg.DModel, o.Width, 1, true),
		Out: projection(o.Width, cfg.DModel, cfg.NLayer, true), Conv: newShortConv(o.Width, o.DConv, true, engine.None),
		Lambda: nn.NewParam(nn.SSMSystem, rglruStart, o.Width), width: o.Width, taps: o.DConv,
		Recurrent: newBlockGate(o.Heads, o.Width/o.Heads), Input: newBlockGate(o.Heads, o.Width/o.Heads),
	}
	m.Y.Activation = engine.GeluTanh
	return m, nil
}

// rglruStart draws Λ such that e^(-8·softplus(Λ)), the minimum of a, is uniform between 0.9 and 0.999 (§2.4).
func rglruStart(rng *rand.Rand, x []float32) {
	for i := range x {
		least := 0.9 + 0.099*rng.Float64()
		x[i] = float32(math.Log(math.Expm1(-math.Log(least) / engine.RGLRUPower)))
	}
}

// Forward maps the rows of x (n, d_model) to y of the same shape.
func (m *RGLRU) Forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	u := m.Conv.forward(t, m.X.Forward(t, x), r)
	h := t.RGLRU(u, m.Recurrent.forward(t, u), m.Input.forward(t, u), m.Lambda.Tensor, r.Rows, r.fixed(1))
	return m.Out.Forward(t, t.Mul(h, m.Y.Forward(t, x)))
}

// NewState returns the state before the first position, zeros.
func (m *RGLRU) NewState() State {
	return newFixedState([]string{"conv", "lru"}, []int{m.taps - 1, m.width}, []int{m.width}).
		of(PositionRows, Numbers)
}

// Traits returns those of a recurrence whose first position is computed differently.
func (m *RGLRU) Traits() Traits { return Traits{ByPosition: true, StepsRows: true} }

// Params visits the parameters under their official names.
func (m *RGLRU) Params(prefix string, visit nn.Visitor) {
	m.X.Params(prefix+"linear_x.", visit)
	m.Y.Params(prefix+"linear_y.", visit)
	m.Conv.params(prefix+"conv_1d.", visit)
	visit(prefix+"rg_lru.recurrent_param", m.Lambda)
	m.Recurrent.params(prefix+"rg_lru.recurrent_gate", visit)
	m.Input.params(prefix+"rg_lru.input_gate", visit)
	m.Out.Params(prefix+"linear_out.", visit)
}

func (m *RGLRU) kernels(*autograd.Tape, int) []Response {
	return []Response{shortKernel(m.Conv.weight.Tensor)}
}

func (m *RGLRU) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

// system returns the decays a = exp(-8·softplus(Λ)·r), with the gate r as their step.
func (m *RGLRU) system() System {
	s := System{Name: "rg_lru", Rows: 1}
	for _, a := range mapped(m.Lambda, func(x float64) float64 { return -engine.RGLRUPower * softplus(x) }) {
		s.Poles = append(s.Poles, complex(a, 0))
	}
	return s
}

package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// LinearAttention is the mixer of "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention"
// (arXiv:2006.16236, §3), with multiple heads: softmax(q·k) becomes φ(q)·φ(k), so that the sums over the past can be
// updated recurrently,
//
//	S_t = S_{t-1} + φ(k_t) v_tᵀ,   z_t = z_{t-1} + φ(k_t),   y_t = φ(q_t)ᵀ S_t / (φ(q_t)·z_t + 1e-6)
//
// Its state is S (heads, head_dim, head_dim) and z (heads, head_dim).
type LinearAttention struct {
	Q, K, V, Out *nn.Linear
	opt          engine.LinearOptions
	headDim      int
}

// LinearAttentionInfo describes LinearAttention.
var LinearAttentionInfo = Info{
	Name:   "linear-attention",
	Paper:  "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention, arXiv:2006.16236",
	Time:   "l·d·(head_dim + d)",
	State:  "d·(head_dim + 1)",
	Causal: true, Recurrent: true, Builder: builder(linearOptionsOf, newLinearAttention),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 576},
}

type linearOptions struct {
	NumHeads   int    `json:"num_heads" help:"heads"`
	FeatureMap string `json:"feature_map" help:"φ, what queries and keys are compared by: elu1, relu, relu2, softplus"`
}

func linearOptionsOf(c Config) linearOptions { return linearOptions{c.NumHeads, "elu1"} }

// newLinearAttention returns a linear attention mixer whose parameters have no values yet.
func newLinearAttention(cfg Config, o linearOptions) (Mixer, error) {
	if err := checkHeads(o.NumHeads, cfg.DModel); err != nil {
		return nil, err
	}
	phi, err := engine.ParseFeatureMap(o.FeatureMap)
	if err != nil {
		return nil, fmt.Errorf("feature_map: %w", err)
	}
	d := cfg.DModel
	return &LinearAttention{
		Q: nn.NewLinear(d, d, nn.InitStd), K: nn.NewLinear(d, d, nn.InitStd),
		V: nn.NewLinear(d, d, nn.InitStd), Out: nn.NewLinear(d, d, outStd(cfg)),
		opt:     engine.LinearOptions{Heads: o.NumHeads, Phi: phi, Eps: 1e-6},
		headDim: d / o.NumHeads,
	}, nil
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *LinearAttention) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	q, k, v := m.Q.Forward(t, u), m.K.Forward(t, u), m.V.Forward(t, u) // (n, d) each
	y := r.oneByOne(t, func(t *autograd.Tape, r *Rows, x ...*tensor.Tensor) *tensor.Tensor {
		return t.LinearAttention(x[0], x[1], x[2], m.opt, r.Rows, r.fixed(0), r.fixed(1))
	}, q, k, v)
	return m.Out.Forward(t, y)
}

// NewState returns the state before the first position, zeros.
func (m *LinearAttention) NewState() State {
	h, hd := m.opt.Heads, m.headDim
	return newFixedState([]string{"s", "z"}, []int{h, hd, hd}, []int{h, hd})
}

// Traits returns the traits of a recurrence.
func (m *LinearAttention) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters under the names of the official layer.
func (m *LinearAttention) Params(prefix string, visit nn.Visitor) {
	m.Q.Params(prefix+"query_projection.", visit)
	m.K.Params(prefix+"key_projection.", visit)
	m.V.Params(prefix+"value_projection.", visit)
	m.Out.Params(prefix+"out_projection.", visit)
}

func (m *LinearAttention) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.Heads} }

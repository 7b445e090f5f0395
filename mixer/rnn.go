package mixer

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// RNN is the simple recurrent network of Elman (Finding Structure in Time, 1990), a baseline:
//
//	h[t] = tanh(W_x x[t] + b + W_h h[t-1]),  y[t] = W_y h[t] + b_y
//
// W_h (hidden, hidden) starts normal with the variance of PyTorch's uniform start, 1/(3·hidden). The state is h,
// (hidden).
type RNN struct {
	In, Out *nn.Linear
	H       *nn.Param

	hidden int
}

// RNNInfo describes RNN.
var RNNInfo = Info{
	Name: "rnn", Paper: "Finding Structure in Time, Elman 1990",
	Time: "l·hidden·(hidden + d), one position after the other", State: "hidden",
	Causal: true, Recurrent: true, Builder: builder(rnnDefaults, newRNN),
	Tiny: Tiny{DModel: 128, NLayer: 4, DInner: 640},
}

type rnnOptions struct {
	Hidden int `json:"hidden" help:"size of the state; 0 for d_model" min:"0" max:"65536"`
}

func rnnDefaults(Config) rnnOptions { return rnnOptions{} }

// newRNN returns an RNN mixer whose parameters have no values yet.
func newRNN(cfg Config, o rnnOptions) (Mixer, error) {
	h := o.Hidden
	if h == 0 {
		h = cfg.DModel
	}
	return &RNN{
		In: nn.NewLinear(cfg.DModel, h, nn.InitStd), Out: nn.NewLinear(h, cfg.DModel, nn.InitStd),
		H: nn.NewParam(nn.SSM, nn.Normal(1/math.Sqrt(float64(3*h))), h, h), hidden: h,
	}, nil
}

// Forward maps the rows of x (n, d_model) to y of the same shape.
func (m *RNN) Forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	h := t.Recurrence(m.In.Forward(t, x), m.H.Tensor, m.hidden, r.Rows, r.fixed(0))
	return m.Out.Forward(t, h)
}

// NewState returns the state before the first position, zeros.
func (m *RNN) NewState() State { return newFixedState([]string{"h"}, []int{m.hidden}) }

// Traits returns the traits of a recurrence.
func (m *RNN) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters.
func (m *RNN) Params(prefix string, visit nn.Visitor) {
	m.In.Params(prefix+"in_proj.", visit)
	visit(prefix+"hidden.weight", m.H)
	m.Out.Params(prefix+"out_proj.", visit)
}

func (m *RNN) last() (**nn.Linear, Interior) { return &m.Out, Interior{} }

func (m *RNN) stateRules(*autograd.Tape) map[string]StateRule {
	return map[string]StateRule{"h": {Transition: m.H.Tensor, Tanhs: m.hidden}}
}

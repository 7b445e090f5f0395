package nn

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// FeedForward is the part of a block that maps each position separately, (…, d) to (…, d).
type FeedForward interface {
	Module
	Forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor
}

// Gated is a feed-forward part with a gate, fc2(fc1(x) ⊙ a(gate(x))): GLU with a sigmoid (arXiv:1612.08083), SwiGLU
// with SiLU, GEGLU with GELU (arXiv:2002.05202). With two thirds of the inner width it has as many parameters as an
// MLP.
type Gated struct {
	FC1, Gate, FC2 *Linear
	Activation     engine.Activation
	GateScale      float64 // factor of the activation's input; 1 for none
}

// NewGated returns a gated part of inner width dInner. The initial deviation of its last layer is outStd.
func NewGated(d, dInner int, a engine.Activation, outStd float64) *Gated {
	return &Gated{
		FC1:        NewLinear(d, dInner, InitStd),
		Gate:       NewLinear(d, dInner, InitStd),
		FC2:        NewLinear(dInner, d, outStd),
		Activation: a, GateScale: 1,
	}
}

// Forward maps (…, d) to (…, d).
func (m *Gated) Forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	gate := t.Scale(m.Gate.Forward(t, x), m.GateScale)
	return m.FC2.Forward(t, t.Gate(m.FC1.Forward(t, x), gate, m.Activation))
}

// Params visits fc1, gate and fc2.
func (m *Gated) Params(prefix string, visit Visitor) {
	m.FC1.Params(prefix+"fc1.", visit)
	m.Gate.Params(prefix+"gate.", visit)
	m.FC2.Params(prefix+"fc2.", visit)
}

// WithoutBias removes the biases.
func (m *Gated) WithoutBias() { m.FC1.Bias, m.Gate.Bias, m.FC2.Bias = nil, nil, nil }

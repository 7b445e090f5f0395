package model

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Advance maps the next positions of a sequence to the output of the backbone (l, d_model), on any tape, and updates
// the state s. x (l, inputs) holds the input numbers. It does not include the channel with the times of positions
// (NetworkConfig.Steps).
func (m *Network) Advance(t *autograd.Tape, x *tensor.Tensor, s *State) *tensor.Tensor {
	r := OneRow(x.Rows(), s)
	t.Scope("encoder")
	return m.run(t, m.enter(t, m.Positions, m.Encoder.Forward(t, x), r), r, 0)
}

// Output applies the head to outputs of Advance, or to a mean of them: (n, d_model) to (n, outputs).
func (m *Network) Output(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	return m.output(t, hidden)
}

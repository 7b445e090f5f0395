package mixer

import (
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// ChannelMix is the second part of a block of RWKV-7 (arXiv:2503.14456, §4.3). It also sees the previous position:
//
//	y = Value( max(Key(u + (u[t-1] - u)⊙x_k), 0)² )
//
// The state is u[t-1], (1, d).
type ChannelMix struct {
	Key, Value *nn.Linear
	Mix        *nn.Param // x_k (d)

	shift shift
	none  func() *tensor.Tensor
}

// NewChannelMix returns a ChannelMix over d channels with inner channels between its matrices. The last matrix starts
// with the standard deviation outStd.
func NewChannelMix(d, inner int, outStd float64) *ChannelMix {
	m := &ChannelMix{
		Key: projection(d, inner, 1, false), Value: nn.NewLinear(inner, d, outStd),
		Mix: nn.NewParam(nn.SSM, nn.Constant(0.5), d), shift: newShift(d), none: zeros(d),
	}
	m.Key.Activation, m.Value.Bias = engine.SquaredReLU, nil
	return m
}

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *ChannelMix) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	x := t.Add(u, t.ScaleShift(m.shift.forward(t, u, r), m.Mix.Tensor, m.none()))
	return m.Value.Forward(t, m.Key.Forward(t, x))
}

// NewState returns the state before the first position, zeros.
func (m *ChannelMix) NewState() State {
	return newFixedState([]string{"shift"}, []int{1, m.Mix.Len()}).of(PositionRows)
}

// Traits returns the traits of a recurrence.
func (m *ChannelMix) Traits() Traits { return Traits{StepsRows: true} }

// Params visits the parameters under the names of the release.
func (m *ChannelMix) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"x_k", m.Mix)
	m.Key.Params(prefix+"key.", visit)
	m.Value.Params(prefix+"value.", visit)
}

// shift computes u[t-1] - u[t], with zeros before the first position.
type shift struct{ taps func() *tensor.Tensor }

func newShift(d int) shift {
	return shift{sync.OnceValue(func() *tensor.Tensor {
		x := make([]float32, 0, 2*d)
		for range d {
			x = append(x, 1, -1)
		}
		return tensor.FromSlice(x, d, 1, 2)
	})}
}

// forward maps u (n, d). Part 0 of the rows' states holds the previous input.
func (s shift) forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	return t.CausalConv(u, s.taps(), nil, engine.None, r.Rows, r.fixed(0))
}

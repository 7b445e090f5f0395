// Package mixer holds the sequence mixers, one file per paper.
//
// There is one way to run a mixer. Training, prefill in chunks and token-by-token decoding are the same call of
// Forward. They differ in the lengths of the rows, whether the rows have states, and whether the tape records.
package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mixer mixes information along the sequence.
type Mixer interface {
	nn.Module
	// Forward maps u (n, d_model) to y of the same shape. n is the number of positions of all rows. Rows do not affect
	// each other. A row without a state starts from zero, and its state is dropped. A row with a state continues from
	// it, and updates it. So any way of cutting a sequence into rows gives the same y, up to rounding. A row gives the
	// same bits alone and together with any other rows.
	Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor
	// NewState returns the state of one sequence before its first position. Its memory must be allocated by Begin.
	NewState() State
	// Traits returns the constraints of the mixer and the cost of its state.
	Traits() Traits
}

// Traits are the differences between mixers that their users must know. The zero value describes a recurrence: causal,
// for sequences of any length, with a state of fixed size.
type Traits struct {
	// LooksAhead reports whether y[t] depends on inputs after t, as in bidirectional layers. Such a mixer has no state
	// and cannot be part of a language model.
	LooksAhead bool
	MaxLength  int // maximum length of a sequence, 0 for any
	Multiple   int // lengths of sequences must be multiples of it, 0 for any
	Growth     int // bytes that each position adds to the state, perhaps up to some length
	// Convolves reports whether the mixer computes rows by long convolutions. Pieces of some hundred positions are then
	// read faster than those of some dozens.
	Convolves bool
	// ByPosition reports whether the outputs at a position without predecessors depend on its index in the sequence.
	ByPosition bool
	// Steps reports whether the recurrence uses the times of positions: see Rows.Steps.
	Steps bool
	// StepsRows reports whether Forward itself can step rows (engine.Rows.AddStepped), on an engine that can: see Run.
	StepsRows bool
}

// State is the state of a mixer for one sequence, passed from row to row. While a tape records, a state is part of the
// tape: gradients flow through it into earlier rows until Detach.
type State interface {
	// Size returns the current size of the state in bytes.
	Size() int
	// Clone returns an independent copy, for example to fork a sequence.
	Clone() State
	// Detach cuts the state from the tape, so that gradients stop here and the tape can be reset.
	Detach()
	// Keep bounds a state that grows with the sequence: it drops all but the last n positions. For a state of fixed
	// size, it does nothing.
	Keep(n int)
	// Tensors visits the tensors of the state by name, for saving. Only Restore may change them.
	Tensors(visit func(name string, x *tensor.Tensor))
	// Restore copies values that Tensors has visited into the tensor of that name in a new state. The shape may begin
	// with an axis of length 1, one sequence, as earlier versions saved it.
	Restore(name string, shape []int, data []float32) error
}

// Config has the settings that the mixers of a model share. Each mixer uses some of the fields, and its own options.
type Config struct {
	DModel    int     // width of the stream
	NLayer    int     // layers of the whole model, for the scale of the initialization
	DState    int     // size N of the SSM state: N/2 complex modes, or N lags of the shift
	HeadDim   int     // H3: channels of a head, 1 in the releases
	HeadOrder string  // H3: "dh" or "hd", how heads of more than one channel are flattened at the output
	DtMin     float64 // range of the initial dt
	DtMax     float64
	Measure   string // initial A: diag-lin, diag-inv, diag-legs, ...
	NumHeads  int    // attention: heads
	RotaryDim int    // attention: rotated components of each head, 0 for none
	Dropout   float64
	Options   Options  // of this mixer only; they override the fields
	Earlier   []string // mixers of the previous layers, such as mamba2+attention
}

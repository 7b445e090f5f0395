// Package mixer holds the sequence mixers, one file per paper.
//
// A mixer has one way to run. Training, prefill in chunks and token-by-token decoding are the same call of Forward;
// what differs is the lengths of the rows, whether they have states, and whether the tape records.
package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Mixer mixes information along the sequence.
type Mixer interface {
	nn.Module
	// Forward maps u (n, d_model) to y of the same shape. n is the number of positions of all rows, which see nothing
	// of each other. A row without a state starts from zero and keeps nothing. One with a state goes on from it and
	// leaves in it the state after the row. So any way of cutting a sequence into rows gives the same y, up to
	// rounding. A row has the same bits alone and beside any others.
	Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor
	// NewState returns the state of one sequence before its first position, to which Begin must give memory.
	NewState() State
	// Traits says what the mixer can take, and what its state costs.
	Traits() Traits
}

// Traits are the differences between mixers that their users must know. The zero value is that of a recurrence: causal,
// for sequences of any length, with a state of fixed size.
type Traits struct {
	// LooksAhead tells whether y[t] depends on inputs after t, as in bidirectional layers. Such a mixer keeps no state
	// and cannot be part of a language model.
	LooksAhead bool
	MaxLength  int // positions of the longest sequence, 0 for any
	Multiple   int // the lengths of sequences are multiples of it, 0 for any
	Growth     int // bytes that each further position adds to the state, perhaps up to some length
	// Convolves tells whether the rows of a call are long convolutions: pieces of some hundred positions are then read
	// faster than those of some dozens.
	Convolves bool
	// ByPosition reports whether a position with nothing before it has other outputs at another place of the sequence.
	ByPosition bool
	// Steps tells whether the recurrence goes by the times of positions: see Rows.Steps.
	Steps bool
	// StepsRows tells whether Forward takes stepped rows (engine.Rows.AddStepped) itself, on an engine that does: see
	// Run.
	StepsRows bool
}

// State is what a mixer carries of one sequence from row to row. While a tape records, a state is part of the tape:
// gradients flow through it into earlier rows until Detach.
type State interface {
	// Size is the number of bytes that hold the state now.
	Size() int
	// Clone returns an independent copy: the way to fork a sequence.
	Clone() State
	// Detach cuts the state from the tape, so that gradients stop here and the tape can be reset.
	Detach()
	// Keep bounds a state that grows with the sequence: it forgets all but the last n positions. One of fixed size does
	// nothing.
	Keep(n int)
	// Tensors visits the tensors that make up the state, by name, for saving. Only Restore may change them.
	Tensors(visit func(name string, x *tensor.Tensor))
	// Restore copies values that Tensors gave into one tensor of a new state. The shape may begin with an axis of
	// length 1, one sequence, as earlier versions saved it.
	Restore(name string, shape []int, data []float32) error
}

// Config is what the mixers of a model share. Each mixer reads the fields it knows, and the options that are its own.
type Config struct {
	DModel    int     // width of the stream
	NLayer    int     // layers of the whole model, for the scale of the initialization
	DState    int     // size N of the SSM state: N/2 complex modes, N places of the shift
	HeadDim   int     // H3: channels of a head, 1 in the releases
	HeadOrder string  // H3: "dh" or "hd", how heads of more than one channel are flattened at the output
	DtMin     float64 // the range that dt starts in
	DtMax     float64
	Measure   string // how A starts: diag-lin, diag-inv, diag-legs, ...
	NumHeads  int    // attention: heads
	RotaryDim int    // attention: rotated components of each head, 0 for none
	Dropout   float64
	Options   Options  // of this mixer alone: they stand above the fields
	Earlier   []string // of the layers before, as mamba2+attention
}

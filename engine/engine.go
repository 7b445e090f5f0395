// Package engine is the contract between the tape and what computes: every operation that a model is made of, as a
// method of Engine. Package autograd checks shapes and calls it; engine/cpu computes fast, engine/reference by
// definition in float64. A new engine starts with a Core, on which engine/compose builds all of Engine, and writes the
// operations at which it is fast. An engine that passes the tests of these can run any model.
//
// The package does no arithmetic on tensors. It has the few facts on which all engines must agree to the bit, such as
// which blocks of keys a query sees, and the caches of sequences.
//
// Shapes: n positions of all rows, l length of one, d channels, h heads, v vocabulary. Operations along the sequence
// take Rows, which say where in (n, d) each sequence lies, and Slots, which hold the state of each. They carry a state
// through a row: from before it to after it, in place, or as a new tensor while the tape records. Results are new
// tensors that live until Reset. Shapes have been checked before an engine is called. See
// docs/decisions/0013-engines.md.
package engine

import "github.com/hippo-ssm/hippo/tensor"

// Engine computes the operations of one tape. It is for one goroutine; inside it may use all cores. The groups of
// operations are files of this package, in this order.
type Engine interface {
	Memory
	Gradients

	Pointwise    // Activate, Add, Mul, Gate, GLU, Dropout, ...
	Moves        // Split, Join, Append, Cut, Reverse, ...
	Products     // Linear, Embedding
	Norms        // LayerNorm, RMSNorm, with the residual sum
	Losses       // cross-entropy, squared error
	Convolutions // short and long filters, with gates
	Systems      // shift and diagonal state-space models, DSS, diagonal plus low rank
	Scans        // Mamba, Mamba-2, recurrent networks
	Attentions   // softmax, linear, squared ReLU, sparse
	Routed       // mixtures of experts
}

// RowStepper is an engine that, unless the tape records, steps the positions of stepped rows with a state in ShiftSSM,
// DiagSSM, DPLRSSM, CausalConv, SelectiveScan, SSD, DeltaRule, Phase, Recurrence and RGLRU: a call has the bits of one
// for each position.
type RowStepper interface{ StepsRows() }

// Viewer is an engine whose Gate, Mul, AddBias and CausalConv read parts of a tensor where they lie.
type Viewer interface {
	// Columns is Split without copies: the parts have the elements of x, which must not change, and go to these
	// operations only.
	Columns(x *tensor.Tensor, widths ...int) []*tensor.Tensor
}

// Op is what a recorded operation leaves on the tape. What its backward needs beside inputs and outputs differs from
// engine to engine (one keeps spectra, another computes them again), so it is the engine's.
type Op interface {
	// Name is the operation's name, for errors and for the search of the first NaN.
	Name() string
	// Outputs calls visit with every tensor that the operation made and whose gradient dies once its backward has run.
	Outputs(visit func(*tensor.Tensor))
}

// Step holds the settings of a tape. Its engine reads them at every operation.
type Step struct {
	Recording bool      // save what backward needs, and replace states rather than update them
	Precision Precision // of the operands of matrix products, Float32 or BF16
	Push      func(Op)  // takes an operation whose inputs want a gradient
	Leaves    Leaves    // collects the gradients of leaves; nil for none
	// Frozen means that no leaf wants a gradient, only tensors that the engine has made.
	Frozen bool
}

// Leaves collects the gradients of leaves: of parameters and inputs, which no operation made and which several steps
// may share. A tensor cannot hold them; an engine stores those of leaves that nobody collects.
type Leaves interface {
	// Gradient returns the tensor to which the gradient of x is added, nil if x is not collected.
	Gradient(x *tensor.Tensor) *tensor.Tensor
	// Use reports that x, which wants a gradient, is an input of an operation that is about to be recorded.
	Use(x *tensor.Tensor)
}

// Memory lends tensors.
type Memory interface {
	// New returns a tensor with unspecified contents.
	New(shape ...int) *tensor.Tensor
	// Full returns a tensor whose elements are all v.
	Full(v float32, shape ...int) *tensor.Tensor
	// Reset takes back all memory: no tensor made since the last Reset may be used.
	Reset()
	// Mark names the present point for ReleaseSince.
	Mark() int
	// ReleaseSince releases the memory of every tensor made after mark except keep.
	ReleaseSince(mark int, keep ...*tensor.Tensor)
	// Bytes is the memory that the engine holds for this tape.
	Bytes() int
}

// Gradients go back through what was recorded.
type Gradients interface {
	// Backward adds an operation's part to the gradients of its inputs.
	Backward(op Op)
	// BackwardFrom is Backward of the operation that made y, with dy itself as the gradient of y. It reports whether it
	// can do that, and does nothing if not.
	BackwardFrom(op Op, y, dy *tensor.Tensor) bool
	// AddGrad adds dy, which may be a tensor of the host, to the gradient of y if one is wanted.
	AddGrad(y, dy *tensor.Tensor)
	// Grad returns the gradient of x itself, nil if there is none. It is valid until more is added or DropGrad.
	Grad(x *tensor.Tensor) *tensor.Tensor
	// DropGrad releases the gradient of x, if it has one.
	DropGrad(x *tensor.Tensor)
}

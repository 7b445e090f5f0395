// Package engine defines the interface between the tape and the engines that compute: every operation of a model is a
// method of Engine. Package autograd checks shapes and calls these methods. Package engine/cpu computes fast,
// engine/reference by definition in float64. A new engine starts with a Core, on which engine/compose builds all of
// Engine, and implements the operations at which it is fast. An engine that passes the tests of these packages can run
// any model.
//
// The package does no arithmetic on tensors. It contains the few rules on which all engines must agree to the bit, such
// as which blocks of keys a query sees, and the caches of sequences.
//
// Shapes: n positions of all rows, l length of one, d channels, h heads, v vocabulary. Operations along the sequence
// take Rows, which locate each sequence in (n, d), and Slots, which hold the state of each. They carry a state through
// a row, from before it to after it: in place, or as a new tensor while the tape records. Results are new tensors that
// live until Reset. Shapes have been checked before an engine is called. See docs/decisions/0013-engines.md.
package engine

import "github.com/hippo-ssm/hippo/tensor"

// Engine computes the operations of one tape. Only one goroutine may use it; internally it may use all cores. The
// groups of operations are files of this package, in this order.
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

// RowStepper is implemented by an engine that steps through the positions of stepped rows, unless the tape records.
// This holds for rows with a state in ShiftSSM, DiagSSM, DPLRSSM, CausalConv, SelectiveScan, SSD, DeltaRule, Phase,
// Recurrence and RGLRU. A call then has the bits of separate calls for each position.
type RowStepper interface{ StepsRows() }

// Viewer is implemented by an engine whose Gate, Mul, AddBias and CausalConv can read columns of a tensor without a
// copy.
type Viewer interface {
	// Columns is Split without copies. The parts share the elements of x, which must not change, and may only be passed
	// to the operations above.
	Columns(x *tensor.Tensor, widths ...int) []*tensor.Tensor
}

// Op is a recorded operation on the tape. What its backward pass needs besides inputs and outputs differs between
// engines (one keeps spectra, another computes them again), so each engine has its own type.
type Op interface {
	// Name returns the operation's name, for errors and for the search for the first NaN.
	Name() string
	// Outputs calls visit with every tensor that the operation made and whose gradient dies once its backward has run.
	Outputs(visit func(*tensor.Tensor))
}

// Step holds the settings of a tape. The tape's engine reads them at every operation.
type Step struct {
	Recording bool      // save what the backward pass needs, and replace states instead of updating them
	Precision Precision // of the operands of matrix products, Float32 or BF16
	Push      func(Op)  // adds an operation whose inputs want a gradient to the tape
	Leaves    Leaves    // collects the gradients of leaves; may be nil
	// Frozen is set if no leaf wants a gradient, only tensors that the engine has made.
	Frozen bool
}

// Leaves collects the gradients of leaves: parameters and inputs, which no operation made and which several steps may
// share. A tensor cannot hold its gradient. The engine stores the gradients of leaves that are not collected.
type Leaves interface {
	// Gradient returns the tensor to which the gradient of x is added, or nil if x is not collected.
	Gradient(x *tensor.Tensor) *tensor.Tensor
	// Use is called when x, which wants a gradient, is an input of an operation that is about to be recorded.
	Use(x *tensor.Tensor)
}

// Memory allocates tensors.
type Memory interface {
	// New returns a tensor with unspecified contents.
	New(shape ...int) *tensor.Tensor
	// Full returns a tensor whose elements are all v.
	Full(v float32, shape ...int) *tensor.Tensor
	// Reset frees all memory: no tensor made since the last Reset may be used.
	Reset()
	// Mark returns the current point for ReleaseSince.
	Mark() int
	// ReleaseSince releases the memory of every tensor made after mark except keep.
	ReleaseSince(mark int, keep ...*tensor.Tensor)
	// Bytes returns the memory that the engine holds for this tape.
	Bytes() int
}

// Gradients computes the backward pass of what was recorded.
type Gradients interface {
	// Backward adds an operation's contribution to the gradients of its inputs.
	Backward(op Op)
	// BackwardFrom is Backward for the operation that made y, with dy itself as the gradient of y. It reports whether
	// the engine supports this, and does nothing if not.
	BackwardFrom(op Op, y, dy *tensor.Tensor) bool
	// AddGrad adds dy, which may be in host memory, to the gradient of y if it is wanted.
	AddGrad(y, dy *tensor.Tensor)
	// Grad returns the gradient of x itself, or nil if there is none. It is valid until the gradient changes or
	// DropGrad is called.
	Grad(x *tensor.Tensor) *tensor.Tensor
	// DropGrad releases the gradient of x, if it has one.
	DropGrad(x *tensor.Tensor)
}

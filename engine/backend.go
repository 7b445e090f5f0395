package engine

import "github.com/hippo-ssm/hippo/tensor"

// Backend is a kind of engine. It opens an engine for each tape, and owns what outlives a step, such as parameters,
// their gradients and the moments of an optimizer. It is safe for concurrent use.
type Backend interface {
	// Kind returns the name of the backend: cpu, reference.
	Kind() string
	// Open returns an engine for the tape whose settings are in step.
	Open(step *Step) Engine
	// Zeros returns a tensor of zeros in the shape of each of like. The tensors are adjacent in memory, so that they
	// can be processed as a whole.
	Zeros(like ...*tensor.Tensor) []*tensor.Tensor
	// AllFinite reports whether x holds neither NaN nor infinity.
	AllFinite(x *tensor.Tensor) bool
	// Place moves the elements of tensors that outlive a step to the memory in which its engines compute. CopyFrom and
	// CopyTo still copy them in and out.
	Place(xs ...*tensor.Tensor)
	// LossMemory returns the number of floats that LinearCrossEntropy of x (rows, d) and W (v, d) keeps until the
	// backward pass. frozen is set if W is frozen.
	LossMemory(rows, d, v int, frozen bool) int
	Packing
	Updates
}

// StateRounder is implemented by a Backend whose engines store the states of some recurrences in bfloat16 between
// calls. An operation rounds them to the nearest number, ties to even: after each position if rows are short or
// stepped, else after each row. While a tape records, states become float32.
type StateRounder interface {
	// RoundedState returns storage without memory for n numbers of a state.
	RoundedState(n int) tensor.InMemory
}

// Failure returns the failure of a backend's device, or nil if there is none or the backend cannot fail. After a
// failure, numbers that are read are NaN.
func Failure(b Backend) error {
	if d, ok := b.(interface{ Err() error }); ok {
		return d.Err()
	}
	return nil
}

// Room returns an estimate of the bytes of memory that a backend's device still has. known is false if the backend has
// no memory of its own.
func Room(b Backend) (bytes int64, known bool) {
	d, known := b.(interface{ Room() int64 })
	if !known {
		return 0, false
	}
	return d.Room(), true
}

// Updates is the arithmetic of an optimizer, on tensors that outlive a step. In each call the lists have the same
// length, and tensors with the same index have the same shape.
type Updates interface {
	// Norm returns the Euclidean norm of all elements together. It does not depend on the number of cores.
	Norm(xs []*tensor.Tensor) float64
	// AdamW updates parameters p with gradients g, which become zero (arXiv:1711.05101):
	//
	//	m ← β1 m + (1-β1) s g,  v ← β2 v + (1-β2) (s g)²,
	//	p ← p(1 - lr·decay) - lr · (m/c1) / (√(v/c2) + ε)
	AdamW(params []*tensor.Tensor, moments []Moments, grads []*tensor.Tensor, step AdamWStep)
	// Sum adds src to dst: dst ← dst + src, src ← 0.
	Sum(dst, src []*tensor.Tensor)
	// Average moves averages towards xs: a ← a + share·(x - a).
	Average(averages, xs []*tensor.Tensor, share float32)
	// Swap exchanges the elements of a and b.
	Swap(a, b []*tensor.Tensor)
}

// Moments holds the moments of a parameter, and the settings of its group.
type Moments struct {
	M, V      *tensor.Tensor
	LR, Decay float64
}

// AdamWStep holds the settings that all parameters share in an update.
type AdamWStep struct {
	Factor             float64 // of the learning rates
	Beta1, Beta2, Eps  float64
	Correct1, Correct2 float64 // c1 = 1-β1^t and c2 = 1-β2^t in update t
	GradScale          float64 // s
}

package engine

import "github.com/hippo-ssm/hippo/tensor"

// Backend is a kind of engine: it opens one for each tape, and owns what outlives a step, such as parameters, their
// gradients and the moments of an optimizer. Any number of goroutines may use it.
type Backend interface {
	// Kind is its name: cpu, reference.
	Kind() string
	// Open returns an engine for the tape whose step it reads.
	Open(step *Step) Engine
	// Zeros returns a tensor of zeros in the shape of each of like, side by side, for what is processed as a whole.
	Zeros(like ...*tensor.Tensor) []*tensor.Tensor
	// AllFinite reports whether x holds neither NaN nor infinity.
	AllFinite(x *tensor.Tensor) bool
	// Place moves the elements of tensors that outlive a step to where its engines compute. CopyFrom and CopyTo still
	// carry them in and out.
	Place(xs ...*tensor.Tensor)
	// LossMemory is the number of floats that LinearCrossEntropy of x (rows, d) and W (v, d), perhaps frozen, keeps
	// until backward.
	LossMemory(rows, d, v int, frozen bool) int
	Packing
	Updates
}

// StateRounder is a Backend whose engines hold the states of some recurrences in bfloat16 between calls. An operation
// rounds them to the nearest, ties to even, after each position where rows are short or stepped, and else after each
// row. While a tape records, they become float32.
type StateRounder interface {
	// RoundedState is storage without memory for n numbers of a state.
	RoundedState(n int) tensor.InMemory
}

// Failure is the failure of the device of a backend, nil for none and for one that cannot fail. After it, numbers that
// are read are NaN.
func Failure(b Backend) error {
	if d, ok := b.(interface{ Err() error }); ok {
		return d.Err()
	}
	return nil
}

// Room is how many bytes of memory the device of a backend still has, for all that one may tell beforehand; known is
// false for one that has no memory of its own.
func Room(b Backend) (bytes int64, known bool) {
	d, known := b.(interface{ Room() int64 })
	if !known {
		return 0, false
	}
	return d.Room(), true
}

// Updates is the arithmetic of an optimizer, on tensors that outlive a step. In each call the lists are equally long,
// and tensors at the same place have the same shape.
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

// Moments are the moments of a parameter, and the settings of its group.
type Moments struct {
	M, V      *tensor.Tensor
	LR, Decay float64
}

// AdamWStep are the settings that all parameters share in an update.
type AdamWStep struct {
	Factor             float64 // of the learning rates
	Beta1, Beta2, Eps  float64
	Correct1, Correct2 float64 // c1 = 1-β1^t and c2 = 1-β2^t in update t
	GradScale          float64 // s
}

package engine

import "github.com/hippo-ssm/hippo/tensor"

// Core is the minimum that an engine must implement. Package engine/compose builds every operation of Engine from it,
// forward and backward. A new engine starts with these methods, and then implements the operations that take most of
// its time.
//
// A Core computes on views of its own memory. All views of a call have the same shape unless stated otherwise, and to
// is the result. Work may be queued: only Read waits for it.
type Core interface {
	// Kind returns the name of the engine.
	Kind() string
	// New returns memory for n numbers with unspecified contents. Only its Read and Write copy numbers out and in.
	New(n int) Buffer
	// Free frees memory. Memory that is not freed is garbage collected.
	Free(b Buffer)

	// Fill sets to = c.
	Fill(to View, c float64)
	// Count sets to[i] = i, for one axis.
	Count(to View)
	// Keep sets to[i] = 1 where counter.Keep(seed, i, threshold) is true, else 0, for one axis.
	Keep(to View, seed uint64, threshold uint32)

	// Affine sets to = scale·x + shift.
	Affine(to, x View, scale, shift float64)
	// Map sets to = f(x). to may be x.
	Map(f Function, to, x View)
	// Zip sets to = x f y. to may be x or y.
	Zip(f Operator, to, x, y View)
	// Select sets to = x where the condition is not 0, else y.
	Select(to, condition, x, y View)

	// Sum adds to += x. If the view to has an element several times, all the corresponding x are added to it. A stride
	// of 0 in to thus gives a sum along an axis.
	Sum(to, x View)
	// Max sets to = max(to, x), likewise.
	Max(to, x View)
	// Dot adds to += x·y, likewise. Matrix products and convolutions are views of it.
	Dot(to, x, y View)

	// Gather sets to[i] = x[rows[i]] along the first axis, on which x may be longer or shorter.
	Gather(to, x View, rows []int32)
	// Scatter adds to[rows[i]] += x[i] along the first axis, on which to may be longer or shorter.
	Scatter(to, x View, rows []int32)
}

// Buffer is memory of a Core. Only the Core accesses its contents directly.
type Buffer = tensor.Storage

// View is a view of the elements of a buffer: element (i, j, …) is number At + i·Stride[0] + j·Stride[1] + …. A stride
// of 0 repeats elements, a negative one reverses them, and windows may overlap.
type View struct {
	Of     Buffer
	At     int
	Shape  []int
	Stride []int
}

// Function is a function of one number.
type Function int

// The functions of Core.Map.
const (
	FnExp Function = iota
	FnExpm1
	FnLog
	FnLog1p
	FnSqrt
	FnReciprocal
	FnSigmoid
	FnTanh
	FnErf
	FnSin
	FnCos
	FnAbs
)

// Operator is a function of two numbers.
type Operator int

// The operators of Core.Zip.
const (
	OpPlus Operator = iota
	OpMinus
	OpTimes
	OpLess // 1 where x < y, else 0
)

package engine

import "github.com/hippo-ssm/hippo/tensor"

// Core is what an engine must have. Package engine/compose builds every operation of Engine from it, forward and
// backward, so a new engine starts with these methods and then writes the operations in which its time goes.
//
// A Core computes on views of its own memory. All views of a call have the same shape unless it says otherwise, and to
// is the result. Work may be queued: only Read waits for it.
type Core interface {
	// Kind is the name of the engine.
	Kind() string
	// New returns memory for n numbers with unspecified contents. Its Read and Write are the only ways out and in.
	New(n int) Buffer
	// Free takes memory back. Memory that nobody frees belongs to the garbage collector.
	Free(b Buffer)

	// Fill: to = c.
	Fill(to View, c float64)
	// Count: to[i] = i, for one axis.
	Count(to View)
	// Keep: to[i] = 1 where counter.Keep(seed, i, threshold), else 0, for one axis.
	Keep(to View, seed uint64, threshold uint32)

	// Affine: to = scale·x + shift.
	Affine(to, x View, scale, shift float64)
	// Map: to = f(x). to may be x.
	Map(f Function, to, x View)
	// Zip: to = x f y. to may be x or y.
	Zip(f Operator, to, x, y View)
	// Select: to = x where the condition is not 0, else y.
	Select(to, condition, x, y View)

	// Sum: to += x. An element of to that the view has several times gets the sum of all its x; so a sum along an axis
	// is a stride of 0 in to.
	Sum(to, x View)
	// Max: to = max(to, x), likewise.
	Max(to, x View)
	// Dot: to += x·y, likewise. Matrix products and convolutions are views of it.
	Dot(to, x, y View)

	// Gather: to[i] = x[rows[i]] along the first axis, on which x may be longer or shorter.
	Gather(to, x View, rows []int32)
	// Scatter: to[rows[i]] += x[i] along the first axis, on which to may be longer or shorter.
	Scatter(to, x View, rows []int32)
}

// Buffer is memory of a Core. Only the Core looks inside.
type Buffer = tensor.Storage

// View is elements of a buffer: element (i, j, …) is number At + i·Stride[0] + j·Stride[1] + …. A stride of 0 repeats
// elements, a negative one turns them round, and windows overlap.
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

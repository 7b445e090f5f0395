package cpu

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// segment is a piece of one tensor of a list, the unit of work of an update. Norms are summed segment by segment, so
// that they do not depend on the number of cores.
type segment struct{ tensor, lo, hi int }

const segmentSize = 1 << 14

// segmentLists recycles the memory of segmentsOf.
var segmentLists = sync.Pool{New: func() any { return new([]segment) }}

// segmentsOf returns the segments of tensors, in their order. They must be given back to segmentLists.
func segmentsOf(xs []*tensor.Tensor) *[]segment {
	all := segmentLists.Get().(*[]segment)
	*all = (*all)[:0]
	for i, x := range xs {
		for lo, n := 0, x.Len(); lo < n; lo += segmentSize {
			*all = append(*all, segment{i, lo, min(n, lo+segmentSize)})
		}
	}
	return all
}

// forSegments calls f with the elements of each segment of two lists of tensors.
func forSegments(a, b []*tensor.Tensor, f func(a, b []float32)) {
	all := segmentsOf(a)
	defer segmentLists.Put(all)
	parallel.For(len(*all), 1, func(lo, _ int) {
		s := (*all)[lo]
		f(a[s.tensor].Data()[s.lo:s.hi], b[s.tensor].Data()[s.lo:s.hi])
	})
}

// Norm returns the norm of all elements together.
func (Backend) Norm(xs []*tensor.Tensor) float64 {
	all := segmentsOf(xs)
	defer segmentLists.Put(all)
	return math.Sqrt(parallel.Sum(len(*all), 1, func(lo, _ int) float64 {
		s := (*all)[lo]
		return kernel.SumSquares(xs[s.tensor].Data()[s.lo:s.hi])
	}))
}

// AdamW updates parameters in one pass over memory.
func (Backend) AdamW(params []*tensor.Tensor, moments []engine.Moments, grads []*tensor.Tensor, a engine.AdamWStep) {
	all := segmentsOf(params)
	defer segmentLists.Put(all)
	parallel.For(len(*all), 1, func(lo, _ int) {
		s := (*all)[lo]
		m := &moments[s.tensor]
		step := kernel.AdamWStep{
			LR: m.LR * a.Factor, Decay: m.Decay, Beta1: a.Beta1, Beta2: a.Beta2, Eps: a.Eps,
			Correct1: a.Correct1, Correct2: a.Correct2, GradScale: a.GradScale,
		}
		part := func(x *tensor.Tensor) []float32 { return x.Data()[s.lo:s.hi] }
		kernel.AdamW(part(params[s.tensor]), part(m.M), part(m.V), part(grads[s.tensor]), &step)
	})
}

// Sum adds src to dst and zeroes src.
func (Backend) Sum(dst, src []*tensor.Tensor) {
	forSegments(dst, src, func(y, x []float32) {
		kernel.Add(y, x)
		clear(x)
	})
}

// Average sets each average a to a + share·(x - a).
func (Backend) Average(averages, xs []*tensor.Tensor, share float32) {
	forSegments(averages, xs, func(a, x []float32) {
		for i, w := range x {
			a[i] += share * (w - a[i])
		}
	})
}

// Swap exchanges the elements of a and b.
func (Backend) Swap(a, b []*tensor.Tensor) {
	forSegments(a, b, func(x, y []float32) {
		for i, v := range x {
			x[i], y[i] = y[i], v
		}
	})
}

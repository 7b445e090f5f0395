package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// convolution is the work of DiagSSM, BothWays and the long convolutions over rows that share a plan. It handles 16
// channels at a time, the lanes of the transform. A channel is one u_ij = k_i·v_j of one head, numbered head·head_dim²
// + i·head_dim + j. A core takes as many heads as fill the lanes, so one core computes each sum over the channels of a
// head, in one order.
type convolution struct {
	engine.Gates
	heads int
	rows  []span
	// taps and tapsAhead are the numbers of taps in use of the kernels, and of the kernels that look ahead. They depend
	// neither on where a row starts nor on the other rows.
	taps, tapsAhead int
	kern, skip, y   *tensor.Tensor // the heads' kernels, in lanes or rows; their skips (heads) or nil
	ahead           *tensor.Tensor // kernels that look ahead, of the shape of kern, or nil: see BothWays
	plan            *kernel.ConvPlan
	pieces          bool      // the rows are pieces of longer ones
	kept            []float32 // spectra of the kernels from forward for backward; nil to compute them again
	grads           convGrads

	// For DiagSSM: the system, and the states of the rows, nil if there are none. All rows have the same length.
	sys           *diagSystem
	before, after []*tensor.Tensor
}

// keepUpTo is the size in floats up to which the kernels' spectra are saved for backward. Writing and reading larger
// ones takes as long as computing them again.
const keepUpTo = 3 << 19

// keep makes space for the kernels' spectra if keeping them is worth while. With more rows, a kernel's transform is a
// smaller part of the work. Nothing is kept for pieces of a row, so that memory does not grow with their number.
func (c *convolution) keep(eng *Engine) {
	n := (c.heads + lanes - 1) / lanes * c.plan.SpectrumSize()
	if n <= keepUpTo && c.HeadDim == 1 && len(c.rows) <= 4 && !c.pieces {
		c.kept = eng.arena.Floats(n)
	}
}

// convGrads holds the gradients of the inputs, nil if not wanted. Backward adds to the gradients marked in adds, and
// overwrites the others.
type convGrads struct {
	q, k, v, kern, ahead, skip []float32
	states                     [][]float32 // of the states before the rows
	adds                       struct{ q, k, v, kern bool }
}

const lanes = kernel.Lanes

func (c *convolution) headsAtOnce() int { return max(1, lanes/(c.HeadDim*c.HeadDim)) }

// tapsOfGrads returns the number of taps to whose gradients the rows contribute.
func (c *convolution) tapsOfGrads() int { return min(c.taps, c.longest()) }

// longest returns the length of the longest row.
func (c *convolution) longest() int {
	l := 0
	for _, row := range c.rows {
		l = max(l, row.len)
	}
	return l
}

// whole reports whether the rows cover all positions of the tensors.
func (c *convolution) whole() bool {
	n := 0
	for _, row := range c.rows {
		n += row.len
	}
	return n == c.V.Rows()
}

// carries reports whether row b has a state before it or after it.
func (c *convolution) carries(b int) bool { return c.state(b) != nil || c.next(b) != nil }

// state returns the state before row b, or nil if there is none.
func (c *convolution) state(b int) *tensor.Tensor { return at(c.before, b) }

// next returns the state after row b, or nil if it is not wanted.
func (c *convolution) next(b int) *tensor.Tensor { return at(c.after, b) }

// at returns x[i], or nil if x is nil.
func at[T *tensor.Tensor | []float32](x []T, i int) T {
	if len(x) == 0 {
		return nil
	}
	return x[i]
}

// run computes y, and the states after the rows, on all cores.
func (c *convolution) run() { parallel.For(c.heads, c.headsAtOnce(), c.forward) }

// each calls f for the channels of the heads [lo, hi), up to 16 at a time.
func (c *convolution) each(lo, hi int, f func(w *convLanes)) {
	w := convLanesPool.Get().(*convLanes)
	defer convLanesPool.Put(w)
	w.c = c
	w.reserve()
	for c0, end := lo*c.HeadDim*c.HeadDim, hi*c.HeadDim*c.HeadDim; c0 < end; c0 += lanes {
		w.place(c0, min(lanes, end-c0))
		f(w)
	}
	w.c = nil
}

func (c *convolution) forward(lo, hi int) {
	c.each(lo, hi, func(w *convLanes) {
		w.beginKernel(w.u)
		for b, row := range c.rows {
			w.b = b
			c.plan.Begin(w.u, (*inputRows)(w), row.len)
			c.plan.Convolve(w.u, w.kernel, b == 0)
			w.statesForward()
			c.plan.End((*outputRows)(w), row.len, w.u, kernel.Spectrum{})
		}
	})
}

// backward recomputes u, its spectrum and z instead of keeping them, which needs no memory between forward and
// backward.
func (c *convolution) backward(lo, hi int) {
	wantQ := c.grads.q != nil
	c.each(lo, hi, func(w *convLanes) {
		if c.kept == nil {
			w.beginKernel(w.u)
		}
		for b, row := range c.rows {
			w.b = b
			c.plan.Begin(w.u, (*inputRows)(w), row.len)
			c.plan.Begin(w.dz, (*outputGradRows)(w), row.len)
			u := w.u
			if b == 0 && !wantQ {
				w.u, w.sum = w.sum, u // the sum starts in the memory of u
			}
			c.plan.Transpose(w.dz, u, w.kernel, w.sum,
				kernel.Transposed{First: b == 0, Ready: c.kept != nil, Last: b == len(c.rows)-1, Again: wantQ})
			w.statesBackward()
			z := kernel.Spectrum{}
			if wantQ {
				z = w.u
			}
			c.plan.End((*inputGradRows)(w), row.len, w.dz, z)
		}
		if c.grads.ahead != nil {
			c.plan.GradAhead(w.u, w.sum)
			c.plan.End((*aheadGradRows)(w), c.plan.N(), w.u, kernel.Spectrum{})
		}
		if c.grads.kern != nil || c.grads.skip != nil {
			c.plan.End((*kernelGradRows)(w), c.tapsOfGrads(), w.sum, kernel.Spectrum{})
		}
	})
}

// Backward prepares the gradients, and distributes the heads over the cores.
func (c *convolution) Backward(eng *Engine) {
	eng.grad(c.y)
	c.makeGrads(eng)
	parallel.For(c.heads, c.headsAtOnce(), c.backward)
}

// makeGrads prepares the gradients before the work is distributed. A gradient whose elements are each computed exactly
// once is overwritten; others start as zeros. The order q, k, v matters if they are one tensor.
func (c *convolution) makeGrads(eng *Engine) {
	g := &c.grads
	*g = convGrads{states: g.states[:0]}
	g.adds.q, g.adds.k, g.adds.v, g.adds.kern = true, true, true, true
	if c.HeadDim == 1 && c.whole() {
		_, g.adds.q = eng.gradTo(c.Q)
		_, g.adds.k = eng.gradTo(c.K)
		_, g.adds.v = eng.gradTo(c.V)
		if tapsOf(c.kern) <= c.tapsOfGrads() {
			_, g.adds.kern = eng.gradTo(c.kern)
		}
	}
	g.q, g.k, g.v, g.kern = eng.gradOf(c.Q), eng.gradOf(c.K), eng.gradOf(c.V), eng.gradOf(c.kern)
	g.ahead, g.skip = eng.gradOf(c.ahead), eng.gradOf(c.skip)
	for _, x := range c.before {
		g.states = append(g.states, eng.gradOf(x))
	}
}

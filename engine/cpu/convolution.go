package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// convolution is the work of DiagSSM, BothWays and the long convolutions over rows that have a plan in common, 16
// channels at a time, which are the lanes of the transform. A channel is one u_ij = k_i·v_j of one head, numbered
// head·head_dim² + i·head_dim + j. A core takes as many heads as fill the lanes, so that what is summed over the
// channels of a head is summed by one core in one order.
type convolution struct {
	engine.Gates
	heads int
	rows  []span
	// taps and tapsAhead are how many taps of the kernels are used, and of those that look ahead. They depend neither
	// on where a row starts nor on the other rows.
	taps, tapsAhead int
	kern, skip, y   *tensor.Tensor // the heads' kernels, in lanes or rows; their skips (heads) or nil
	ahead           *tensor.Tensor // kernels that look ahead, of the shape of kern, or nil: see BothWays
	plan            *kernel.ConvPlan
	pieces          bool      // the rows are pieces of longer ones
	kept            []float32 // spectra of the kernels from forward for backward; nil to make them again
	grads           convGrads

	// Of DiagSSM: the system, and the states of the rows, nil where there are none. The rows have one length.
	sys           *diagSystem
	before, after []*tensor.Tensor
}

// keepUpTo is the size in floats up to which the kernels' spectra are saved for backward: to write and read larger ones
// takes as long as to make them again.
const keepUpTo = 3 << 19

// keep makes space to keep the kernels' spectra where that pays: with more rows a kernel's transform is a smaller part
// of the work. Nothing is kept for pieces of a row, so that memory does not grow with their number.
func (c *convolution) keep(eng *Engine) {
	n := (c.heads + lanes - 1) / lanes * c.plan.SpectrumSize()
	if n <= keepUpTo && c.HeadDim == 1 && len(c.rows) <= 4 && !c.pieces {
		c.kept = eng.arena.Floats(n)
	}
}

// convGrads are the gradients of the inputs, nil where none is wanted. Backward adds to those that adds names, and
// writes the others.
type convGrads struct {
	q, k, v, kern, ahead, skip []float32
	states                     [][]float32 // of the states before the rows
	adds                       struct{ q, k, v, kern bool }
}

const lanes = kernel.Lanes

func (c *convolution) headsAtOnce() int { return max(1, lanes/(c.HeadDim*c.HeadDim)) }

// tapsOfGrads is the number of taps that the rows give gradients to.
func (c *convolution) tapsOfGrads() int { return min(c.taps, c.longest()) }

// longest is the length of the longest row.
func (c *convolution) longest() int {
	l := 0
	for _, row := range c.rows {
		l = max(l, row.len)
	}
	return l
}

// whole reports whether the rows are all positions of the tensors.
func (c *convolution) whole() bool {
	n := 0
	for _, row := range c.rows {
		n += row.len
	}
	return n == c.V.Rows()
}

// carries reports whether row b has a state before it or after it.
func (c *convolution) carries(b int) bool { return c.state(b) != nil || c.next(b) != nil }

// state is the state before row b, nil for none.
func (c *convolution) state(b int) *tensor.Tensor { return at(c.before, b) }

// next is the state after row b, nil where none is wanted.
func (c *convolution) next(b int) *tensor.Tensor { return at(c.after, b) }

// at is x[i], or nil where x is nil.
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

// backward recomputes u, its spectrum and z rather than keep them: that costs no memory between forward and backward.
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
				w.u, w.sum = w.sum, u // the sum starts in u's place
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

// Backward makes the gradients, and has the cores share the heads.
func (c *convolution) Backward(eng *Engine) {
	eng.grad(c.y)
	c.makeGrads(eng)
	parallel.For(c.heads, c.headsAtOnce(), c.backward)
}

// makeGrads makes the gradients before the cores share the work. Where every element of a gradient is computed exactly
// once, a new one is written; elsewhere it starts as zeros. The order q, k, v matters where they are one tensor.
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

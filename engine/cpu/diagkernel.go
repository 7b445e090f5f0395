package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagKernel computes the kernels in lanes (⌈h/16⌉, l, 16), as a product with a Vandermonde matrix of powers of Ā.
func (eng *Engine) DiagKernel(sys *engine.DiagSystem, l int) *tensor.Tensor {
	s := diagOf(sys)
	k := eng.newKernels(s.H, l)
	parallel.For(s.H, kernelsAtOnce, func(lo, hi int) {
		w := modePool.Get().(*modeScratch)
		defer modePool.Put(w)
		w.resize(s.width)
		ld := w.resizeRows(l)
		for h := lo; h < hi; h++ {
			w.setKernel(s, h, l)
			w.v.Apply(w.rows[(h-lo)*ld:][:ld], w.c)
		}
		kernel.ToLanes(k.Data()[lo*l:], w.rows, ld, l, hi-lo, k.Len() >= unreadFrom)
	})
	if eng.Recording && s.wantGrad {
		eng.push("DiagKernel", save(eng, diagKernelOp{sys: s, k: k}), k)
	}
	return k
}

type diagKernelOp struct {
	sys *diagSystem
	k   *tensor.Tensor
}

func (o *diagKernelOp) result() *tensor.Tensor { return o.k }
func (o *diagKernelOp) Backward(eng *Engine) {
	dk, s := o.k.Grad(), o.sys
	if dk == nil {
		return
	}
	l := tapsOf(o.k)
	parallel.For(s.H, kernelsAtOnce, func(lo, hi int) {
		w := modePool.Get().(*modeScratch)
		defer modePool.Put(w)
		w.resize(s.width)
		ld := w.resizeRows(l)
		kernel.FromLanes(w.rows, dk[lo*l:], ld, l, hi-lo)
		for h := lo; h < hi; h++ {
			w.setKernel(s, h, l)
			row := w.rows[(h-lo)*ld:][:ld]
			clear(row[l:])
			w.v.Sums(w.s, w.ds, row)
			s.of(s.dC, h).AddConjMul(2, w.s, s.of(s.bbar, h))
			s.of(s.dB, h).AddConjMul(2, w.s, s.of(s.c, h))
			s.of(s.dA, h).AddConjMul(1, w.c, w.ds)
		}
	})
}

// unreadFrom is the number of floats above which the first kernels have left the processor's caches by the time they
// are read.
const unreadFrom = 2 << 20

// modeScratch is scratch for the modes of a channel.
type modeScratch struct {
	v        kernel.Vandermonde
	c, s, ds kernel.Modes
	rows     []float32 // channel by channel
}

// kernelsAtOnce is the number of channels whose kernels are computed together.
const kernelsAtOnce = lanes

var modePool = sync.Pool{New: func() any { return new(modeScratch) }}

func (w *modeScratch) resize(width int) {
	w.c, w.s, w.ds = resize(w.c, width), resize(w.s, width), resize(w.ds, width)
}

// resizeRows makes space in w.rows for kernels of length l, and returns the distance between them.
func (w *modeScratch) resizeRows(l int) (ld int) {
	ld = l + kernel.VandermondePad
	w.rows = resize(w.rows, kernelsAtOnce*ld)
	return ld
}

// setKernel sets w.v and w.c to the factors of the kernel of channel h.
func (w *modeScratch) setKernel(s *diagSystem, h, l int) {
	w.v.Set(s.of(s.abar, h), l)
	w.c.Mul(2, s.of(s.c, h), s.of(s.bbar, h))
}

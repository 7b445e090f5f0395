package cpu

import (
	"fmt"
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// diagSystem is this engine's form of an engine.DiagSystem: parameters and discretized system, channel by channel.
type diagSystem struct {
	engine.DiagSystem
	width         int          // of the modes of a channel: N padded, real and imaginary parts
	a, b, c       kernel.Modes // of the continuous system
	abar, bbar    kernel.Modes // of the discretized one
	dA, dB, dC    kernel.Modes // the gradients of Abar, Bbar and C
	dt            []float64    // (h)
	wantGrad      bool
	store         [3]modes // the storage of the tensors Abar, Bbar and C
	once          sync.Once
	a32, b32, c32 []float32 // Abar, Bbar, C as (h·n·2) float32 for the recurrence, computed at first use
	single32      []float32 // the memory of a32, b32 and c32
}

// publish creates the tensors of the engine.DiagSystem, over the memory of s.
func (s *diagSystem) publish() {
	s.Private = s
	for i, part := range []struct {
		x       **tensor.Tensor
		v, grad kernel.Modes
	}{{&s.Abar, s.abar, s.dA}, {&s.Bbar, s.bbar, s.dB}, {&s.C, s.c, s.dC}} {
		s.store[i] = modes{n: s.N, width: s.width, x: part.v}
		if s.wantGrad {
			s.store[i].grad = part.grad
		}
		if x := *part.x; x == nil || x.Dim(0) != s.H || x.Dim(1) != s.N {
			*part.x = tensor.Shaped(s.H, s.N, 2)
		}
		(*part.x).SetStorage(&s.store[i])
	}
}

// diagOf returns this engine's form of a system.
func diagOf(s *engine.DiagSystem) *diagSystem { return s.Private.(*diagSystem) }

// of returns the modes of channel h in one of the arrays.
func (s *diagSystem) of(x kernel.Modes, h int) kernel.Modes { return x[h*s.width:][:s.width] }

// DiagSystem discretizes in float64. Unless gradients are wanted, it caches the result in p.
func (eng *Engine) DiagSystem(p *engine.DiagParams) *engine.DiagSystem {
	h := p.LogDt.Len()
	n := p.InvAReal.Len() / h
	params := p.Tensors()
	if !eng.wants(params[:]...) {
		if s, ok := p.Cache.Load(kind, params[:]...).(*diagSystem); ok {
			return &s.DiagSystem
		}
		s := &diagSystem{}
		s.discretize(p, h, n)
		s.publish()
		p.Cache.Store(kind, s, params[:]...)
		return &s.DiagSystem
	}
	op := take[diagSystemOp](eng)
	op.p = p
	op.sys.discretize(p, h, n)
	op.sys.wantGrad = true
	for _, g := range []*kernel.Modes{&op.sys.dA, &op.sys.dB, &op.sys.dC} {
		*g = resize(*g, h*op.sys.width)
		clear(*g)
	}
	op.sys.publish()
	eng.push("DiagSystem", op, op.sys.Abar, op.sys.Bbar, op.sys.C)
	return &op.sys.DiagSystem
}

func (s *diagSystem) discretize(p *engine.DiagParams, h, n int) {
	s.H, s.N, s.width = h, n, 2*kernel.ModeLanes*((n-1)/kernel.ModeLanes+1)
	for _, x := range []*kernel.Modes{&s.a, &s.b, &s.c, &s.abar, &s.bbar} {
		*x = resize(*x, h*s.width)
	}
	s.dt = resize(s.dt, h)
	s.once = sync.Once{}
	parallel.For(h, 8, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			s.discretizeChannel(p, i)
		}
	})
}

func (s *diagSystem) discretizeChannel(p *engine.DiagParams, h int) {
	n, half, at := s.N, s.width/2, h*s.N
	a, b, c, abar, bbar := s.of(s.a, h), s.of(s.b, h), s.of(s.c, h), s.of(s.abar, h), s.of(s.bbar, h)
	clear(a) // the padding becomes A = -1, which discretizes without 0/0
	widen(a[:n], p.InvAReal.Data()[at:])
	if p.Real == engine.NegExp {
		kernel.NegExp(a[:half])
	} else {
		for i, x := range a[:half] {
			if a[i] = -1; i < n {
				a[i], _ = p.Real.Of(x)
			}
		}
	}
	widen(a[half:][:n], p.AImag.Data()[at:])
	if p.B != nil {
		unpair(b, p.B.Data()[2*at:], n)
	} else {
		clear(b)
		for i := range n {
			b[i] = 1
		}
	}
	unpair(c, p.C.Data()[2*at:], n)
	s.dt[h] = math.Exp(float64(p.LogDt.Data()[h]))
	disc := kernel.Discretization{A: a, B: b, Dt: s.dt[h], Abar: abar, Bbar: bbar}
	switch p.Disc {
	case engine.Bilinear:
		disc.Bilinear()
	case engine.ZOH:
		disc.ZOH()
	default:
		panic(fmt.Sprintf("autograd.DiagSystem: discretization %d", p.Disc))
	}
	for _, x := range []kernel.Modes{abar, bbar} {
		clear(x[n:half])
		clear(x[half+n:])
	}
}

// single computes a32, b32 and c32 at first use. Any number of goroutines may decode with one system.
func (s *diagSystem) single() {
	s.once.Do(func() {
		size := 2 * s.H * s.N
		if cap(s.single32) < 3*size {
			s.single32 = longLived(3 * size)
		}
		for i, x := range []struct {
			to   *[]float32
			from kernel.Modes
		}{{&s.a32, s.abar}, {&s.b32, s.bbar}, {&s.c32, s.c}} {
			*x.to = s.single32[:3*size][i*size:][:size]
			for h := range s.H {
				toPairs((*x.to)[2*h*s.N:], s.of(x.from, h), s.N)
			}
		}
	})
}

func widen(y []float64, x []float32) {
	x = x[:len(y)]
	for i, v := range x {
		y[i] = float64(v)
	}
}

// unpair sets x to n complex numbers (re, im), padded with zeros; toPairs does the reverse.
func unpair(x kernel.Modes, pairs []float32, n int) {
	re, im, pairs := x[:len(x)/2], x[len(x)/2:], pairs[:2*n]
	for i := range n {
		re[i], im[i] = float64(pairs[2*i]), float64(pairs[2*i+1])
	}
	clear(re[n:])
	clear(im[n:])
}

func toPairs(pairs []float32, x kernel.Modes, n int) {
	re, im, pairs := x[:n], x[len(x)/2:][:n], pairs[:2*n]
	for i := range n {
		pairs[2*i], pairs[2*i+1] = float32(re[i]), float32(im[i])
	}
}

// addPairs is like toPairs, but adds. It does nothing if pairs is nil.
func addPairs(pairs []float32, x kernel.Modes, n int) {
	if pairs == nil {
		return
	}
	re, im, pairs := x[:n], x[len(x)/2:][:n], pairs[:2*n]
	for i := range n {
		pairs[2*i] += float32(re[i])
		pairs[2*i+1] += float32(im[i])
	}
}

type diagSystemOp struct {
	p   *engine.DiagParams
	sys diagSystem
}

// Backward propagates the gradients of Ā, B̄ and C, to which all users of the system have added, to the parameters.
func (o *diagSystemOp) Backward(eng *Engine) {
	var g [5][]float32
	for i, x := range o.p.Tensors() {
		g[i] = eng.gradOf(x)
	}
	parallel.For(o.sys.H, 8, func(lo, hi int) {
		w := modePool.Get().(*modeScratch)
		defer modePool.Put(w)
		for h := lo; h < hi; h++ {
			o.backward(w, h, &g)
		}
	})
}

func (o *diagSystemOp) backward(w *modeScratch, h int, g *[5][]float32) {
	s, n, half := &o.sys, o.sys.N, o.sys.width/2
	a, b, abar, bbar := s.of(s.a, h), s.of(s.b, h), s.of(s.abar, h), s.of(s.bbar, h)
	dabar, dbbar := s.of(s.dA, h), s.of(s.dB, h)
	w.resize(s.width)
	da, db, ddt := w.s, w.ds, w.c[:half]
	disc := kernel.Discretization{A: a, B: b, Dt: s.dt[h], Abar: abar, Bbar: bbar}
	grad := kernel.DiscretizationGrad{A: da, B: db, Dt: ddt, Abar: dabar, Bbar: dbbar}
	if o.p.Disc == engine.Bilinear {
		disc.BilinearGrad(&grad)
	} else {
		disc.ZOHGrad(&grad)
	}
	part := func(i, size int) []float32 { // the channel's part of a gradient
		if g[i] == nil {
			return nil
		}
		return g[i][h*size:][:size]
	}
	dLogDt, dInvA, dAImag := part(0, 1), part(1, n), part(2, n)
	if dLogDt != nil {
		sum := 0.0
		for _, x := range ddt[:n] {
			sum += x
		}
		dLogDt[0] += float32(sum * s.dt[h])
	}
	for i := range dInvA {
		slope := a[i] // derivative of -e^x
		if o.p.Real != engine.NegExp {
			_, slope = o.p.Real.Of(float64(o.p.InvAReal.Data()[h*n+i]))
		}
		dInvA[i] += float32(da[i] * slope)
	}
	for i := range dAImag {
		dAImag[i] += float32(da[half+i])
	}
	addPairs(part(3, 2*n), db, n)
	addPairs(part(4, 2*n), s.of(s.dC, h), n)
}

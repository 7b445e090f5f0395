package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScanComplex is SelectiveScan with complex states, each of which stands for its conjugate too: a (d, n, 2),
// bc (b, l, 4·g·n) and state (b, d, n, 2) hold pairs of a real and an imaginary part, and
//
//	h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t],   y[t] = 2 Re Σ_n C[t]·h[t] + D·u[t]
//
// Gradients are those of the parts. The real part of A is ≤ 0.
func (eng *Engine) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, state *tensor.Tensor) (y, next *tensor.Tensor) {
	o := complexScanOp{u: u, delta: delta, a: a, bc: bc, d: dw, state: state, groups: groups, chunks: (u.Dim(1) + scanChunk - 1) / scanChunk}
	d := u.Dim(2)
	size := a.Len() / d // floats of the states of a channel
	y = eng.like(u)
	o.y = y
	if state != nil {
		next = state
		if eng.Recording {
			next = eng.like(state)
		}
		o.next = next
	}
	record := eng.wants(u, delta, a, bc, dw, state)
	if record {
		o.borders = eng.arena.Floats(u.Dim(0) * d * o.chunks * size)
	}
	o.eachChannel(o.forward)
	if record {
		op := take[complexScanOp](eng)
		*op = o
		eng.push(op)
	}
	return y, next
}

type complexScanOp struct {
	u, delta, a, bc, d, state, y, next *tensor.Tensor
	groups, chunks                     int
	borders                            []float32 // states before each chunk: (b, d, chunks, n, 2)
}

func (o *complexScanOp) Name() string { return "SelectiveScanComplex" }

func (o *complexScanOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.next != nil {
		f(o.next)
	}
}

// size is the number of floats of the states of a channel.
func (o *complexScanOp) size() int { return o.a.Len() / o.u.Dim(2) }

// slabs is the number of pieces of up to scanSlab channels that a group is cut into.
func (o *complexScanOp) slabs() int { return (o.u.Dim(2)/o.groups + scanSlab - 1) / scanSlab }

// eachChannel calls f for every channel c of every sequence b, a slab of them on one core. slab counts within the group.
func (o *complexScanOp) eachChannel(f func(b, c, slab int)) {
	width, slabs := o.u.Dim(2)/o.groups, o.slabs()
	parallel.For(o.u.Dim(0)*o.groups*slabs, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b, g, slab := i/(o.groups*slabs), i/slabs%o.groups, i%slabs
			for c := slab * scanSlab; c < min(width, (slab+1)*scanSlab); c++ {
				f(b, g*width+c, slab)
			}
		}
	})
}

// places are where the sequences of channel c from position t on begin: those of channels, and those of B and C.
func (o *complexScanOp) places(b, c, t int) (at, atB, atC int) {
	d, size := o.u.Dim(2), o.size()
	row := b*o.u.Dim(1) + t
	g := c / (d / o.groups)
	return row*d + c, (row*2*o.groups + g) * size, (row*2*o.groups + o.groups + g) * size
}

// channel is the scan of channel c of sequence b over the chunk from position t on.
func (o *complexScanOp) channel(b, c, t int) kernel.ComplexScan {
	at, atB, atC := o.places(b, c, t)
	size, bc := o.size(), o.bc.Data()
	return kernel.ComplexScan{
		Rows: min(scanChunk, o.u.Dim(1)-t), U: o.u.Data()[at:], Delta: o.delta.Data()[at:], Step: o.u.Dim(2),
		B: bc[atB:], C: bc[atC:], Stride: o.bc.Dim(-1), A: o.a.Data()[c*size:][:size], Skip: o.d.Data()[c],
	}
}

func (o *complexScanOp) border(b, c, chunk int) []float32 {
	return o.borders[((b*o.u.Dim(2)+c)*o.chunks+chunk)*o.size():][:o.size()]
}

func (o *complexScanOp) forward(b, c, _ int) {
	d, size := o.u.Dim(2), o.size()
	buf := getFloats(size)
	defer putFloats(buf)
	h := *buf
	clear(h)
	if o.state != nil {
		copy(h, o.state.Data()[(b*d+c)*size:])
	}
	for chunk := range o.chunks {
		if o.borders != nil {
			copy(o.border(b, c, chunk), h)
		}
		t := chunk * scanChunk
		at, _, _ := o.places(b, c, t)
		s := o.channel(b, c, t)
		s.Run(o.y.Data()[at:], h, nil)
	}
	if o.next != nil {
		copy(o.next.Data()[(b*d+c)*size:][:size], h)
	}
}

func (o *complexScanOp) Backward(eng *Engine) {
	if o.y.Grad() == nil && (o.next == nil || o.next.Grad() == nil) {
		return
	}
	batch, d, size := o.u.Dim(0), o.u.Dim(2), o.size()
	dy, dstate := eng.grad(o.y), eng.gradOf(o.state)
	// What is not wanted is computed all the same. Sums over sequences and over the slabs of a group are of parts, added in order.
	du, ddelta := eng.scratch(o.u.Len()), eng.scratch(o.u.Len())
	da, dd, dbc := eng.scratch(batch*o.a.Len()), eng.scratch(batch*d), eng.scratch(o.slabs()*o.bc.Len())
	o.eachChannel(func(b, c, slab int) {
		l := o.u.Dim(1)
		buf := getFloats(2*size + min(l, scanChunk)*2*size)
		defer putFloats(buf)
		h, g, work := (*buf)[:size], (*buf)[size:2*size], (*buf)[2*size:]
		clear(g)
		if o.next != nil && o.next.Grad() != nil {
			copy(g, o.next.Grad()[(b*d+c)*size:])
		}
		dbc := dbc[slab*o.bc.Len():]
		for chunk := o.chunks - 1; chunk >= 0; chunk-- {
			t := chunk * scanChunk
			at, atB, atC := o.places(b, c, t)
			s := o.channel(b, c, t)
			copy(h, o.border(b, c, chunk))
			s.Run(nil, h, work)
			dd[b*d+c] += s.Back(kernel.ComplexScanGrads{
				U: du[at:], Delta: ddelta[at:], B: dbc[atB:], C: dbc[atC:], A: da[(b*d+c)*size:],
			}, dy[at:], g, work)
		}
		if dstate != nil {
			kernel.Add(dstate[(b*d+c)*size:][:size], g)
		}
	})
	eng.addGrad(o.u, du)
	eng.addGrad(o.delta, ddelta)
	addParts(eng.gradOf(o.a), da)
	addParts(eng.gradOf(o.d), dd)
	addParts(eng.gradOf(o.bc), dbc)
	for _, buf := range [][]float32{du, ddelta, da, dd, dbc} {
		eng.done(buf)
	}
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScanComplex scans channel by channel, in chunks; while the tape records it keeps the states between chunks.
func (eng *Engine) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	o := take[complexScanOp](eng)
	record := eng.wantsRows(slots, u, delta, a, bc, dw)
	*o = complexScanOp{u: u, delta: delta, a: a, bc: bc, d: dw, y: eng.like(u), groups: groups,
		scanRows: eng.scanRows(o.scanRows, r, slots, scanChunk, 0)}
	if record {
		o.borders = eng.arena.Floats(o.count() * a.Len())
	}
	o.eachChannel(o.forward)
	if record {
		eng.push("SelectiveScanComplex", o, o.y).add(o.after...)
	}
	return o.y
}

type complexScanOp struct {
	u, delta, a, bc, d, y *tensor.Tensor
	groups                int
	scanRows
	borders []float32 // states before each chunk: (chunks of all rows, d, n, 2)
}

// size returns the number of floats of the states of a channel.
func (o *complexScanOp) size() int { return o.a.Len() / o.u.Dim(-1) }

// slabs returns the number of slabs, of up to scanSlab channels, of a group.
func (o *complexScanOp) slabs() int { return (o.u.Dim(-1)/o.groups + scanSlab - 1) / scanSlab }

// eachChannel calls f for every channel c of every row. A slab of channels is one task; slab counts within the group.
func (o *complexScanOp) eachChannel(f func(row, c, slab int)) {
	width, slabs := o.u.Dim(-1)/o.groups, o.slabs()
	parallel.For(o.rows.Count()*o.groups*slabs, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, g, slab := i/(o.groups*slabs), i/slabs%o.groups, i%slabs
			for c := slab * scanSlab; c < min(width, (slab+1)*scanSlab); c++ {
				f(row, g*width+c, slab)
			}
		}
	})
}

// places returns where channel c, and its B and C, start at position t of a row.
func (o *complexScanOp) places(row, c, t int) (at, atB, atC int) {
	d, size, p := o.u.Dim(-1), o.size(), o.rows.From(row)+t
	g := c / (d / o.groups)
	return p*d + c, (p*2*o.groups + g) * size, (p*2*o.groups + o.groups + g) * size
}

// channel returns the scan of channel c of a row over the chunk from position t on.
func (o *complexScanOp) channel(row, c, t int) kernel.ComplexScan {
	at, atB, atC := o.places(row, c, t)
	size, bc := o.size(), o.bc.Data()
	return kernel.ComplexScan{
		Rows: min(scanChunk, o.rows.Len(row)-t), U: o.u.Data()[at:], Delta: o.delta.Data()[at:], Step: o.u.Dim(-1),
		B: bc[atB:], C: bc[atC:], Stride: o.bc.Dim(-1), A: o.a.Data()[c*size:][:size], Skip: o.d.Data()[c],
	}
}

func (o *complexScanOp) border(row, c, chunk int) []float32 {
	return o.borders[((o.first[row]+chunk)*o.u.Dim(-1)+c)*o.size():][:o.size()]
}

func (o *complexScanOp) forward(row, c, _ int) {
	size := o.size()
	buf := getFloats(size)
	defer putFloats(buf)
	h := *buf
	clear(h)
	before, after := o.carried.at(row)
	if before != nil {
		copy(h, before[c*size:])
	}
	for chunk := range o.of(row) {
		if o.borders != nil {
			copy(o.border(row, c, chunk), h)
		}
		t := chunk * scanChunk
		at, _, _ := o.places(row, c, t)
		s := o.channel(row, c, t)
		s.Run(o.y.Data()[at:], h, nil)
	}
	if after != nil {
		copy(after[c*size:][:size], h)
	}
}

func (o *complexScanOp) Backward(eng *Engine) {
	o.makeGrads(eng)
	count, d, size := o.rows.Count(), o.u.Dim(-1), o.size()
	dy := eng.grad(o.y)
	// The kernel computes all gradients, including those that are not wanted. Rows and slabs have their own partial
	// sums, which are added in order.
	du, ddelta := eng.scratch(o.u.Len()), eng.scratch(o.u.Len())
	da, dd, dbc := eng.scratch(count*o.a.Len()), eng.scratch(count*d), eng.scratch(o.slabs()*o.bc.Len())
	o.eachChannel(func(row, c, slab int) {
		l, states := o.rows.Len(row), o.states[row]
		buf := getFloats(2*size + min(l, scanChunk)*2*size)
		defer putFloats(buf)
		h, g, work := (*buf)[:size], (*buf)[size:2*size], (*buf)[2*size:]
		clear(g)
		if states.after != nil {
			copy(g, states.after[c*size:])
		}
		dbc := dbc[slab*o.bc.Len():]
		for chunk := o.of(row) - 1; chunk >= 0; chunk-- {
			t := chunk * scanChunk
			at, atB, atC := o.places(row, c, t)
			s := o.channel(row, c, t)
			copy(h, o.border(row, c, chunk))
			s.Run(nil, h, work)
			dd[row*d+c] += s.Back(kernel.ComplexScanGrads{
				U: du[at:], Delta: ddelta[at:], B: dbc[atB:], C: dbc[atC:], A: da[(row*d+c)*size:],
			}, dy[at:], g, work)
		}
		if states.before != nil {
			kernel.Add(states.before[c*size:][:size], g)
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

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The selective scan is cut into slabs of channels, one for each task, which go along the sequence in chunks.
const (
	// scanChunk is the distance between states that are saved for backward; the states between them are computed again.
	scanChunk = 32
	// scanSlab is the number of channels of a task: one pair of gradients of B and C is summed for each task.
	scanSlab = 128
	// scanShort is the length below which a row is stepped position by position if the tape does not record, because
	// moving its states into lanes would cost more.
	scanShort = 4
)

// SelectiveScan steps short rows. It scans longer ones chunk by chunk, with 16 channels side by side as the lanes of a
// kernel. While the tape records, it saves the states between chunks.
func (eng *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	o := take[scanOp](eng)
	record := eng.wantsRows(slots, u, delta, a, bc, dw)
	*o = scanOp{u: u, delta: delta, a: a, bc: bc, d: dw, y: eng.like(u), groups: groups,
		scanRows: eng.scanRows(o.scanRows, r, slots, scanChunk, scanShort)}
	if len(o.steps) > 0 {
		o.step()
	}
	if record {
		o.borders = eng.arena.Floats(o.count() * o.lanesPerRow() * a.Dim(-1) * kernel.Lanes)
	}
	if len(o.whole) > 0 {
		o.eachSlab(o.forward)
	}
	if record {
		eng.push("SelectiveScan", o, o.y).add(o.after...)
	}
	return o.y
}

type scanOp struct {
	u, delta, a, bc, d, y *tensor.Tensor
	groups                int
	scanRows
	borders []float32 // states before each chunk: (chunks of all rows, lanesPerRow, n, 16)
}

// step computes short rows position by position, and updates their states in place. Consecutive tasks have the same
// channels of different rows, so that A stays in the cache.
func (o *scanOp) step() {
	d, n := o.u.Dim(-1), o.a.Dim(-1)
	width := d / o.groups
	part := max(1, min(width, rowGrain(n))) // number of channels of a task
	parts := (width + part - 1) / part
	parallel.For(o.groups*parts*len(o.steps), max(1, grain/(part*n)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row, p := o.steps[i%len(o.steps)], i/len(o.steps)
			g := p / parts
			c0 := g*width + p%parts*part
			c1 := min(c0+part, (g+1)*width)
			h := o.after[row].Data()[c0*n : c1*n]
			for p := o.rows.From(row); p < o.rows.From(row)+o.rows.Len(row); p++ {
				bc := o.bc.Data()[p*2*o.groups*n:][:2*o.groups*n]
				kernel.ScanStep(o.y.Data()[p*d:][c0:c1], h, o.a.Data()[c0*n:c1*n], o.u.Data()[p*d:][c0:c1],
					o.delta.Data()[p*d:][c0:c1], bc[g*n:][:n], bc[(o.groups+g)*n:][:n], o.d.Data()[c0:c1])
			}
		}
	})
}

// slab is a task: the channels [c0, c1) of one group of one row, at most scanSlab of them. Each 16 channels are the
// lanes of one element of lanes.
type slab struct {
	row, group, index int // index counts within the group
	c0, c1            int
	lanes             []kernel.ScanLanes
	first             int // index of lanes[0] in the row
}

// slabsOf returns the number of slabs of a group.
func (o *scanOp) slabsOf() int { return (o.u.Dim(-1)/o.groups + scanSlab - 1) / scanSlab }

// lanesPerSlab returns the length of slab.lanes; the last slab of a group may have fewer.
func (o *scanOp) lanesPerSlab() int {
	return (min(scanSlab, o.u.Dim(-1)/o.groups) + kernel.Lanes - 1) / kernel.Lanes
}

// lanesPerRow returns lanesPerSlab times the number of slabs of a row.
func (o *scanOp) lanesPerRow() int { return o.groups * o.slabsOf() * o.lanesPerSlab() }

// eachSlab calls f for all slabs of the rows that are not stepped, on all cores.
func (o *scanOp) eachSlab(f func(s *slab)) {
	n, perGroup, perSlab := o.a.Dim(-1), o.slabsOf(), o.lanesPerSlab()
	width := o.u.Dim(-1) / o.groups
	parallel.For(len(o.whole)*o.groups*perGroup, 1, func(lo, hi int) {
		buf := getFloats(perSlab * n * kernel.ScanStride)
		defer putFloats(buf)
		var all [scanSlab / kernel.Lanes]kernel.ScanLanes
		for i := range perSlab {
			all[i].X = (*buf)[i*n*kernel.ScanStride:][:n*kernel.ScanStride]
		}
		for i := lo; i < hi; i++ {
			s := slab{row: o.whole[i/(o.groups*perGroup)], group: i / perGroup % o.groups, index: i % perGroup}
			s.first = i % (o.groups * perGroup) * perSlab
			s.c0 = s.group*width + s.index*scanSlab
			s.c1 = min(s.c0+scanSlab, (s.group+1)*width)
			s.lanes = all[:(s.c1-s.c0+kernel.Lanes-1)/kernel.Lanes]
			before, _ := o.carried.at(s.row)
			for j := range s.lanes {
				c0 := s.channel(j)
				c1 := min(s.c1, c0+kernel.Lanes)
				var h []float32
				if before != nil {
					h = before[c0*n : c1*n]
				}
				s.lanes[j].Load(o.a.Data()[c0*n:c1*n], h, o.d.Data()[c0:c1], n, c1-c0)
			}
			f(&s)
		}
	})
}

// channel returns the first channel of lanes[j].
func (s *slab) channel(j int) int { return s.c0 + j*kernel.Lanes }

// of returns the states of lanes[j] in x (d, n).
func (s *slab) of(x []float32, j int) []float32 {
	n := s.lanes[j].N
	return x[s.channel(j)*n:][:s.lanes[j].Width*n]
}

// from returns the inputs of lanes[j] from position t of the row on, and the index of its channels in a tensor like u.
func (o *scanOp) from(s *slab, j, t int) (r kernel.ScanRows, at int) {
	d, n, p := o.u.Dim(-1), o.a.Dim(-1), o.rows.From(s.row)+t
	at = p*d + s.channel(j)
	stride := 2 * o.groups * n
	bc := o.bc.Data()[p*stride:]
	return kernel.ScanRows{U: o.u.Data()[at:], Delta: o.delta.Data()[at:], Step: d, B: bc[s.group*n:],
		C: bc[(o.groups+s.group)*n:], Stride: stride}, at
}

// border returns the saved state of lanes[j] before a chunk of the row.
func (o *scanOp) border(s *slab, j, chunk int) []float32 {
	n := o.a.Dim(-1) * kernel.Lanes
	return o.borders[((o.first[s.row]+chunk)*o.lanesPerRow()+s.first+j)*n:][:n]
}

func (o *scanOp) forward(s *slab) {
	l := o.rows.Len(s.row)
	for chunk := range o.of(s.row) {
		t := chunk * scanChunk
		for j := range s.lanes {
			if o.borders != nil {
				s.lanes[j].Save(o.border(s, j, chunk))
			}
			r, at := o.from(s, j, t)
			s.lanes[j].Scan(o.y.Data()[at:], r, min(scanChunk, l-t))
		}
	}
	if _, after := o.carried.at(s.row); after != nil {
		for j := range s.lanes {
			s.lanes[j].State(s.of(after, j))
		}
	}
}

func (o *scanOp) Backward(eng *Engine) {
	o.makeGrads(eng)
	count := o.rows.Count()
	w := scanGrads{scanOp: o, dy: eng.grad(o.y)}
	// The kernel computes both gradients at once: a gradient that is not wanted goes to scratch.
	gradOr := func(x *tensor.Tensor) (g []float32, add bool) {
		if g, add = eng.gradTo(x); g == nil {
			g = eng.scratch(x.Len())
		}
		return g, add
	}
	drop := func(x *tensor.Tensor, g []float32) {
		if !eng.wanted(x) {
			eng.done(g)
		}
	}
	w.du, w.addU = gradOr(o.u)
	w.ddelta, w.addDelta = gradOr(o.delta)
	// Rows and slabs have their own partial sums, which are added in order.
	w.da, w.dd = eng.scratch(count*o.a.Len()), eng.scratch(count*o.d.Len())
	w.dbc = eng.scratch(o.slabsOf() * o.bc.Len())
	o.eachSlab(w.slab)
	addParts(eng.gradOf(o.a), w.da)
	addParts(eng.gradOf(o.d), w.dd)
	addParts(eng.gradOf(o.bc), w.dbc)
	eng.done(w.da)
	eng.done(w.dd)
	eng.done(w.dbc)
	drop(o.u, w.du)
	drop(o.delta, w.ddelta)
}

// addParts adds parts to y in order, each as long as y, which may be nil.
func addParts(y, parts []float32) {
	if y == nil {
		return
	}
	parallel.For(len(y), grain, func(lo, hi int) {
		for at := 0; at < len(parts); at += len(y) {
			kernel.Add(y[lo:hi], parts[at+lo:at+hi])
		}
	})
}

// scanGrads holds the gradients of a scan during Backward.
type scanGrads struct {
	*scanOp
	dy, du, ddelta []float32
	addU, addDelta bool      // du and ddelta already have contents
	da, dd         []float32 // for each row
	dbc            []float32 // for each slab of a group
}

// slab runs backward through one slab, from the last chunk on. For each chunk, it first steps forward again from the
// state at its border.
func (w *scanGrads) slab(s *slab) {
	l, from, d, n := w.rows.Len(s.row), w.rows.From(s.row), w.u.Dim(-1), w.a.Dim(-1)
	buf := getFloats(min(l, scanChunk) * n * kernel.ScanStride)
	defer putFloats(buf)
	dstate, dnext := w.states[s.row].before, w.states[s.row].after
	if dnext != nil {
		for j := range s.lanes {
			s.lanes[j].SetStateGrad(s.of(dnext, j))
		}
	}
	stride := w.bc.Dim(-1)
	dbc := w.dbc[s.index*w.bc.Len()+from*stride:]
	for chunk := w.of(s.row) - 1; chunk >= 0; chunk-- {
		t := chunk * scanChunk
		rows := min(scanChunk, l-t)
		work := (*buf)[:rows*n*kernel.ScanStride]
		clear(work)
		for p := from + t; p < from+t+rows; p++ {
			if !w.addU {
				clear(w.du[p*d+s.c0 : p*d+s.c1])
			}
			if !w.addDelta {
				clear(w.ddelta[p*d+s.c0 : p*d+s.c1])
			}
		}
		for j := range s.lanes {
			r, at := w.from(s, j, t)
			s.lanes[j].Restore(w.border(s, j, chunk))
			s.lanes[j].Steps(work, r, rows)
			s.lanes[j].Back(w.du[at:], w.ddelta[at:], w.dy[at:], work, r, rows)
		}
		kernel.ScanSums(dbc[t*stride+s.group*n:], dbc[t*stride+(w.groups+s.group)*n:], work, stride, n, rows)
	}
	for j := range s.lanes {
		channels := &s.lanes[j]
		channels.AddAGrad(s.of(w.da[s.row*d*n:], j))
		copy(w.dd[s.row*d+s.channel(j):][:channels.Width], channels.DGrad[:])
		if dstate != nil {
			channels.AddStateGrad(s.of(dstate, j))
		}
	}
}

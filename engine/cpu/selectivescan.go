package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The selective scan is cut into slabs of channels, one task each, which go along the sequence in chunks.
const (
	// scanChunk is the distance of the borders at which states are kept for backward; between them they are computed again.
	scanChunk = 32
	// scanSlab is how many channels a task takes: one pair of gradients of B and C is summed for each.
	scanSlab = 128
	// scanShort is the length below which states are stepped one by one where the tape does not record: their tiles would
	// cost more.
	scanShort = 4
)

// SelectiveScan runs Mamba's selective state-space model over a chunk (arXiv:2312.00752, algorithm 2):
//
//	h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t],   y[t] = Σ_n C[t]·h[t] + D·u[t]
//
// u, delta (b, l, d), A (d, n) with A ≤ 0, D (d). bc (b, l, 2·g·n) holds B and then C of g groups of channels, d/g each side by
// side. state (b, d, n) is the state before the chunk, nil for zero with none wanted after it; next is the state after it:
// state itself, updated in place, when the tape does not record.
func (eng *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, state *tensor.Tensor) (y, next *tensor.Tensor) {
	o := scanOp{u: u, delta: delta, a: a, bc: bc, d: dw, state: state, groups: groups, chunks: (u.Dim(1) + scanChunk - 1) / scanChunk}
	n := a.Dim(-1)
	y = eng.like(u)
	o.y = y
	record := eng.wants(u, delta, a, bc, dw, state)
	if state != nil {
		next = state
		if eng.Recording {
			next = eng.like(state)
		}
		o.next = next
	}
	if state != nil && !eng.Recording && u.Dim(1) < scanShort {
		o.step()
		return y, next
	}
	if record {
		o.borders = eng.arena.Floats(u.Dim(0) * o.tiles() * o.chunks * n * kernel.Lanes)
	}
	o.eachSlab(o.forward)
	if record {
		op := take[scanOp](eng)
		*op = o
		eng.push(op)
	}
	return y, next
}

type scanOp struct {
	u, delta, a, bc, d, state, y, next *tensor.Tensor
	groups, chunks                     int
	borders                            []float32 // states before each chunk: (b, tiles, chunks, n, lanes)
}

func (o *scanOp) Name() string { return "SelectiveScan" }

func (o *scanOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.next != nil {
		f(o.next)
	}
}

// step takes a few positions one by one, in place.
func (o *scanOp) step() {
	l, d, n := o.u.Dim(1), o.u.Dim(2), o.a.Dim(-1)
	width := d / o.groups
	part := max(1, min(width, rowGrain(n))) // channels of a task
	parts := (width + part - 1) / part
	parallel.For(o.u.Dim(0)*o.groups*parts, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b, g := i/(o.groups*parts), i/parts%o.groups
			c0 := g*width + i%parts*part
			c1 := min(c0+part, (g+1)*width)
			h := o.state.Data()[b*d*n:]
			for p := b * l; p < (b+1)*l; p++ {
				bc := o.bc.Data()[p*2*o.groups*n:][:2*o.groups*n]
				kernel.ScanStep(o.y.Data()[p*d:][c0:c1], h[c0*n:c1*n], o.a.Data()[c0*n:c1*n], o.u.Data()[p*d:][c0:c1],
					o.delta.Data()[p*d:][c0:c1], bc[g*n:][:n], bc[(o.groups+g)*n:][:n], o.d.Data()[c0:c1])
			}
		}
	})
}

// slab is a task: up to scanSlab channels from c0 on of one group of one sequence, in tiles of as many as there are lanes.
type slab struct {
	b, group, index int // index counts within the group
	c0, c1          int
	tiles           []kernel.ScanLanes
	first           int // tiles of all slabs before, of one sequence
}

// slabsOf is the number of slabs of a group.
func (o *scanOp) slabsOf() int { return (o.u.Dim(2)/o.groups + scanSlab - 1) / scanSlab }

// tilesOf is the number of tiles of a slab; the last one of a group may have fewer.
func (o *scanOp) tilesOf() int {
	return (min(scanSlab, o.u.Dim(2)/o.groups) + kernel.Lanes - 1) / kernel.Lanes
}

// tiles is the number of tiles of a sequence.
func (o *scanOp) tiles() int { return o.groups * o.slabsOf() * o.tilesOf() }

// eachSlab calls f for all slabs, on all cores.
func (o *scanOp) eachSlab(f func(s *slab)) {
	n, perGroup, perSlab := o.a.Dim(-1), o.slabsOf(), o.tilesOf()
	width := o.u.Dim(2) / o.groups
	parallel.For(o.u.Dim(0)*o.groups*perGroup, 1, func(lo, hi int) {
		buf := getFloats(perSlab * n * kernel.ScanStride)
		defer putFloats(buf)
		var tiles [scanSlab / kernel.Lanes]kernel.ScanLanes
		for i := range perSlab {
			tiles[i].X = (*buf)[i*n*kernel.ScanStride:][:n*kernel.ScanStride]
		}
		for i := lo; i < hi; i++ {
			s := slab{b: i / (o.groups * perGroup), group: i / perGroup % o.groups, index: i % perGroup}
			s.first = i % (o.groups * perGroup) * perSlab
			s.c0 = s.group*width + s.index*scanSlab
			s.c1 = min(s.c0+scanSlab, (s.group+1)*width)
			s.tiles = tiles[:(s.c1-s.c0+kernel.Lanes-1)/kernel.Lanes]
			for j := range s.tiles {
				c0 := s.channel(j)
				c1 := min(s.c1, c0+kernel.Lanes)
				s.tiles[j].Load(o.a.Data()[c0*n:c1*n], o.stateOf(o.state, s.b, c0, c1), o.d.Data()[c0:c1], n, c1-c0)
			}
			f(&s)
		}
	})
}

// channel is the first channel of tile j.
func (s *slab) channel(j int) int { return s.c0 + j*kernel.Lanes }

// stateOf are the states of channels [c0, c1) of sequence b, nil where x is.
func (o *scanOp) stateOf(x *tensor.Tensor, b, c0, c1 int) []float32 {
	if x == nil {
		return nil
	}
	d, n := o.u.Dim(2), o.a.Dim(-1)
	return x.Data()[(b*d+c0)*n : (b*d+c1)*n]
}

// rows are the sequences of tile j from position t on, and where those of the channels begin.
func (o *scanOp) rows(s *slab, j, t int) (r kernel.ScanRows, at int) {
	l, d, n := o.u.Dim(1), o.u.Dim(2), o.a.Dim(-1)
	at = (s.b*l+t)*d + s.channel(j)
	stride := 2 * o.groups * n
	bc := o.bc.Data()[(s.b*l+t)*stride:]
	return kernel.ScanRows{U: o.u.Data()[at:], Delta: o.delta.Data()[at:], Step: d, B: bc[s.group*n:], C: bc[(o.groups+s.group)*n:], Stride: stride}, at
}

// border is the place of the state of tile j before a chunk.
func (o *scanOp) border(s *slab, j, chunk int) []float32 {
	n := o.a.Dim(-1) * kernel.Lanes
	return o.borders[((s.b*o.tiles()+s.first+j)*o.chunks+chunk)*n:][:n]
}

func (o *scanOp) forward(s *slab) {
	l := o.u.Dim(1)
	for chunk := range o.chunks {
		t := chunk * scanChunk
		for j := range s.tiles {
			if o.borders != nil {
				s.tiles[j].Save(o.border(s, j, chunk))
			}
			r, at := o.rows(s, j, t)
			s.tiles[j].Scan(o.y.Data()[at:], r, min(scanChunk, l-t))
		}
	}
	if o.next != nil {
		for j := range s.tiles {
			c0 := s.channel(j)
			s.tiles[j].State(o.stateOf(o.next, s.b, c0, c0+s.tiles[j].Width))
		}
	}
}

func (o *scanOp) Backward(eng *Engine) {
	if o.y.Grad() == nil && (o.next == nil || o.next.Grad() == nil) {
		return
	}
	batch, d, n := o.u.Dim(0), o.u.Dim(2), o.a.Dim(-1)
	w := scanGrads{scanOp: o, dy: eng.grad(o.y)}
	// What is not wanted is computed all the same, into memory that is given back.
	gradOr := func(x *tensor.Tensor) (g []float32, add bool) {
		if g, add = eng.gradTo(x); g == nil {
			g = eng.scratch(x.Len())
		}
		return g, add
	}
	drop := func(x *tensor.Tensor, g []float32) {
		if !x.NeedsGrad() {
			eng.done(g)
		}
	}
	w.du, w.addU = gradOr(o.u)
	w.ddelta, w.addDelta = gradOr(o.delta)
	w.dstate = eng.gradOf(o.state)
	// Sums over sequences and over the slabs of a group are of parts, added in order.
	w.da, w.dd = eng.scratch(batch*d*n), eng.scratch(batch*d)
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

// addParts adds parts as long as y to y, in order; y may be nil.
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

// scanGrads are the gradients of a scan on the way.
type scanGrads struct {
	*scanOp
	dy, du, ddelta, dstate []float32
	addU, addDelta         bool      // there is something in du and ddelta already
	da, dd                 []float32 // of each sequence
	dbc                    []float32 // of each slab of a group
}

// slab goes back along one slab, chunk after chunk: first along it as forward did, from the state at its border.
func (w *scanGrads) slab(s *slab) {
	l, d, n := w.u.Dim(1), w.u.Dim(2), w.a.Dim(-1)
	buf := getFloats(min(l, scanChunk) * n * kernel.ScanStride)
	defer putFloats(buf)
	if w.next != nil && w.next.Grad() != nil {
		for j := range s.tiles {
			at := (s.b*d + s.channel(j)) * n
			s.tiles[j].SetStateGrad(w.next.Grad()[at:][:s.tiles[j].Width*n])
		}
	}
	stride := w.bc.Dim(-1)
	dbc := w.dbc[s.index*w.bc.Len()+s.b*l*stride:]
	for chunk := w.chunks - 1; chunk >= 0; chunk-- {
		t := chunk * scanChunk
		rows := min(scanChunk, l-t)
		work := (*buf)[:rows*n*kernel.ScanStride]
		clear(work)
		for row := s.b*l + t; row < s.b*l+t+rows; row++ {
			if !w.addU {
				clear(w.du[row*d+s.c0 : row*d+s.c1])
			}
			if !w.addDelta {
				clear(w.ddelta[row*d+s.c0 : row*d+s.c1])
			}
		}
		for j := range s.tiles {
			r, at := w.rows(s, j, t)
			s.tiles[j].Restore(w.border(s, j, chunk))
			s.tiles[j].Steps(work, r, rows)
			s.tiles[j].Back(w.du[at:], w.ddelta[at:], w.dy[at:], work, r, rows)
		}
		kernel.ScanSums(dbc[t*stride+s.group*n:], dbc[t*stride+(w.groups+s.group)*n:], work, stride, n, rows)
	}
	for j := range s.tiles {
		c0, tile := s.channel(j), &s.tiles[j]
		at, size := (s.b*d+c0)*n, tile.Width*n
		tile.AddAGrad(w.da[at:][:size])
		copy(w.dd[s.b*d+c0:][:tile.Width], tile.DGrad[:])
		if w.dstate != nil {
			tile.AddStateGrad(w.dstate[at:][:size])
		}
	}
}

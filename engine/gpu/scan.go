//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// scan holds the arguments of a scan of Mamba, or of Mamba-2 with its parameters for each dt: see scan.glsl.
type scan struct {
	u, dt, a, bc, skip *tensor.Tensor // u and bc may be the same tensor, with B at column d
	d, n, p, groups    int
	perState           uint32
	bcStride           int // numbers from a position of bc to the next; set by addresses

	pieces  []piece          // of all rows
	count   []int            // number of pieces of each row
	before  []*tensor.Tensor // states before and after each row, nil if it has none
	after   []*tensor.Tensor
	borders *tensor.Tensor // states before each tile
}

// piece is a range of positions of a row.
type piece struct {
	row, from, len int
	first, last    bool // whether it is the first or last piece of the row
}

// A row that fewer than mostThreads threads would scan is cut into pieces of at least leastPiece positions. The cut
// does not depend on other rows, so that a row has the same bits alone and in a batch.
const (
	leastPiece  = 64
	mostThreads = 1 << 17
)

// cut cuts the rows into pieces.
func (s *scan) cut(r *engine.Rows) {
	for i := range r.Count() {
		l := r.Len(i)
		n := max(1, min(l/leastPiece, blocks(mostThreads, s.d*s.n)))
		each, k := blocks(blocks(l, n), tile)*tile, len(s.pieces)
		for at := 0; at < l; at += each {
			s.pieces = append(s.pieces, piece{i, r.From(i) + at, min(each, l-at), at == 0, at+each >= l})
		}
		s.count = append(s.count, len(s.pieces)-k)
	}
}

// carry returns the states before each piece, computed from those before the rows. If reversed is 1, it returns the
// gradients of the states after each piece, computed from those after the rows and the gradients x of the outputs. It
// returns nil if no row is cut.
func (s *scan) carry(e *Engine, reversed uint32, x *tensor.Tensor, of []*tensor.Tensor) *tensor.Tensor {
	n, states := len(s.pieces), s.d*s.n
	if n == len(s.count) {
		return nil
	}
	ends, decays, to := e.New(n, s.d, s.n), e.New(n, s.d, s.n), e.New(n, s.d, s.n)
	var pieces, rows rows
	l := 0
	for i, p := range s.pieces {
		at := uint64(4 * i * states)
		pieces.add(p.from, p.len, e.address(ends)+at, e.address(decays)+at)
		l += p.len
	}
	first := 0
	for i, k := range s.count {
		rows.add(first, k, e.address(of[i]), 0)
		first += k
	}
	all := s.addresses(e)
	e.each("scan_ends", &pieces, []uint64{e.address(x), all[1], all[2], all[3]}, s.parts()*s.groups, func(p *args) {
		p.int(s.d, s.n, s.p, s.groups, n, x.Dim(-1), s.bcStride)
		p.work(4*(l*s.d+s.dt.Len()+l*s.groups*s.n+s.a.Len()+2*n*states), 4*l*states)
	}, s.perState, reversed)
	e.each("scan_carry", &rows, []uint64{e.address(to), e.address(ends), e.address(decays)}, blocks(states, 64),
		func(p *args) { p.int(states, len(s.count)).work(12*n*states, 2*n*states) }, reversed)
	return to
}

func (e *Engine) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := u.Dim(-1)
	return e.scan("SelectiveScan", &scan{u: u, dt: delta, a: a, bc: bc, skip: dw, d: d, n: a.Len() / d, p: 1,
		groups: groups, perState: 1}, r, slots)
}

func (e *Engine) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := a.Len() * headDim
	return e.scan("SSD", &scan{u: xbc, dt: dt, a: a, bc: xbc, skip: dw, d: d, n: (xbc.Dim(-1) - d) / (2 * groups),
		p: headDim, groups: groups}, r, slots)
}

// parts returns the number of workgroups for the channels of one group of a row.
func (s *scan) parts() int { return blocks(s.d/s.groups, 16) }

// addresses returns the addresses of the inputs, and sets bcStride.
func (s *scan) addresses(e *Engine) []uint64 {
	bc, stride := e.strided(s.bc)
	if s.bcStride = stride; s.bc == s.u {
		bc += 4 * uint64(s.d)
	}
	return []uint64{e.address(s.u), e.address(s.dt), e.address(s.a), bc, e.address(s.skip)}
}

// shape appends the arguments that follow the addresses, with the number of positions if given.
func (s *scan) shape(p *args, count int, positions ...int) {
	p.int(s.d, s.n, s.p, s.groups, count).int(positions...).int(s.u.Dim(-1), s.bcStride)
}

// scan runs the forward pass. While the tape records, states are new tensors, and the states before each tile are kept
// for the backward pass.
func (e *Engine) scan(name string, s *scan, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	y := e.New(append(s.u.Shape()[:s.u.Dims()-1], s.d)...)
	t, l, states := rows{}, r.Total(), s.d*s.n
	if !e.Recording {
		t = e.rowsOf(r, slots)
	} else {
		t = s.record(e, r, slots)
	}
	kept := 0
	if s.borders != nil {
		kept = s.borders.Len()
	}
	from, moved := append([]uint64{e.address(y)}, s.addresses(e)...), 2*l*s.d+s.dt.Len()+2*l*s.groups*s.n+s.a.Len()
	moved += 2*t.count*states + kept
	borders, open := e.address(s.borders), &openScan{y: y}
	e.c.mu.Lock()
	from = append(from, e.c.table(t.data), borders)
	e.postpone(open, func() {
		p := new(args).address(from...)
		s.shape(p, t.count)
		p.int(int(open.activation)).address(open.gate, open.gated).int(open.stride)
		if open.gate != 0 {
			moved += 2 * l * s.d
		}
		e.c.launch("scan", p.work(4*moved, 6*l*states), s.parts()*s.groups*t.count, s.perState)
	})
	e.c.mu.Unlock()
	if e.Recording {
		outputs, inputs := []*tensor.Tensor{y}, []*tensor.Tensor{s.u, s.dt, s.a, s.bc, s.skip}
		for i, x := range s.after {
			if x != nil {
				outputs, inputs = append(outputs, x), append(inputs, s.before[i])
			}
		}
		e.Record(name, outputs, inputs, func() { s.backward(e, y) })
	}
	return y
}

// openScan is a postponed scan into which a gate may be fused.
type openScan struct {
	y           *tensor.Tensor
	activation  engine.Activation
	gate, gated uint64
	stride      int // numbers from a position of the gate to the next
}

// gated reports whether the scan that computes x is postponed. If so, it fuses y = x·a(z) into the launch of that scan.
func (e *Engine) gated(y, x, z *tensor.Tensor, a engine.Activation) bool {
	gate, stride := e.strided(z)
	to := e.address(y)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	s := postponed[openScan](e.c)
	if s == nil || s.y != x || z.Len() != x.Len() {
		return false
	}
	s.activation, s.gate, s.gated, s.stride = a, gate, to, stride
	e.more()
	e.c.flush()
	return true
}

// record returns the table of the pieces of rows, and creates new tensors for the states after the rows.
func (s *scan) record(e *Engine, r *engine.Rows, slots engine.Slots) (t rows) {
	s.before, s.after = make([]*tensor.Tensor, r.Count()), make([]*tensor.Tensor, r.Count())
	s.cut(r)
	for i := range s.before {
		if x := slots.At(i); x != nil {
			s.before[i], s.after[i] = x, e.New(x.Shape()...)
			slots[i].X = s.after[i]
		}
	}
	carried := s.carry(e, 0, s.u, s.before)
	for i, p := range s.pieces {
		before, after := e.address(s.before[p.row]), uint64(0)
		if carried != nil {
			before = e.address(carried) + uint64(4*i*s.d*s.n)
		}
		if p.last {
			after = e.address(s.after[p.row])
		}
		t.add(p.from, p.len, before, after)
	}
	s.borders = e.New(t.tiles, s.d, s.n)
	return t
}

// backward adds to the gradients of the inputs and of the states before rows. Sums over pieces, and over the channels
// of a group, are computed in parts that are added in order.
func (s *scan) backward(e *Engine, y *tensor.Tensor) {
	dy, l, count, states := e.Grad(y), y.Rows(), len(s.pieces), s.d*s.n
	if dy == nil {
		dy = e.Full(0, y.Shape()...)
	}
	var t rows
	befores, afters := make([]*tensor.Tensor, len(s.count)), make([]*tensor.Tensor, len(s.count))
	for i, x := range s.before {
		if x != nil {
			befores[i], afters[i] = e.New(x.Shape()...), e.Grad(s.after[i])
		}
	}
	carried := s.carry(e, 1, dy, afters)
	for i, p := range s.pieces {
		before, after := uint64(0), e.address(afters[p.row])
		if carried != nil {
			after = e.address(carried) + uint64(4*i*states)
		}
		if p.first {
			before = e.address(befores[p.row])
		}
		t.add(p.from, p.len, before, after)
	}
	du, ddt, sums := e.New(l, s.d), e.New(l, s.d), e.New(count*(states+s.d))
	dbc := e.New(s.parts(), l, 2*s.groups*s.n)
	e.each("scan_grad", &t, append([]uint64{e.address(dy)}, s.addresses(e)...), s.parts()*s.groups, func(p *args) {
		p.address(e.address(s.borders), e.address(du), e.address(ddt), e.address(sums), e.address(dbc))
		s.shape(p, count, l)
		p.work(4*(4*l*s.d+s.dt.Len()+2*l*s.groups*s.n+s.a.Len()+s.borders.Len()+sums.Len()+dbc.Len()+
			2*count*states), 20*l*states)
	}, s.perState)
	add := func(to *tensor.Tensor, at int, shape, strides []int, from *tensor.Tensor, first int, along ...int) {
		if g, wanted := e.GradientOf(to); wanted {
			e.c.Sum(engine.View{Of: g, At: at, Shape: shape, Stride: strides},
				engine.View{Of: e.Memory(from), At: first, Shape: shape, Stride: along})
		}
	}
	us, bs, wide, at := s.u.Dim(-1), s.bc.Dim(-1), 2*s.groups*s.n, 0
	if s.bc == s.u {
		at = s.d
	}
	add(s.u, 0, []int{l, s.d}, []int{us, 1}, du, 0, s.d, 1)
	add(s.dt, 0, []int{l, s.d / s.p, s.p}, []int{s.d / s.p, 1, 0}, ddt, 0, s.d, s.p, 1)
	add(s.bc, at, []int{l, wide, s.parts()}, []int{bs, 1, 0}, dbc, 0, wide, 1, l*wide)
	if s.perState != 0 {
		add(s.a, 0, []int{states, count}, []int{1, 0}, sums, 0, 1, states)
	} else {
		add(s.a, 0, []int{s.d / s.p, count, s.p * s.n}, []int{1, 0, 0}, sums, 0, s.p*s.n, states, 1)
	}
	heads := s.skip.Len()
	add(s.skip, 0, []int{heads, count, s.d / heads}, []int{1, 0, 0}, sums, count*states, s.d/heads, s.d, 1)
	for i, x := range s.before {
		if x != nil {
			e.AddGrad(x, befores[i])
		}
	}
}

package cpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// slstmRows is the number of rows that a task steps together, the longest first. They share one product with R.
const slstmRows = 16

// SLSTM multiplies all positions by W at once. The recurrence through the outputs cannot be a scan. Heads, which are
// independent, and rows are distributed over the cores, and each goes through its positions one after the other.
func (eng *Engine) SLSTM(x engine.SLSTM, r *engine.Rows, slots engine.SLSTMSlots) *tensor.Tensor {
	o := take[slstmOp](eng)
	record, d := false, x.X.Dim(-1)
	all := slots.All()
	carried := o.carried
	for i, s := range all {
		record = eng.wantsRows(s) || record
		carried[i] = eng.carry(carried[i], s)
	}
	record = eng.wants(x.Inputs()...) || record
	*o = slstmOp{SLSTM: x, y: eng.like(x.X), rows: r, carried: carried, d: d, n: x.HeadDim(), order: o.order[:0],
		fresh: o.fresh[:0], states: o.states, raw: eng.arena.Floats(4 * d * r.Total())}
	for i := range r.Count() {
		o.order = append(o.order, i)
		norm, _ := o.carried[2].at(i)
		o.fresh = append(o.fresh, !slices.ContainsFunc(norm, func(v float32) bool { return v != 0 }))
	}
	if r.Equal() == 0 {
		slices.SortStableFunc(o.order, func(i, j int) int { return r.Len(j) - r.Len(i) })
	}
	if record {
		o.kept = eng.arena.Floats(3 * d * r.Total())
	}
	o.inputs(eng)
	o.each(o.forward)
	if record {
		made := eng.push("SLSTM", o, o.y)
		for i := range o.carried {
			made.add(o.carried[i].after...)
		}
	}
	return o.y
}

type slstmOp struct {
	engine.SLSTM
	y       *tensor.Tensor
	rows    *engine.Rows
	carried [4]carried // y, c, n and m
	d, n    int        // numbers of channels, and of channels of a head
	order   []int      // rows, the longest first
	fresh   []bool     // rows that start from an n of zero
	raw     []float32  // (l, heads, 4, n): the gates before their activation functions
	kept    []float32  // for backward, c, n and m after each position (3, l, d)
	states  [4][]stateGrad
}

// inputs sets raw to W·x + b.
func (o *slstmOp) inputs(eng *Engine) {
	n, x, bias := o.n, o.X.Data(), o.Bias.Data()
	for h := range o.Heads {
		for g, w := range o.W {
			at := (h*4 + g) * n
			eng.precision().Gemm(kernel.Product{Op: kernel.NT, M: o.rows.Total(), N: n, K: n, A: x[h*n:], LDA: o.d,
				B: w.Data()[h*n*n:], LDB: n, C: o.raw[at:], LDC: 4 * o.d, Bias: bias[at:][:n]})
		}
	}
}

// each calls f on all cores for every head of some rows, in the order of their lengths.
func (o *slstmOp) each(f func(head int, rows []int)) {
	parts := (len(o.order) + slstmRows - 1) / slstmRows
	parallel.For(parts*o.Heads, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from := i / o.Heads * slstmRows
			f(i%o.Heads, o.order[from:min(len(o.order), from+slstmRows)])
		}
	})
}

// longer returns those of rows, the longest first, that have more than t positions.
func (o *slstmOp) longer(rows []int, t int) []int {
	for len(rows) > 0 && o.rows.Len(rows[len(rows)-1]) <= t {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// gatesAt returns the gates of a head at position t of a row in x, which is laid out like raw.
func (o *slstmOp) gatesAt(x []float32, row, t, head int) []float32 {
	return x[(o.rows.From(row)+t)*4*o.d+head*4*o.n:][:4*o.n]
}

// at returns a head at position t of a row in x, which is laid out like y.
func (o *slstmOp) at(x []float32, row, t, head int) []float32 {
	return x[(o.rows.From(row)+t)*o.d+head*o.n:][:o.n]
}

// keptAt returns c, n or m (part 0 to 2) after position t of a row.
func (o *slstmOp) keptAt(part, row, t, head int) []float32 {
	return o.at(o.kept[part*o.d*o.rows.Total():], row, t, head)
}

// start copies a part of the state of a head before a row to x, or clears x if there is no state.
func (o *slstmOp) start(x []float32, part, row, head int) {
	before, _ := o.carried[part].at(row)
	copyOrClear(x, before, head)
}

// forward steps a head of some rows through its positions.
func (o *slstmOp) forward(head int, rows []int) {
	n, m := o.n, len(rows)
	buf := getFloats(8*m*n + 5*n)
	defer putFloats(buf)
	var s [4][]float32 // y, c, n and m of each row (rows, n)
	rest := *buf
	for i := range s {
		s[i], rest = rest[:m*n], rest[m*n:]
	}
	products, rest := rest[:4*m*n], rest[4*m*n:]
	gates := newSLSTMGates(rest, n)
	for i, row := range rows {
		for part := range s {
			o.start(s[part][i*n:][:n], part, row, head)
		}
	}
	r := o.R.Data()[head*4*n*n:]
	for t := range o.rows.Len(rows[0]) {
		live := o.longer(rows, t)
		if t > 0 || o.hasStates(live) {
			kernel.GemmInline(kernel.Product{Op: kernel.NN, M: len(live), N: 4 * n, K: n, A: s[0], LDA: n, B: r,
				LDB: 4 * n, C: products, LDC: 4 * n})
		} else {
			clear(products[:4*n*len(live)])
		}
		for i, row := range live {
			y, c, norm, m := s[0][i*n:][:n], s[1][i*n:][:n], s[2][i*n:][:n], s[3][i*n:][:n]
			raw := o.gatesAt(o.raw, row, t, head)
			kernel.Add(raw, products[i*4*n:][:4*n])
			gates.set(raw, m, t == 0 && o.fresh[row])
			copy(m, gates.m)
			kernel.Mul(c, gates.keep)
			kernel.MulAdd(c, gates.write, gates.z)
			kernel.Mul(norm, gates.keep)
			kernel.Add(norm, gates.write)
			for j, v := range c {
				y[j] = gates.o[j] * v / norm[j]
			}
			copy(o.at(o.y.Data(), row, t, head), y)
			if o.kept != nil {
				copy(o.keptAt(0, row, t, head), c)
				copy(o.keptAt(1, row, t, head), norm)
				copy(o.keptAt(2, row, t, head), m)
			}
		}
	}
	for i, row := range rows {
		for part := range s {
			if _, after := o.carried[part].at(row); after != nil {
				copy(after[head*n:][:n], s[part][i*n:])
			}
		}
	}
}

// hasStates reports whether one of rows has a state.
func (o *slstmOp) hasStates(rows []int) bool {
	return slices.ContainsFunc(rows, func(row int) bool { return o.carried[0].has(row) })
}

// slstmGates are the gates of a head at one position.
type slstmGates struct {
	keep, write []float32 // ā and ī
	m           []float32 // after the position
	z, o        []float32 // tanh z and σ(o)
}

func newSLSTMGates(x []float32, n int) (g slstmGates) {
	g.keep, g.write, g.m, g.z, g.o = split5(x, n, n, n, n, n)
	return g
}

// set computes the gates from their arguments (4, n) and m before the position. At a fresh position, m becomes i.
func (g *slstmGates) set(raw, m []float32, fresh bool) {
	n := len(g.m)
	in := raw[:n]
	for j, f := range raw[n : 2*n] {
		g.keep[j] = -min(f, engine.SLSTMForgets)
	}
	kernel.FuncSoftplus.Into(g.keep, g.keep)
	for j, v := range g.keep {
		kept := m[j] - v
		next := max(in[j], kept)
		if fresh {
			next = in[j]
		}
		g.m[j], g.keep[j], g.write[j] = next, min(0, kept-next), in[j]-next
	}
	kernel.ExpShift(g.keep, 0, 1)
	kernel.ExpShift(g.write, 0, 1)
	kernel.FuncTanh.Into(g.z, raw[2*n:3*n])
	kernel.FuncSigmoid.Into(g.o, raw[3*n:])
}

package cpu

import (
	"slices"
	"sort"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Recurrence computes one product with R for each position, for all rows that are long enough.
func (eng *Engine) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	o := take[recurrenceOp](eng)
	record := eng.wantsRows(slots, u, rw)
	*o = recurrenceOp{u: u, r: rw, y: eng.like(u), tanhs: tanhs, rows: r, carried: eng.carry(o.carried, slots),
		order: o.order[:0], from: o.from[:0], to: o.to[:0]}
	for i := range r.Count() {
		o.order = append(o.order, i)
	}
	if r.Equal() == 0 {
		slices.SortStableFunc(o.order, func(i, j int) int { return r.Len(j) - r.Len(i) })
	}
	o.forward(eng)
	if record {
		eng.push("Recurrence", o, o.y).add(o.after...)
	}
	return o.y
}

type recurrenceOp struct {
	u, r, y *tensor.Tensor
	tanhs   int
	rows    *engine.Rows
	carried
	order    []int       // rows, the longest first
	from, to [][]float32 // inputs and results of a product
}

// place returns position t of row i in x, which is laid out like u.
func (o *recurrenceOp) place(x []float32, i, t int) []float32 {
	n := o.u.Dim(-1)
	return x[(o.rows.From(i)+t)*n:][:n]
}

// longer returns the rows of more than t positions.
func (o *recurrenceOp) longer(t int) []int {
	return o.order[:sort.Search(len(o.order), func(k int) bool { return o.rows.Len(o.order[k]) <= t })]
}

// next adds R times position from (its transpose for kernel.NN) to position to, in x, which is laid out like u, for all
// rows that have both positions.
func (o *recurrenceOp) next(eng *Engine, op kernel.Op, x []float32, from, to int) {
	n := o.u.Dim(-1)
	if l := o.rows.Equal(); l > 0 {
		eng.precision().Gemm(kernel.Product{Op: op, M: o.rows.Count(), N: n, K: n, A: x[from*n:], LDA: l * n,
			B: o.r.Data(), LDB: n, C: x[to*n:], LDC: l * n, Add: true})
		return
	}
	o.from, o.to = o.from[:0], o.to[:0]
	for _, i := range o.longer(max(from, to)) {
		o.from, o.to = append(o.from, o.place(x, i, from)), append(o.to, o.place(x, i, to))
	}
	o.product(eng, op)
}

// product adds R times each vector of from to the vector of to with the same index.
func (o *recurrenceOp) product(eng *Engine, op kernel.Op) {
	m, n := len(o.from), o.u.Dim(-1)
	switch m {
	case 0:
	case 1:
		eng.precision().Gemm(kernel.Product{Op: op, M: 1, N: n, K: n, A: o.from[0], LDA: n, B: o.r.Data(), LDB: n,
			C: o.to[0], LDC: n, Add: true})
	default:
		a, c := eng.contiguous(o.from), eng.contiguous(o.to)
		eng.precision().Gemm(kernel.Product{Op: op, M: m, N: n, K: n, A: a, LDA: n, B: o.r.Data(), LDB: n,
			C: c, LDC: n, Add: true})
		for i, to := range o.to {
			copy(to, c[i*n:])
		}
		eng.done(a)
		eng.done(c)
	}
}

// contiguous returns a contiguous copy of vectors, which must be given back with done.
func (eng *Engine) contiguous(xs [][]float32) []float32 {
	buf := eng.arena.Borrow(len(xs) * len(xs[0]))
	for i, x := range xs {
		copy(buf[i*len(x):], x)
	}
	return buf
}

func (o *recurrenceOp) forward(eng *Engine) {
	y := o.y.Data()
	copy(y, o.u.Data())
	for t := range o.rows.Longest() {
		if t > 0 {
			o.next(eng, kernel.NT, y, t-1, t)
		} else {
			o.fromStates(eng)
		}
		for _, i := range o.longer(t) {
			x := o.place(y, i, t)[:o.tanhs]
			kernel.FuncTanh.Into(x, x)
		}
	}
	for i := range o.after {
		if _, after := o.at(i); after != nil {
			copy(after, o.place(y, i, o.rows.Len(i)-1))
		}
	}
}

// fromStates adds the products with the states before the rows to their first positions.
func (o *recurrenceOp) fromStates(eng *Engine) {
	for i := range o.before {
		if before, _ := o.at(i); before != nil {
			o.from, o.to = append(o.from, before), append(o.to, o.place(o.y.Data(), i, 0))
		}
	}
	o.product(eng, kernel.NT)
}

// Backward turns the gradient of y into that of the argument of f, from the last position to the first. The gradient of
// R is one product for each row.
func (o *recurrenceOp) Backward(eng *Engine) {
	d, y := eng.grad(o.y), o.y.Data()
	for i := range o.before {
		if _, dnext := o.grads(eng, i); dnext != nil {
			kernel.Add(o.place(d, i, o.rows.Len(i)-1), dnext)
		}
	}
	for t := o.rows.Longest() - 1; t >= 0; t-- {
		for _, i := range o.longer(t) {
			tanhGrad(o.place(d, i, t)[:o.tanhs], o.place(y, i, t))
		}
		if t > 0 {
			o.next(eng, kernel.NN, d, t, t-1)
		}
	}
	o.from, o.to = o.from[:0], o.to[:0]
	for i := range o.before {
		if ds, _ := o.grads(eng, i); ds != nil {
			o.from, o.to = append(o.from, o.place(d, i, 0)), append(o.to, ds)
		}
	}
	o.product(eng, kernel.NN)
	if dr := eng.gradOf(o.r); dr != nil {
		o.matrixGrad(eng, dr, d)
	}
	if du := eng.gradOf(o.u); du != nil {
		parallel.For(len(d), grain, func(lo, hi int) { kernel.Add(du[lo:hi], d[lo:hi]) })
	}
}

// matrixGrad adds to the gradient of R: first the part of the positions, row by row, then the part of the states of all
// rows.
func (o *recurrenceOp) matrixGrad(eng *Engine, dr, d []float32) {
	n, y := o.u.Dim(-1), o.y.Data()
	for i := range o.rows.Count() {
		if l := o.rows.Len(i); l > 1 {
			from := o.rows.From(i) * n
			eng.precision().Gemm(kernel.Product{Op: kernel.TN, M: n, N: n, K: l - 1, A: d[from+n:], LDA: n,
				B: y[from:], LDB: n, C: dr, LDC: n, Add: true})
		}
	}
	o.from, o.to = o.from[:0], o.to[:0]
	for i := range o.before {
		if before, _ := o.at(i); before != nil {
			o.from, o.to = append(o.from, o.place(d, i, 0)), append(o.to, before)
		}
	}
	if m := len(o.from); m > 0 {
		first, states := eng.contiguous(o.from), eng.contiguous(o.to)
		eng.precision().Gemm(kernel.Product{Op: kernel.TN, M: n, N: n, K: m, A: first, LDA: n, B: states, LDB: n,
			C: dr, LDC: n, Add: true})
		eng.done(first)
		eng.done(states)
	}
}

// tanhGrad turns the gradient d of y = tanh(x) into the gradient of x, in place.
func tanhGrad(d, y []float32) {
	for i, v := range d {
		d[i] = v * (1 - y[i]*y[i])
	}
}

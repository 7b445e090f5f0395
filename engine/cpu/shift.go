package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Fewer positions, or gradients of fewer taps, than these are not worth a task of the direct filters.
const (
	firRows = 64
	firTaps = 16
)

// ShiftSSM filters rows by the taps h[i] = Σ_j B[j] C[i+j], and adds what the state before a row gives. A row of one
// position with a state is a step of the recurrence, unless the tape records.
func (eng *Engine) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	op := take[shiftOp](eng)
	record := eng.wantsRows(slots, x, bw, cw, dw)
	n := bw.Len() / x.Dim(-1)
	*op = shiftOp{x: x, b: bw, c: cw, d: dw, y: eng.like(x), rows: r, n: n, carried: eng.carry(op.carried, slots)}
	op.makeTaps(eng)
	d, work := x.Dim(-1), max(n, len(op.taps)/x.Dim(-1))
	overRows(r, max(firRows, rowGrain(d*work)), func(i, lo, hi int) {
		if !op.steps(eng, i) {
			at := r.From(i) * d
			kernel.FIR(op.y.Data()[at:], x.Data()[at:], op.taps, dw.Data(), d, min(len(op.taps)/d, r.Len(i)), lo, hi)
		}
	})
	if op.any() {
		parallel.For(r.Count()*d, rowGrain(n*min(n, r.Longest())), func(lo, hi int) {
			for i := lo / d; i*d < hi; i++ {
				op.advance(eng, i, max(0, lo-i*d), min(d, hi-i*d))
			}
		})
	}
	if record {
		eng.push(op)
	}
	return op.y
}

type shiftOp struct {
	x, b, c, d, y *tensor.Tensor
	rows          *engine.Rows
	carried
	taps []float32 // (m, d), m ≤ n as many as the longest filtered row needs
	n    int
}

// steps tells whether row i is a step of the recurrence.
func (o *shiftOp) steps(eng *Engine, i int) bool {
	return !eng.Recording && o.rows.Len(i) == 1 && o.has(i)
}

// makeTaps makes the taps that the rows need.
func (o *shiftOp) makeTaps(eng *Engine) {
	longest, d := 0, o.x.Dim(-1)
	for i := range o.rows.Count() {
		if !o.steps(eng, i) {
			longest = max(longest, o.rows.Len(i))
		}
	}
	if m := min(o.n, longest); m > 0 {
		o.taps = eng.arena.Floats(m * d)
		parallel.For(d, 16, func(lo, hi int) {
			f := o.filter(m)
			f.Taps(o.taps, lo, hi)
		})
	}
}

// filter is the first m taps of the channels' impulse responses.
func (o *shiftOp) filter(m int) kernel.ShiftFilter {
	return kernel.ShiftFilter{B: o.b.Data(), C: o.c.Data(), D: o.x.Dim(-1), N: o.n, M: m}
}

// channel is channel c of row i, with the state before it.
func (o *shiftOp) channel(i, c int, before []float32) kernel.ShiftCarry {
	d, n := o.x.Dim(-1), o.n
	return kernel.ShiftCarry{
		B: o.b.Data()[c*n:][:n], C: o.c.Data()[c*n:][:n], S: before[c*n:][:n], X: o.x.Data()[o.rows.From(i)*d+c:],
		L: o.rows.Len(i), Step: d,
	}
}

// advance carries the states of the channels [lo, hi) through row i, and adds what they give to y.
func (o *shiftOp) advance(eng *Engine, i, lo, hi int) {
	before, after := o.at(i)
	if before == nil {
		return
	}
	n, at := o.n, o.rows.From(i)*o.x.Dim(-1)
	x, y := o.x.Data()[at:], o.y.Data()[at:]
	if o.steps(eng, i) {
		kernel.ShiftStep(after[lo*n:], o.b.Data()[lo*n:], o.c.Data()[lo*n:], x[lo:hi], o.d.Data()[lo:], y[lo:], n)
		return
	}
	for c := lo; c < hi; c++ {
		k := o.channel(i, c, before)
		k.Run(after[c*n:][:n], y[c:])
	}
}

func (o *shiftOp) Name() string { return "ShiftSSM" }

func (o *shiftOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	o.outputs(f)
}

func (o *shiftOp) Backward(eng *Engine) {
	r, d := o.rows, o.x.Dim(-1)
	m := len(o.taps) / d
	dy := o.y.Grad()
	if dy == nil { // only states were used
		dy = eng.grad(o.y)
	}
	dx := eng.gradOf(o.x)
	if dx == nil { // not wanted, but the kernel writes it
		dx = eng.scratch(o.x.Len())
		defer eng.done(dx)
	}
	dtaps := eng.scratch(m * d)
	defer eng.done(dtaps)
	x := o.x.Data()
	overRows(r, max(firRows, rowGrain(d*m)), func(i, lo, hi int) {
		at, l := r.From(i)*d, r.Len(i)
		kernel.FIRGrad(dx[at:], dy[at:], o.taps, o.d.Data(), d, min(m, l), l, lo, hi)
	})
	parallel.For(m, max(firTaps, rowGrain(r.Total()*d)), func(lo, hi int) {
		for i := range r.Count() {
			at, l := r.From(i)*d, r.Len(i)
			kernel.FIRTapsGrad(dtaps, dy[at:], x[at:], d, l, lo, min(hi, l))
		}
	})
	db, dc := eng.scratch(o.b.Len()), eng.scratch(o.c.Len())
	defer eng.done(db)
	defer eng.done(dc)
	states := make([][2][]float32, len(o.before))
	for i := range states {
		states[i][0], states[i][1] = o.grads(eng, i)
	}
	parallel.For(d, 16, func(lo, hi int) {
		f := o.filter(m)
		f.Grad(db, dc, dtaps, lo, hi)
		for i, g := range states {
			if o.has(i) {
				o.carryGrad(i, g[0], g[1], dx, db, dc, dy, lo, hi)
			}
		}
	})
	if gb := eng.gradOf(o.b); gb != nil {
		kernel.Add(gb, db)
	}
	if gc := eng.gradOf(o.c); gc != nil {
		kernel.Add(gc, dc)
	}
	eng.skipGrad(o.d, dy, x)
}

// carryGrad is the backward of advance, for the channels [lo, hi) of row i. ds is the gradient of the state before the
// row, nil where it is not wanted, and dnext of the state after it, nil for zero.
func (o *shiftOp) carryGrad(i int, ds, dnext, dx, db, dc, dy []float32, lo, hi int) {
	d, n := o.x.Dim(-1), o.n
	before, _ := o.at(i)
	part := func(x []float32, c int) []float32 {
		if x == nil {
			return nil
		}
		return x[c*n:][:n]
	}
	for c := lo; c < hi; c++ {
		at := o.rows.From(i)*d + c
		k := o.channel(i, c, before)
		k.Grad(kernel.ShiftCarryGrads{B: db[c*n:][:n], C: dc[c*n:][:n], S: part(ds, c), X: dx[at:]}, part(dnext, c),
			dy[at:])
	}
}

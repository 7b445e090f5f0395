package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Work on fewer positions, or gradients of fewer taps, is not worth a task of the direct filters.
const (
	firRows = 64
	firTaps = 16
)

// ShiftSSM filters rows with the taps h[i] = Σ_j B[j] C[i+j], and adds the response to the state before a row. A row of
// one position with a state, and the positions of a stepped row, are steps of the recurrence, unless the tape records.
func (eng *Engine) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	op := take[shiftOp](eng)
	record := eng.wantsRows(slots, x, bw, cw, dw)
	n := bw.Len() / x.Dim(-1)
	*op = shiftOp{x: x, b: bw, c: cw, d: dw, y: eng.like(x), rows: r, n: n, carried: eng.carry(op.carried, slots),
		records: eng.Recording, stepped: op.stepped[:0], filtered: op.filtered[:0]}
	for i := range r.Count() {
		if op.steps(i) {
			op.stepped = append(op.stepped, i)
		} else {
			op.filtered = append(op.filtered, i)
		}
	}
	op.step()
	op.filterRows(eng)
	if record {
		eng.push("ShiftSSM", op, op.y).add(op.after...)
	}
	return op.y
}

type shiftOp struct {
	x, b, c, d, y *tensor.Tensor
	rows          *engine.Rows
	carried
	records           bool      // the tape records
	stepped, filtered []int     // rows that are steps of the recurrence, and the others
	taps              []float32 // (m, d), m ≤ n as large as the longest filtered row needs
	n                 int
}

// steps reports whether the positions of row i are steps of the recurrence.
func (o *shiftOp) steps(i int) bool {
	return !o.records && (o.rows.Len(i) == 1 || o.rows.Stepped(i)) && o.has(i)
}

// channelsPerStep is the number of channels that are stepped together: their B and C stay in the processor's cache
// while the rows are computed.
const channelsPerStep = 32

// step computes the steps of the recurrence in the stepped rows.
func (o *shiftOp) step() {
	if len(o.stepped) == 0 {
		return
	}
	d, n := o.x.Dim(-1), o.n
	groups := (d + channelsPerStep - 1) / channelsPerStep
	parallel.For(groups, rowGrain(len(o.stepped)*channelsPerStep*n), func(lo, hi int) {
		for c := lo * channelsPerStep; c < min(d, hi*channelsPerStep); c += channelsPerStep {
			end := min(d, c+channelsPerStep)
			b, w, skip := o.b.Data()[c*n:], o.c.Data()[c*n:], o.d.Data()[c:]
			for _, i := range o.stepped {
				_, s := o.at(i)
				for p := o.rows.From(i); p < o.rows.From(i)+o.rows.Len(i); p++ {
					at := p * d
					kernel.ShiftStep(s[c*n:], b, w, o.x.Data()[at+c:at+end], skip, o.y.Data()[at+c:], n)
				}
			}
		}
	})
}

// filterRows filters the filtered rows, and carries their states through them.
func (o *shiftOp) filterRows(eng *Engine) {
	if len(o.filtered) == 0 {
		return
	}
	o.makeTaps(eng)
	x, y, d := o.x.Data(), o.y.Data(), o.x.Dim(-1)
	m := len(o.taps) / d
	overRows(o.rows, max(firRows, rowGrain(d*max(o.n, m))), func(i, lo, hi int) {
		if at := o.rows.From(i) * d; !o.steps(i) {
			kernel.FIR(y[at:], x[at:], o.taps, o.d.Data(), d, min(m, o.rows.Len(i)), lo, hi)
		}
	})
	if o.any() {
		parallel.For(len(o.filtered)*d, rowGrain(o.n*min(o.n, o.rows.Longest())), func(lo, hi int) {
			for k := lo / d; k*d < hi; k++ {
				o.advance(o.filtered[k], max(0, lo-k*d), min(d, hi-k*d))
			}
		})
	}
}

// makeTaps computes the taps that the rows need.
func (o *shiftOp) makeTaps(eng *Engine) {
	longest, d := 0, o.x.Dim(-1)
	for _, i := range o.filtered {
		longest = max(longest, o.rows.Len(i))
	}
	if m := min(o.n, longest); m > 0 {
		o.taps = eng.arena.Floats(m * d)
		parallel.For(d, 16, func(lo, hi int) {
			f := o.filter(m)
			f.Taps(o.taps, lo, hi)
		})
	}
}

// filter returns the first m taps of the channels' impulse responses.
func (o *shiftOp) filter(m int) kernel.ShiftFilter {
	return kernel.ShiftFilter{B: o.b.Data(), C: o.c.Data(), D: o.x.Dim(-1), N: o.n, M: m}
}

// channel returns channel c of row i, with the state before it.
func (o *shiftOp) channel(i, c int, before []float32) kernel.ShiftCarry {
	d, n := o.x.Dim(-1), o.n
	return kernel.ShiftCarry{
		B: o.b.Data()[c*n:][:n], C: o.c.Data()[c*n:][:n], S: before[c*n:][:n], X: o.x.Data()[o.rows.From(i)*d+c:],
		L: o.rows.Len(i), Step: d,
	}
}

// advance carries the states of the channels [lo, hi) through row i, and adds their contribution to y.
func (o *shiftOp) advance(i, lo, hi int) {
	before, after := o.at(i)
	if before == nil {
		return
	}
	n, at := o.n, o.rows.From(i)*o.x.Dim(-1)
	y := o.y.Data()[at:]
	for c := lo; c < hi; c++ {
		k := o.channel(i, c, before)
		k.Run(after[c*n:][:n], y[c:])
	}
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
	states := o.stateGrads(eng, nil, len(o.before))
	parallel.For(d, 16, func(lo, hi int) {
		f := o.filter(m)
		f.Grad(db, dc, dtaps, lo, hi)
		for i, g := range states {
			if o.has(i) {
				o.carryGrad(i, g.before, g.after, dx, db, dc, dy, lo, hi)
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

// carryGrad is the backward pass of advance, for the channels [lo, hi) of row i. ds is the gradient of the state before
// the row, nil if it is not wanted, and dnext that of the state after it, nil if it is zero.
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

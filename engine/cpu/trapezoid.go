package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// trapezoidShort is the length below which a row is stepped position by position if the tape does not record, like
// deltaShort.
const trapezoidShort = deltaShort

// Trapezoid joins both writes of a key into one: after position t, k[t] has the weight λ[t]·dt[t] + (1-λ[t+1])·dt[t+1],
// which the next position decays. When position t reads its own keys, and in the state after the row, they have only
// the weight λ[t]·dt[t]. So each head of a row is decayed attention, chunk by chunk.
func (eng *Engine) Trapezoid(x engine.Trapezoid, r *engine.Rows, slots engine.TrapezoidSlots) *tensor.Tensor {
	o := take[trapezoidOp](eng)
	record := eng.wantsRows(slots.S, append(x.Along(), x.D)...)
	record = eng.wantsRows(slots.K) || record
	record = eng.wantsRows(slots.V) || record
	all := x.Heads * r.Total()
	*o = trapezoidOp{Trapezoid: x, y: eng.like(x.V), rows: r, s: eng.carry(o.s, slots.S), k: eng.carry(o.k, slots.K),
		v: eng.carry(o.v, slots.V), n: x.KeyDim(), p: x.ValueDim(), chunks: o.chunks[:0], work: o.work, grads: o.grads}
	weights := eng.arena.Floats(3 * all)
	o.steps, o.write, o.own = weights[:all], weights[all:2*all], weights[2*all:]
	chunks := 0
	o.work.clear()
	for i := range r.Count() {
		o.chunks = append(o.chunks, chunks)
		chunks += o.count(i)
		o.work.add(x.Heads)
	}
	if record {
		o.states = eng.arena.Floats(x.Heads * chunks * o.n * o.p)
	}
	recording := eng.Recording
	o.work.each(1, func(row, head int) {
		if !recording && r.Len(row) < trapezoidShort && o.s.has(row) {
			o.step(row, head)
		} else {
			o.forward(row, head)
		}
	})
	if record {
		made := eng.push("Trapezoid", o, o.y)
		made.add(o.s.after...)
		made.add(o.k.after...)
		made.add(o.v.after...)
	}
	return o.y
}

type trapezoidOp struct {
	engine.Trapezoid
	y       *tensor.Tensor
	rows    *engine.Rows
	s, k, v carried
	n, p    int // components of keys and of values
	// For each row (heads, l): A·dt, and the weights of a key for later positions and for its own.
	steps, write, own []float32
	states            []float32 // for backward: S before each chunk, for each row (heads, chunks, n·p)
	chunks            []int     // number of chunks of the rows before each
	work              work
	grads             []trapezoidStateGrads // of the rows, during backward
}

// positions returns the number of positions of a chunk.
func (o *trapezoidOp) positions() int { return max(1, decayedRows/o.Ranks) }

// count returns the number of chunks of a row.
func (o *trapezoidOp) count(row int) int {
	return (o.rows.Len(row) + o.positions() - 1) / o.positions()
}

// of returns the part of x, for example steps, that belongs to a head of a row.
func (o *trapezoidOp) of(x []float32, row, head int) []float32 {
	l := o.rows.Len(row)
	return x[o.rows.From(row)*o.Heads+head*l:][:l]
}

// stateBefore returns S before the chunk that starts at t0.
func (o *trapezoidOp) stateBefore(row, head, t0 int) []float32 {
	at := o.chunks[row]*o.Heads + head*o.count(row) + t0/o.positions()
	return o.states[at*o.n*o.p:][:o.n*o.p]
}

// early returns (1-λ)·dt of a head at position t of a row.
func (o *trapezoidOp) early(row, head, t int) float32 {
	at := (o.rows.From(row)+t)*o.Heads + head
	return (1 - o.Lambda.Data()[at]) * o.Dt.Data()[at]
}

// weights computes steps, write and own of a head of a row.
func (o *trapezoidOp) weights(row, head int) {
	steps, write, own := o.of(o.steps, row, head), o.of(o.write, row, head), o.of(o.own, row, head)
	for t := range steps {
		at := (o.rows.From(row)+t)*o.Heads + head
		steps[t] = o.A.Data()[at] * o.Dt.Data()[at]
		own[t] = o.Lambda.Data()[at] * o.Dt.Data()[at]
		write[t] = own[t]
		if t+1 < len(steps) {
			write[t] += o.early(row, head, t+1)
		}
	}
}

// head returns a head of a row, from its first position on, without a state.
func (o *trapezoidOp) head(row, head int) decayed {
	at := o.rows.From(row)*o.Ranks*o.Heads + head
	return decayed{ranks: o.Ranks, e: o.n, m: o.p, q: o.Q.Data()[at*o.n:], k: o.K.Data()[at*o.n:],
		v: o.V.Data()[at*o.p:], qStep: o.Heads * o.n, vStep: o.Heads * o.p, steps: o.of(o.steps, row, head),
		write: o.of(o.write, row, head), own: o.of(o.own, row, head)}
}

// rank returns the part of rank r and a head in x (R, h, n).
func rank(x []float32, r, head, heads, n int) []float32 { return x[(r*heads+head)*n:][:n] }

// begin adds to the state s before the row what its first position writes of the previous keys.
func (o *trapezoidOp) begin(s []float32, row, head int) {
	k, _ := o.k.at(row)
	v, _ := o.v.at(row)
	for r := range o.Ranks {
		kr, vr := rank(k, r, head, o.Heads, o.n), rank(v, r, head, o.Heads, o.p)
		early := o.early(row, head, 0)
		for i, w := range kr {
			kernel.Axpy(early*w, vr, s[i*o.p:][:o.p])
		}
	}
}

// end stores the keys and values of the last position of a row in its state.
func (o *trapezoidOp) end(row, head int) {
	_, k := o.k.at(row)
	_, v := o.v.at(row)
	last := (o.rows.From(row) + o.rows.Len(row) - 1) * o.Ranks * o.Heads
	for r := range o.Ranks {
		copy(rank(k, r, head, o.Heads, o.n), rank(o.K.Data()[last*o.n:], r, head, o.Heads, o.n))
		copy(rank(v, r, head, o.Heads, o.p), rank(o.V.Data()[last*o.p:], r, head, o.Heads, o.p))
	}
}

// step computes a short row position by position, and updates its states in place: both writes of each rank at once.
func (o *trapezoidOp) step(row, head int) {
	_, s := o.s.at(row)
	s = s[head*o.n*o.p:][:o.n*o.p]
	beforeK, _ := o.k.at(row)
	beforeV, _ := o.v.at(row)
	o.weights(row, head)
	h := o.head(row, head)
	buf := getFloats(3 * o.n)
	defer putFloats(buf)
	decay, early, late := (*buf)[:o.n], (*buf)[o.n:2*o.n], (*buf)[2*o.n:]
	y := o.y.Data()[(o.rows.From(row)*o.Ranks*o.Heads+head)*o.p:]
	for t := range h.steps {
		a := kernel.Exp(h.steps[t])
		fill(decay, a)
		for r := range o.Ranks {
			at := t*o.Ranks + r
			k0, v0 := rank(beforeK, r, head, o.Heads, o.n), rank(beforeV, r, head, o.Heads, o.p)
			if t > 0 {
				k0, v0 = h.k[(at-o.Ranks)*h.qStep:][:o.n], h.v[(at-o.Ranks)*h.vStep:][:o.p]
			}
			copy(early, k0)
			kernel.Scale(early, a*o.early(row, head, t))
			copy(late, h.k[at*h.qStep:][:o.n])
			kernel.Scale(late, h.own[t])
			kernel.DeltaStep(y[at*h.vStep:][:o.p], s, decay, h.q[at*h.qStep:][:o.n], early, v0, late,
				h.v[at*h.vStep:][:o.p])
			fill(decay, 1) // for the remaining ranks
		}
		for r := range o.Ranks {
			at := t*o.Ranks + r
			out := y[at*h.vStep:][:o.p]
			if r+1 < o.Ranks { // the last rank has read everything
				kernel.RowSums(o.n, o.p, s, o.p, h.q[at*h.qStep:][:o.n], out, false)
			}
			kernel.Axpy(o.D.Data()[head], h.v[at*h.vStep:][:o.p], out)
		}
	}
	o.end(row, head)
}

// forward computes a head of a row.
func (o *trapezoidOp) forward(row, head int) {
	o.weights(row, head)
	h := o.head(row, head)
	h.s = h.lend(o.n * o.p)
	defer putFloats(h.scratch)
	before, after := o.s.at(row)
	if h.zero = before == nil; h.zero {
		clear(h.s)
	} else {
		copy(h.s, before[head*len(h.s):])
		o.begin(h.s, row, head)
	}
	y, l := o.y.Data()[(o.rows.From(row)*o.Ranks*o.Heads+head)*o.p:], o.rows.Len(row)
	for t0 := 0; t0 < l; t0 += o.positions() {
		if o.states != nil {
			copy(o.stateBefore(row, head, t0), h.s)
		}
		h.load(t0, min(l, t0+o.positions()))
		out := h.rows(y, h.vStep, t0)
		h.read(out, h.vStep, t0)
		kernel.AxpyRows(out, h.vStep, h.rows(h.v, h.vStep, t0), h.vStep, o.D.Data()[head:], 0, h.n, o.p)
		h.carry(t0)
	}
	if after != nil {
		copy(after[head*len(h.s):], h.s)
		o.end(row, head)
	}
}

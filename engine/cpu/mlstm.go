package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
	"math"
)

// mlstmShort is the length below which a row is stepped position by position if the tape does not record, like
// deltaShort.
const mlstmShort = deltaShort

// MLSTM goes through each head of a row chunk by chunk. The stabilizer is computed first, position by position: it
// turns the gates into ā and ī, a decay and the weight of a write.
func (eng *Engine) MLSTM(x engine.MLSTM, r *engine.Rows, slots engine.MLSTMSlots) *tensor.Tensor {
	o := take[mlstmOp](eng)
	record := eng.wantsRows(slots.C, x.Inputs()...)
	record = eng.wantsRows(slots.N) || record
	record = eng.wantsRows(slots.M) || record
	dk, dv, all := x.KeyDim(), x.ValueDim(), x.Heads*r.Total()
	*o = mlstmOp{MLSTM: x, y: eng.withLast(x.V, x.Heads*dv), rows: r, c: eng.carry(o.c, slots.C),
		n: eng.carry(o.n, slots.N), m: eng.carry(o.m, slots.M), e: dk, d: dv, chunks: o.chunks[:0], work: o.work,
		grads: o.grads}
	gates := eng.arena.Floats(5 * all)
	o.steps, o.write, o.floor, o.den, o.slope = split5(gates, all, all, all, all, all)
	chunks := 0
	o.work.clear()
	for i := range r.Count() {
		o.chunks = append(o.chunks, chunks)
		chunks += (r.Len(i) + decayedRows - 1) / decayedRows
		o.work.add(x.Heads)
	}
	if record {
		o.states = eng.arena.Floats(x.Heads * chunks * (dk*dv + dk))
	}
	recording := eng.Recording
	o.work.each(1, func(row, i int) {
		if !recording && r.Len(row) < mlstmShort && o.c.has(row) {
			o.step(row, i)
		} else {
			o.forward(row, i)
		}
	})
	if record {
		made := eng.push("MLSTM", o, o.y)
		made.add(o.c.after...)
		made.add(o.n.after...)
		made.add(o.m.after...)
	}
	return o.y
}

type mlstmOp struct {
	engine.MLSTM
	y       *tensor.Tensor
	rows    *engine.Rows
	c, n, m carried
	e, d    int // components of keys and of values
	// For each row (heads, l): log ā, ī, e^-m, the denominators, and the derivatives of these by n·q: 1, -1 or, if e^-m
	// is the larger, 0.
	steps, write, floor, den, slope []float32
	// states holds C and n before each chunk, for each row (heads, chunks, e·d+e), for backward.
	states []float32
	chunks []int // number of chunks of the rows before each
	work   work
	grads  []mlstmStateGrads // of the rows, during backward
}

// of returns the part of x, for example steps, that belongs to a head of a row.
func (o *mlstmOp) of(x []float32, row, head int) []float32 {
	l := o.rows.Len(row)
	return x[o.rows.From(row)*o.Heads+head*l:][:l]
}

// stateBefore returns C and n before the chunk that starts at t0.
func (o *mlstmOp) stateBefore(row, head, t0 int) (c, n []float32) {
	size, chunks := o.e*o.d+o.e, (o.rows.Len(row)+decayedRows-1)/decayedRows
	x := o.states[(o.chunks[row]*o.Heads+head*chunks+t0/decayedRows)*size:][:size]
	return x[:o.e*o.d], x[o.e*o.d:]
}

// gates computes the gates of a head of a row from the stabilizer, which it carries through the row.
func (o *mlstmOp) gates(row, head int) {
	in, forget := o.I.Data(), o.F.Data()
	steps, write, floor := o.of(o.steps, row, head), o.of(o.write, row, head), o.of(o.floor, row, head)
	before, after := o.m.at(row)
	m := 0.0
	if before != nil {
		m = float64(before[head])
	}
	for t := range steps {
		at := (o.rows.From(row)+t)*o.Heads + head
		kept, i := float64(forget[at])+m, float64(in[at])
		steps[t], write[t], m = 0, float32(math.Exp(i-kept)), kept
		if kept < i {
			steps[t], write[t], m = float32(kept-i), 1, i
		}
		floor[t] = float32(math.Exp(-m))
	}
	if after != nil {
		after[head] = float32(m)
	}
}

// head returns a head of a row, from its first position on, without a state.
func (o *mlstmOp) head(row, head int) decayed {
	k, v := o.rows.From(row)*o.Heads+head, o.rows.From(row)*o.Heads+head
	return decayed{ranks: 1, e: o.e, m: o.d, q: o.Q.Data()[k*o.e:], k: o.K.Data()[k*o.e:], v: o.V.Data()[v*o.d:],
		qStep: o.Heads * o.e, vStep: o.Heads * o.d, steps: o.of(o.steps, row, head), write: o.of(o.write, row, head)}
}

// denominator sets and returns the denominator of position t of a head of a row, where s = n·q.
func (o *mlstmOp) denominator(row, head, t int, s float32) float32 {
	floor, slope := o.of(o.floor, row, head)[t], float32(1)
	size := max(s, -s)
	switch {
	case size < floor:
		size, slope = floor, 0
	case s < 0:
		slope = -1
	}
	size += float32(o.Eps)
	o.of(o.den, row, head)[t], o.of(o.slope, row, head)[t] = size, slope
	return size
}

// step computes a short row position by position, and updates its states in place.
func (o *mlstmOp) step(row, head int) {
	o.gates(row, head)
	_, c := o.c.at(row)
	_, n := o.n.at(row)
	c, n = c[head*o.e*o.d:][:o.e*o.d], n[head*o.e:][:o.e]
	buf := getFloats(2 * o.e)
	defer putFloats(buf)
	k, decay := (*buf)[:o.e], (*buf)[o.e:]
	h := o.head(row, head)
	y := o.y.Data()[(o.rows.From(row)*o.Heads+head)*o.d:]
	for t := range h.steps {
		q := h.q[t*h.qStep:][:o.e]
		copy(k, h.k[t*h.qStep:])
		kernel.Scale(k, h.write[t])
		fill(decay, kernel.Exp(h.steps[t]))
		kernel.Mul(n, decay)
		kernel.Add(n, k)
		out := y[t*h.vStep:][:o.d]
		kernel.DeltaStep(out, c, decay, q, k, h.v[t*h.vStep:][:o.d], nil, nil)
		kernel.Scale(out, 1/o.denominator(row, head, t, kernel.Dot(n, q)))
	}
}

// forward computes a head of a row.
func (o *mlstmOp) forward(row, head int) {
	o.gates(row, head)
	h := o.head(row, head)
	state := h.lend(o.e*o.d + o.e)
	defer putFloats(h.scratch)
	h.s, h.z = state[:o.e*o.d], state[o.e*o.d:]
	c, after := o.c.at(row)
	n, afterN := o.n.at(row)
	if h.zero = c == nil; h.zero {
		clear(state)
	} else {
		copy(h.s, c[head*len(h.s):])
		copy(h.z, n[head*len(h.z):])
	}
	y, l := o.y.Data()[(o.rows.From(row)*o.Heads+head)*o.d:], o.rows.Len(row)
	for t0 := 0; t0 < l; t0 += decayedRows {
		if o.states != nil {
			s, z := o.stateBefore(row, head, t0)
			copy(s, h.s)
			copy(z, h.z)
		}
		h.load(t0, min(l, t0+decayedRows))
		h.read(y[t0*h.vStep:], h.vStep, t0)
		for i := range h.n {
			kernel.Scale(y[(t0+i)*h.vStep:][:o.d], 1/o.denominator(row, head, t0+i, h.normalizer(i)))
		}
		h.carry(t0)
	}
	if after != nil {
		copy(after[head*len(h.s):], h.s)
		copy(afterN[head*len(h.z):], h.z)
	}
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CausalConv adds tap by tap, and then the contribution of the state before a row to its first k-1 positions.
func (eng *Engine) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := x.Dim(-1)
	k := w.Len() / d
	o := take[causalConvOp](eng)
	record := eng.wantsRows(slots, x, w, bias)
	*o = causalConvOp{x: x, in: positionsOf(x), w: w, bias: bias, a: a, k: k, taps: eng.arena.Floats(k * d),
		pre: eng.like(x), carried: eng.carry(o.carried, slots), cuts: o.cut(r, max(tapsPiece, k), nil)}
	o.y = o.pre
	if record && a != engine.None { // backward needs the values before the activation
		o.y = eng.like(x)
	}
	o.reverseTaps(o.taps, w.Data(), false)
	overRows(r, max(min(firRows, r.Longest()), rowGrain(d*k)), o.filter)
	if o.any() {
		parallel.For(r.Count(), rowGrain(d*k), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				o.shift(i)
			}
		})
	}
	if record {
		eng.push("CausalConv", o, o.y).add(o.after...)
	}
	return o.y
}

// data returns the storage of x, or nil if x is nil.
func data(x *tensor.Tensor) []float32 {
	if x == nil {
		return nil
	}
	return x.Data()
}

type causalConvOp struct {
	x, w, bias, pre, y *tensor.Tensor
	in                 kernel.Rows // x
	carried
	cuts // of the gradient of the taps
	a    engine.Activation
	k    int
	taps []float32 // (k, d), the tap of the newest input first
}

// rowOf returns the elements of row i in x, which is laid out like the result.
func (o *causalConvOp) rowOf(x []float32, i int) []float32 {
	d := o.x.Dim(-1)
	return x[o.rows.From(i)*d:][:o.rows.Len(i)*d]
}

// filter computes the positions [lo, hi) of row i.
func (o *causalConvOp) filter(i, lo, hi int) {
	d := o.x.Dim(-1)
	pre, y := o.rowOf(o.pre.Data(), i), o.rowOf(o.y.Data(), i)
	kernel.CausalConv(pre, o.in.From(o.rows.From(i)), o.taps, data(o.bias), d, o.k, lo, hi)
	if before, _ := o.carried.at(i); before != nil {
		for t := lo; t < min(hi, o.k-1); t++ {
			kernel.CausalConvPast(pre[t*d:][:d], before, o.taps, o.k, t)
		}
	}
	if o.a != engine.None {
		activate(o.a, y[lo*d:hi*d], pre[lo*d:hi*d])
	}
}

// reverseTaps turns w (d, k) into taps (k, d) in reverse order. If back is true, it adds taps to w instead.
func (o *causalConvOp) reverseTaps(taps, w []float32, back bool) {
	d := len(taps) / o.k
	for i := range o.k {
		row, w := taps[i*d:][:d], w[o.k-1-i:]
		for c := range row {
			if back {
				w[c*o.k] += row[c]
			} else {
				row[c] = w[c*o.k]
			}
		}
	}
}

// eachPast calls f for the products of taps with inputs in the state before row i: at position t < k-1, each tap > t
// with input k-1+t-tap of the state.
func (o *causalConvOp) eachPast(i int, f func(t, tap, past int)) {
	for t := range min(o.rows.Len(i), o.k-1) {
		for tap := t + 1; tap < o.k; tap++ {
			f(t, tap, o.k-1+t-tap)
		}
	}
}

// shift moves the last k-1 inputs of row i to the state after it, which may be the same tensor as the one before it.
func (o *causalConvOp) shift(i int) {
	before, after := o.carried.at(i)
	if before == nil {
		return
	}
	d, l := o.x.Dim(-1), o.rows.Len(i)
	n := min(l, o.k-1) // number of new inputs
	copy(after, before[n*d:])
	for t := range n {
		copy(after[(o.k-1-n+t)*d:], o.in.Row(o.rows.From(i)+l-n+t, d))
	}
}

// shiftGrad is the backward pass of shift. dx is the gradient of all rows, ds and dnext those of the states before and
// after row i.
func (o *causalConvOp) shiftGrad(i int, dx kernel.Rows, ds, dnext []float32) {
	d, l := o.x.Dim(-1), o.rows.Len(i)
	n := min(l, o.k-1)
	if ds != nil {
		kernel.Add(ds[n*d:], dnext)
	}
	if dx.X == nil {
		return
	}
	for t := range n {
		kernel.Add(dx.Row(o.rows.From(i)+l-n+t, d), dnext[(o.k-1-n+t)*d:])
	}
}

func (o *causalConvOp) Backward(eng *Engine) {
	d, k, r := o.x.Dim(-1), o.k, o.rows
	dx, add := eng.gradPositions(o.x)
	dy := o.y.Grad()
	if dy != nil {
		activateGrad(o.a, dy, o.pre.Data())
	}
	if dx.X != nil {
		overRows(r, max(min(firRows, r.Longest()), rowGrain(d*k)), func(i, lo, hi int) {
			to := dx.From(r.From(i))
			for t := lo; t < hi && !add; t++ {
				clear(to.Row(t, d))
			}
			if dy != nil {
				kernel.CausalConvGrad(to, o.rowOf(dy, i), o.taps, d, k, r.Len(i), lo, hi)
			}
		})
	}
	for i := range o.before {
		ds, dnext := o.grads(eng, i)
		if dnext != nil {
			o.shiftGrad(i, dx, ds, dnext)
		}
		if ds != nil && dy != nil {
			dz := o.rowOf(dy, i)
			o.eachPast(i, func(t, tap, past int) {
				kernel.MulAdd(ds[past*d:][:d], dz[t*d:], o.taps[tap*d:])
			})
		}
	}
	if dy == nil { // only states were used
		return
	}
	if dw := eng.gradOf(o.w); dw != nil {
		dtaps := eng.scratch(k * d)
		defer eng.done(dtaps)
		o.tapsGrad(eng, dtaps, dy)
		o.reverseTaps(dtaps, dw, true)
	}
	if db := eng.gradOf(o.bias); db != nil {
		sumRows(eng, db, dy, d)
	}
}

// tapsPiece is the smallest number of positions for a partial sum of the gradient of the taps.
const tapsPiece = 512

// tapsGrad adds to the gradient of the taps: partial sums over pieces of the rows in order, then the contribution of
// the states.
func (o *causalConvOp) tapsGrad(eng *Engine, dtaps, dy []float32) {
	d, k, n := o.x.Dim(-1), o.k, o.count()
	partial := eng.scratch(n * k * d)
	defer eng.done(partial)
	parallel.For(n, max(1, rowGrain(d*k)*o.rows.Count()/o.rows.Total()), func(first, end int) {
		for p := first; p < end; p++ {
			i, lo, hi := o.cuts.at(p)
			kernel.CausalConvTapsGrad(partial[p*k*d:][:k*d], o.rowOf(dy, i), o.in.From(o.rows.From(i)), d, k, lo, hi)
		}
	})
	addParts(dtaps, partial)
	for i := range o.before {
		before, _ := o.carried.at(i)
		if before == nil {
			continue
		}
		dz := o.rowOf(dy, i)
		o.eachPast(i, func(t, tap, past int) {
			kernel.MulAdd(dtaps[tap*d:][:d], dz[t*d:], before[past*d:])
		})
	}
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CausalConv filters each channel of a chunk x (b, l, d) by taps of its own, as Mamba does before its scan:
//
//	y[t] = a(bias + Σ_{i<k} w[k-1-i]·x[t-i])
//
// w (d, 1, k) with the tap of the newest input last, as in PyTorch's Conv1d; bias (d) or nil. state (b, k-1, d) holds the inputs
// before the chunk, oldest first, nil for zeros with none wanted after it; next is the state after it: state itself, updated in
// place, when the tape does not record.
func (eng *Engine) oldCausalConv(x, w, bias, state *tensor.Tensor, a engine.Activation) (y, next *tensor.Tensor) {
	batch, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	k := w.Len() / d
	o := causalConvOp{x: x, w: w, bias: bias, state: state, a: a, k: k, taps: eng.arena.Floats(k * d)}
	o.reverseTaps(o.taps, w.Data(), false)
	o.pre = eng.like(x)
	overPositions(batch, l, max(firRows, rowGrain(d*k)), func(b, lo, hi int) {
		kernel.CausalConv(o.pre.Data()[b*l*d:][:l*d], x.Data()[b*l*d:][:l*d], o.taps, data(bias), d, k, lo, hi)
	})
	record := eng.wants(x, w, bias, state)
	if state != nil {
		row := func(x []float32, i int) []float32 { return x[i*d:][:d] }
		o.eachPast(func(b, t, i, r int) {
			kernel.MulAdd(row(o.pre.Data(), b*l+t), row(o.taps, i), row(state.Data(), b*(k-1)+r))
		})
		next = state
		if eng.Recording {
			next = eng.like(state)
		}
		o.next = next
		o.shift()
	}
	y = o.pre
	if a != engine.None {
		if record { // backward needs the values before the activation
			y = eng.like(x)
		}
		parallel.For(y.Len(), grain, func(lo, hi int) { activate(a, y.Data()[lo:hi], o.pre.Data()[lo:hi]) })
	}
	if record {
		o.y = y
		op := take[causalConvOp](eng)
		*op = o
		eng.push(op)
	}
	return y, next
}

// data is the storage of x, nil where there is none.
func data(x *tensor.Tensor) []float32 {
	if x == nil {
		return nil
	}
	return x.Data()
}

type causalConvOp struct {
	x, w, bias, state, pre, y, next *tensor.Tensor
	a                               engine.Activation
	k                               int
	taps                            []float32 // (k, d), that of the newest input first
}

func (o *causalConvOp) Name() string { return "CausalConv" }

func (o *causalConvOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.next != nil {
		f(o.next)
	}
}

// reverseTaps turns w (d, k) into taps (k, d) with the last first; with back it adds taps to w.
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

// eachPast visits the products of taps with rows of the state: position t < k-1 takes tap i > t of the row k-1+t-i.
func (o *causalConvOp) eachPast(f func(b, t, i, row int)) {
	for b := range o.x.Dim(0) {
		for t := range min(o.x.Dim(1), o.k-1) {
			for i := t + 1; i < o.k; i++ {
				f(b, t, i, o.k-1+t-i)
			}
		}
	}
}

// shift moves the last k-1 inputs to the next state, which may be the old one.
func (o *causalConvOp) shift() {
	l, d, n := o.x.Dim(1), o.x.Dim(2), o.k-1
	for b := range o.x.Dim(0) {
		old, to := o.state.Data()[b*n*d:][:n*d], o.next.Data()[b*n*d:][:n*d]
		kept := max(0, n-l) // rows of the old state that stay
		copy(to[:kept*d], old[(n-kept)*d:])
		copy(to[kept*d:], o.x.Data()[(b*l+l-(n-kept))*d:][:(n-kept)*d])
	}
}

// shiftGrad is the backward of shift.
func (o *causalConvOp) shiftGrad(dx, ds, dnext []float32) {
	l, d, n := o.x.Dim(1), o.x.Dim(2), o.k-1
	for b := range o.x.Dim(0) {
		g, kept := dnext[b*n*d:][:n*d], max(0, n-l)
		if ds != nil {
			kernel.Add(ds[(b*n+n-kept)*d:][:kept*d], g[:kept*d])
		}
		if dx != nil {
			kernel.Add(dx[(b*l+l-(n-kept))*d:][:(n-kept)*d], g[kept*d:])
		}
	}
}

func (o *causalConvOp) Backward(eng *Engine) {
	batch, l, d, k := o.x.Dim(0), o.x.Dim(1), o.x.Dim(2), o.k
	dx, add := eng.gradTo(o.x)
	ds := eng.gradOf(o.state)
	dy := o.y.Grad()
	if dy != nil {
		activateGrad(o.a, dy, o.pre.Data())
	}
	if dx != nil {
		overPositions(batch, l, max(firRows, rowGrain(d*k)), func(b, lo, hi int) {
			if !add {
				clear(dx[(b*l+lo)*d : (b*l+hi)*d])
			}
			if dy != nil {
				kernel.CausalConvGrad(dx[b*l*d:][:l*d], dy[b*l*d:][:l*d], o.taps, d, k, l, lo, hi)
			}
		})
	}
	if o.next != nil && o.next.Grad() != nil {
		o.shiftGrad(dx, ds, o.next.Grad())
	}
	if dy == nil { // only the state was used
		return
	}
	row := func(x []float32, i int) []float32 { return x[i*d:][:d] }
	if ds != nil {
		o.eachPast(func(b, t, i, r int) { kernel.MulAdd(row(ds, b*(k-1)+r), row(dy, b*l+t), row(o.taps, i)) })
	}
	if dw := eng.gradOf(o.w); dw != nil {
		dtaps := eng.scratch(k * d)
		defer eng.done(dtaps)
		o.tapsGrad(eng, dtaps, dy)
		if o.state != nil {
			o.eachPast(func(b, t, i, r int) { kernel.MulAdd(row(dtaps, i), row(dy, b*l+t), row(o.state.Data(), b*(k-1)+r)) })
		}
		o.reverseTaps(dtaps, dw, true)
	}
	if db := eng.gradOf(o.bias); db != nil {
		sumRows(eng, db, dy, d)
	}
}

// tapsPiece is how many positions give one partial sum of the gradient of the taps, if there are not more taps.
const tapsPiece = 512

// tapsGrad adds the gradient of the taps, but for what the state gives: partial sums over fixed pieces of all sequences, added in
// order.
func (o *causalConvOp) tapsGrad(eng *Engine, dtaps, dy []float32) {
	batch, l, d, k := o.x.Dim(0), o.x.Dim(1), o.x.Dim(2), o.k
	piece := max(tapsPiece, k)
	pieces := (l + piece - 1) / piece
	partial := eng.scratch(batch * pieces * k * d)
	defer eng.done(partial)
	parallel.For(batch*pieces, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b, at := i/pieces, i%pieces*piece
			kernel.CausalConvTapsGrad(partial[i*k*d:][:k*d], dy[b*l*d:][:l*d], o.x.Data()[b*l*d:][:l*d], d, k, at, min(l, at+piece))
		}
	})
	for i := range batch * pieces {
		kernel.Add(dtaps, partial[i*k*d:][:k*d])
	}
}

package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The direct filters work on tiles: fewer rows, or gradients of fewer taps, than these are not worth a task.
const (
	firRows = 64
	firTaps = 16
)

// ShiftSSM runs the shift SSM of H3 (arXiv:2212.14052 §3.1) over a chunk x (b, l, d):
//
//	s[t] = shift(s[t-1]) + B x[t],   y[t] = C·s[t] + D x[t]
//
// with B, C of d·n elements (d, n), D (d). Over the chunk it is the causal filter h[i] = Σ_j B[j] C[i+j]. state (b, d, n)
// is the state before the chunk, nil for zero with none wanted after it; next is the state after it: state itself,
// updated in place, when the tape does not record.
func (eng *Engine) ShiftSSM(x, bw, cw, dw, state *tensor.Tensor) (y, next *tensor.Tensor) {
	batch, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	n := bw.Len() / d
	if l == 1 && state != nil && !eng.Recording {
		return eng.shiftStep(x, bw, cw, dw, state, n), state
	}
	m := min(n, l)
	taps := eng.arena.Floats(m * d)
	parallel.For(d, 16, func(lo, hi int) {
		f := kernel.ShiftFilter{B: bw.Data(), C: cw.Data(), D: d, N: n, M: m}
		f.Taps(taps, lo, hi)
	})
	y = eng.like(x)
	overPositions(batch, l, max(firRows, rowGrain(d*m)), func(b, lo, hi int) {
		kernel.FIR(y.Data()[b*l*d:], x.Data()[b*l*d:], taps, dw.Data(), d, m, lo, hi)
	})
	record := eng.wants(x, bw, cw, dw, state)
	if state != nil {
		next = state
		if eng.Recording {
			next = eng.like(state)
		}
		parallel.For(batch*d, rowGrain(n*min(n, l)), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				b, c := i/d, i%d
				k := kernel.ShiftCarry{
					B: bw.Data()[c*n:][:n], C: cw.Data()[c*n:][:n],
					S: state.Data()[i*n:][:n], X: x.Data()[b*l*d+c:], L: l, Step: d,
				}
				k.Run(next.Data()[i*n:][:n], y.Data()[b*l*d+c:])
			}
		})
	}
	if record {
		op := take[shiftOp](eng)
		*op = shiftOp{x: x, b: bw, c: cw, d: dw, state: state, y: y, next: next, taps: taps, n: n}
		eng.push(op)
	}
	return y, next
}

// shiftStep is ShiftSSM for one position, by the recurrence itself.
func (eng *Engine) shiftStep(x, bw, cw, dw, state *tensor.Tensor, n int) *tensor.Tensor {
	y := eng.like(x)
	batch, d := x.Dim(0), x.Dim(2)
	parallel.For(batch*d, d, func(lo, hi int) {
		for i := lo; i < hi; i += d {
			kernel.ShiftStep(state.Data()[i*n:], bw.Data(), cw.Data(), x.Data()[i:i+d], dw.Data(), y.Data()[i:], n)
		}
	})
	return y
}

type shiftOp struct {
	x, b, c, d, state, y, next *tensor.Tensor
	taps                       []float32 // (min(n, l), d)
	n                          int
}

func (o *shiftOp) Name() string { return "ShiftSSM" }

func (o *shiftOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.next != nil {
		f(o.next)
	}
}

func (o *shiftOp) Backward(eng *Engine) {
	batch, l, d, n := o.x.Dim(0), o.x.Dim(1), o.x.Dim(2), o.n
	m := len(o.taps) / d
	dy := o.y.Grad()
	if dy == nil { // only the state was used
		dy = eng.grad(o.y)
	}
	dx := eng.gradOf(o.x)
	if dx == nil { // not wanted, but what follows writes it
		dx = eng.scratch(o.x.Len())
		defer eng.done(dx)
	}
	dtaps := eng.scratch(m * d)
	defer eng.done(dtaps)
	x := o.x.Data()
	overPositions(batch, l, max(firRows, rowGrain(d*m)), func(b, lo, hi int) {
		kernel.FIRGrad(dx[b*l*d:], dy[b*l*d:], o.taps, o.d.Data(), d, m, l, lo, hi)
	})
	parallel.For(m, max(firTaps, rowGrain(batch*l*d)), func(lo, hi int) {
		for b := range batch {
			kernel.FIRTapsGrad(dtaps, dy[b*l*d:], x[b*l*d:], d, l, lo, hi)
		}
	})
	db, dc := eng.scratch(o.b.Len()), eng.scratch(o.c.Len())
	defer eng.done(db)
	defer eng.done(dc)
	dstate := eng.gradOf(o.state)
	parallel.For(d, 16, func(lo, hi int) {
		f := kernel.ShiftFilter{B: o.b.Data(), C: o.c.Data(), D: d, N: n, M: m}
		f.Grad(db, dc, dtaps, lo, hi)
		if o.state != nil {
			o.carryGrad(dstate, dx, db, dc, dy, lo, hi)
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

// carryGrad is the backward of the state's part, for the channels [lo, hi) of every sequence.
func (o *shiftOp) carryGrad(dstate, dx, db, dc, dy []float32, lo, hi int) {
	batch, l, d, n := o.x.Dim(0), o.x.Dim(1), o.x.Dim(2), o.n
	for b := range batch {
		for c := lo; c < hi; c++ {
			i, at := b*d+c, b*l*d+c
			var ds, dnext []float32
			if dstate != nil {
				ds = dstate[i*n:][:n]
			}
			if g := o.next.Grad(); g != nil {
				dnext = g[i*n:][:n]
			}
			k := kernel.ShiftCarry{
				B: o.b.Data()[c*n:][:n], C: o.c.Data()[c*n:][:n],
				S: o.state.Data()[i*n:][:n], X: o.x.Data()[at:], L: l, Step: d,
			}
			k.Grad(kernel.ShiftCarryGrads{B: db[c*n:][:n], C: dc[c*n:][:n], S: ds, X: dx[at:]}, dnext, dy[at:])
		}
	}
}

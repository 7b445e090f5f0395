package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Recurrence runs a recurrent network over u (b, l, n):
//
//	s[t] = f(u[t] + R s[t-1])
//
// with R (n, n) and f the tanh of the first tanhs components, the others being linear: y (b, l, n) has all s[t]. s0 (b, n) is the
// state before, nil for zeros; next is the one after, a copy of the last s[t], nil where s0 is.
func (eng *Engine) Recurrence(u, r, s0 *tensor.Tensor, tanhs int) (y, next *tensor.Tensor) {
	b, n := u.Dim(0), u.Dim(2)
	y = eng.like(u)
	op := recurrenceOp{u: u, r: r, s0: s0, y: y, tanhs: tanhs}
	op.forward(eng)
	if s0 != nil {
		op.next = s0
		if eng.Recording {
			op.next = eng.New(b, n)
		}
		for i := range b {
			copy(op.next.Data()[i*n:][:n], y.Data()[(i+1)*u.Dim(1)*n-n:])
		}
	}
	if eng.wants(u, r, s0) {
		o := take[recurrenceOp](eng)
		*o = op
		eng.push(o)
	}
	return y, op.next
}

type recurrenceOp struct {
	u, r, s0, y, next *tensor.Tensor
	tanhs             int
}

func (o *recurrenceOp) forward(eng *Engine) {
	b, l, n := o.u.Dim(0), o.u.Dim(1), o.u.Dim(2)
	u, y := o.u.Data(), o.y.Data()
	copy(y, u)
	for i := range l {
		switch {
		case i > 0:
			eng.precision().Gemm(kernel.Product{
				Op: kernel.NT, M: b, N: n, K: n, A: y[(i-1)*n:], LDA: l * n, B: o.r.Data(), LDB: n,
				C: y[i*n:], LDC: l * n, Add: true,
			})
		case o.s0 != nil:
			eng.precision().Gemm(kernel.Product{
				Op: kernel.NT, M: b, N: n, K: n, A: o.s0.Data(), LDA: n, B: o.r.Data(), LDB: n,
				C: y, LDC: l * n, Add: true,
			})
		}
		for s := range b {
			x := y[(s*l+i)*n:][:o.tanhs]
			kernel.FuncTanh.Into(x, x)
		}
	}
}

func (o *recurrenceOp) Name() string { return "Recurrence" }
func (o *recurrenceOp) Outputs(f func(*tensor.Tensor)) {
	f(o.y)
	if o.next != nil {
		f(o.next)
	}
}

// Backward turns the gradient of y, position by position from the last, into that of what f is applied to; that of R is one
// product for each sequence.
func (o *recurrenceOp) Backward(eng *Engine) {
	if o.y.Grad() == nil && (o.next == nil || o.next.Grad() == nil) {
		return
	}
	b, l, n := o.u.Dim(0), o.u.Dim(1), o.u.Dim(2)
	d, y := eng.grad(o.y), o.y.Data()
	if o.next != nil && o.next.Grad() != nil {
		for s := range b {
			kernel.Add(d[(s+1)*l*n-n:][:n], o.next.Grad()[s*n:][:n])
		}
	}
	for i := l - 1; i >= 0; i-- {
		for s := range b {
			tanhGrad(d[(s*l+i)*n:][:o.tanhs], y[(s*l+i)*n:])
		}
		if i > 0 {
			eng.precision().Gemm(kernel.Product{
				Op: kernel.NN, M: b, N: n, K: n, A: d[i*n:], LDA: l * n, B: o.r.Data(), LDB: n,
				C: d[(i-1)*n:], LDC: l * n, Add: true,
			})
		} else if ds := eng.gradOf(o.s0); ds != nil {
			eng.precision().Gemm(kernel.Product{
				Op: kernel.NN, M: b, N: n, K: n, A: d, LDA: l * n, B: o.r.Data(), LDB: n, C: ds, LDC: n, Add: true,
			})
		}
	}
	if dr := eng.gradOf(o.r); dr != nil {
		for s := range b {
			if l > 1 {
				eng.precision().Gemm(kernel.Product{
					Op: kernel.TN, M: n, N: n, K: l - 1, A: d[(s*l+1)*n:], LDA: n, B: y[s*l*n:], LDB: n,
					C: dr, LDC: n, Add: true,
				})
			}
		}
		if o.s0 != nil {
			eng.precision().Gemm(kernel.Product{
				Op: kernel.TN, M: n, N: n, K: b, A: d, LDA: l * n, B: o.s0.Data(), LDB: n, C: dr, LDC: n, Add: true,
			})
		}
	}
	if du := eng.gradOf(o.u); du != nil {
		parallel.For(len(d), grain, func(lo, hi int) { kernel.Add(du[lo:hi], d[lo:hi]) })
	}
}

// tanhGrad takes the gradient d of y = tanh(x) to that of x.
func tanhGrad(d, y []float32) {
	for i, v := range d {
		d[i] = v * (1 - y[i]*y[i])
	}
}

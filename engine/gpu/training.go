//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// into returns the address to which the gradient of a tensor is written, or added if add is set. It returns 0 if no
// gradient is wanted.
func (e *Engine) into(t *tensor.Tensor) (to uint64, add bool) {
	g, add, wanted := e.GradientInto(t)
	if !wanted {
		return 0, false
	}
	return e.take(g.(*buffer)), add
}

// plus returns the address to which the gradient of a tensor is added, or 0 if none is wanted.
func (e *Engine) plus(t *tensor.Tensor) uint64 {
	if g, wanted := e.GradientOf(t); wanted {
		return e.take(g.(*buffer))
	}
	return 0
}

// normGrad is the backward pass of norm: one launch for the rows, and two for the weights, whose gradients are sums
// over pieces of rows.
func (e *Engine) normGrad(x, r, w, b, s, y *tensor.Tensor, groups int, eps float64, centered int) {
	dy, grad := e.Grad(y), (*tensor.Tensor)(nil)
	if r != nil {
		grad = e.Grad(s)
	}
	if dy == nil {
		e.AddGrad(x, grad)
		e.AddGrad(r, grad)
		return
	}
	const each, byRow, byPiece, byColumn = 64, 0, 1, 2
	n, d := x.Rows()*groups, x.Dim(-1)/groups
	stats, wide, pieces := e.New(n, 2), d*groups, blocks(x.Rows(), each)
	launch := func(part uint32, moved, groups64 int, more func(a *args)) {
		a := new(args).address(e.address(dy), e.address(s), e.address(w), e.address(grad))
		more(a)
		e.run("norm_grad", a.work(4*moved, 10*x.Len()), groups64, part)
	}
	launch(byRow, 5*x.Len(), n, func(a *args) {
		dx, add := e.into(x)
		bits := 0
		if add {
			bits = 1
		}
		dr := uint64(0)
		if r != nil {
			if dr, add = e.into(r); add {
				bits |= 2
			}
		}
		a.address(dx, dr, e.address(stats), 0, 0, 0).int(n, d, groups, centered, bits).float(eps)
	})
	dw, db := e.plus(w), e.plus(b)
	if dw == 0 && db == 0 {
		return
	}
	sums := e.New(pieces, wide, 2)
	rest := func(a *args) {
		a.address(0, 0, e.address(stats), e.address(sums), dw, db).int(n, d, groups, centered, 0).float(eps)
	}
	launch(byPiece, 2*x.Len()+sums.Len(), blocks(pieces*wide, 256), rest)
	launch(byColumn, sums.Len()+4*wide, blocks(wide, 256), rest)
}

// filtered records a CausalConv of rows without states, whose output was launched.
func (e *Engine) filtered(x, w, bias, y *tensor.Tensor, a engine.Activation, r *engine.Rows) {
	e.Record("CausalConv", []*tensor.Tensor{y}, []*tensor.Tensor{x, w, bias}, func() {
		const each = 64 // positions of a piece
		d, k := x.Dim(-1), w.Len()/x.Dim(-1)
		var pieces []byte
		count := 0
		for i := range r.Count() {
			for at := 0; at < r.Len(i); at += each {
				pieces = numbers(pieces, r.From(i), r.Len(i), at, min(each, r.Len(i)-at))
				count++
			}
		}
		sums, more := e.New(count, k+1, d), 0
		dx, add := e.into(x)
		if add {
			more = 1
		}
		from := []uint64{e.address(e.Grad(y)), e.address(x), e.address(w), e.address(bias), dx, e.address(sums)}
		e.each("filter_grad", &rows{data: pieces, count: count}, from, blocks(d, 64), func(p *args) {
			p.int(d, count, int(a), more).work(4*(3*x.Len()+sums.Len()), 6*k*x.Len())
		}, uint32(k))
		sum := func(to *tensor.Tensor, at int, shape, into, along []int) {
			if g, wanted := e.GradientOf(to); wanted {
				e.c.Sum(engine.View{Of: g, Shape: shape, Stride: into},
					engine.View{Of: e.Memory(sums), At: at, Shape: shape, Stride: along})
			}
		}
		sum(w, 0, []int{d, k, count}, []int{k, 1, 0}, []int{1, d, (k + 1) * d})
		sum(bias, k*d, []int{d, count}, []int{1, 0}, []int{1, (k + 1) * d})
	})
}

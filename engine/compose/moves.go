package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// row returns row i of v (n, …).
func (v *val) row(r *engine.Rows, i int) *val { return v.slice(0, r.From(i), r.Len(i)) }

// each applies f to each row, and concatenates the results.
func (v *val) each(r *engine.Rows, f func(i int, x *val) *val) *val {
	parts := make([]*val, r.Count())
	for i := range parts {
		parts[i] = f(i, v.row(r, i))
	}
	return concat(0, parts...)
}

func (e *Engine) ins(xs []*tensor.Tensor) (all []*val) {
	for _, x := range xs {
		all = append(all, e.in(x))
	}
	return all
}

func (e *Engine) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor {
	return e.one("Append", func() *val {
		past := e.in(past).rows()
		return e.in(x).rows().each(r, func(i int, x *val) *val { return concat(0, past.row(p, i), x) })
	})
}

func (e *Engine) Join(xs ...*tensor.Tensor) *tensor.Tensor {
	return e.one("Join", func() *val { return concat(-1, e.ins(xs)...) })
}

func (e *Engine) Stack(xs ...*tensor.Tensor) *tensor.Tensor {
	return e.one("Stack", func() *val {
		all := e.ins(xs)
		for i, x := range all {
			all[i] = x.rows()
		}
		return concat(0, all...)
	})
}

func (e *Engine) Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	return e.compute("Split", func() (parts []*val) {
		x, at := e.in(x), 0
		for _, w := range widths {
			parts = append(parts, x.slice(-1, at, w))
			at += w
		}
		return parts
	})
}

func (e *Engine) Cut(x *tensor.Tensor, r *engine.Rows, at, n []int) *tensor.Tensor {
	return e.one("Cut", func() *val {
		return e.in(x).rows().each(r, func(i int, x *val) *val { return x.slice(0, at[i], n[i]) })
	})
}

func (e *Engine) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor {
	return e.one("Slice", func() *val { return e.in(x).rows().slice(0, at, n) })
}

func (e *Engine) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor {
	return e.one("Reverse", func() *val {
		return e.in(x).rows().each(r, func(i int, x *val) *val {
			n := max(0, r.Len(i)-lag)
			return x.slice(0, 0, n).reversed(0).pad(0, 0, r.Len(i)-n)
		}).as(x.Shape()...)
	})
}

func (e *Engine) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return e.one("MeanPositions", func() *val {
		return e.in(x).rows().each(r, func(i int, x *val) *val {
			return x.einsum("tc->c", nil).scale(1/float64(r.Len(i))).as(1, -1)
		})
	})
}

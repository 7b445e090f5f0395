//go:build gpu

package gpu

import "github.com/hippo-ssm/hippo/tensor"

func (e *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	return e.norm("AddLayerNorm", x, r, w, b, groups, eps, 1)
}

func (e *Engine) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	return e.norm("AddRMSNorm", x, r, w, nil, groups, eps, 0)
}

func (e *Engine) norm(name string, x, r, w, b *tensor.Tensor, groups int, eps float64,
	centered int) (s, y *tensor.Tensor) {
	s, y = x, e.like(x, x.Dim(-1))
	made := []*tensor.Tensor{y}
	if r != nil {
		s = e.like(x, x.Dim(-1))
		made = append(made, s)
	}
	n := x.Rows() * groups
	e.run("norm", new(args).address(e.address(y), e.address(s), e.address(x), e.address(r), e.address(w), e.address(b)).
		int(n, x.Dim(-1)/groups, groups, centered).float(eps).work(16*x.Len(), 4*x.Len()), n)
	e.Record(name, made, []*tensor.Tensor{x, r, w, b}, func() { e.normGrad(x, r, w, b, s, y, groups, eps, centered) })
	return s, y
}

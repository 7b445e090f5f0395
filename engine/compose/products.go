package compose

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// linear returns v wᵀ + bias.
func (v *val) linear(w, bias *val) *val {
	return v.rows().matmul("rk,nk->rn", w).addTo(bias).like(v)
}

func (e *Engine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.one("Linear", func() *val { return e.in(x).linear(e.in(w), e.in(bias)).act(a) })
}

func (e *Engine) LinearLowRank(x, w, bias *tensor.Tensor, c engine.LowRank, a engine.Activation) *tensor.Tensor {
	return e.one("LinearLowRank", func() *val {
		change := e.in(c.X).linear(e.in(c.Down), nil).linear(e.in(c.Up), nil).scale(c.Scale)
		return e.in(x).linear(e.in(w), e.in(bias)).add(change).act(a)
	})
}

func (e *Engine) BlockLinear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return e.one("BlockLinear", func() *val {
		x, w := e.in(x), e.in(w)
		y := x.as(-1, w.dim(0), w.dim(1)).matmul("rhk,hkn->rhn", w).add(e.in(bias).as(w.dim(0), -1))
		return y.as(-1, w.dim(0)*w.dim(2)).like(x).act(a)
	})
}

func (e *Engine) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor {
	return e.one("Embedding", func() *val { return e.in(w).gather(ids) })
}

// norm returns v divided by the root of its mean square plus eps, along the last axis.
func (v *val) norm(eps float64) *val { return v.mul(v.mul(v).mean().plus(eps).sqrt().recip()) }

// addNorm is an operation that adds r to x and then normalizes the sum. If r is nil, the sum is x itself.
func (e *Engine) addNorm(name string, x, r *tensor.Tensor, norm func(s *val) *val) (s, y *tensor.Tensor) {
	all := e.compute(name, func() []*val {
		if r == nil {
			return []*val{norm(e.in(x))}
		}
		sum := e.in(x).add(e.in(r))
		return []*val{norm(sum), sum}
	})
	return append(all, x)[1], all[0]
}

func (e *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	return e.addNorm("AddLayerNorm", x, r, func(s *val) *val {
		each := s.as(-1, s.dim(-1)/groups)
		return each.sub(each.mean()).norm(eps).as(s.shape...).mul(e.in(w).flat()).add(e.in(b).flat())
	})
}

func (e *Engine) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	return e.addNorm("AddRMSNorm", x, r, func(s *val) *val {
		return s.as(-1, s.dim(-1)/groups).norm(eps).as(s.shape...).mul(e.in(w).flat())
	})
}

// crossEntropy returns the loss of the logits that f computes from those rows of x that have a target.
func (e *Engine) crossEntropy(x *val, targets []int32, f func(x *val) *val) *val {
	var rows, known []int32
	for r, target := range targets {
		if target != engine.Ignore {
			rows, known = append(rows, int32(r)), append(known, target)
		}
	}
	if len(rows) == 0 {
		return e.full(0, 1)
	}
	if x = x.rows(); len(rows) < len(targets) {
		x = x.gather(rows)
	}
	return f(x).losses(known).as(1, -1).mean().flat()
}

func (e *Engine) CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor {
	return e.one("CrossEntropy", func() *val {
		return e.crossEntropy(e.in(x), targets, func(x *val) *val { return x })
	})
}

func (e *Engine) LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor {
	return e.one("LinearCrossEntropy", func() *val {
		return e.crossEntropy(e.in(x), targets, func(x *val) *val { return x.linear(e.in(w), nil) })
	})
}

// known returns the targets that are not NaN, as (n, 1), and the rows of x (…, 1 or more) that belong to them.
func (e *Engine) known(x *val, target []float32) (rows, targets *val) {
	var places []int32
	var values []float32
	for i, y := range target {
		if y == y {
			places, values = append(places, int32(i)), append(values, y)
		}
	}
	return x.as(len(target), -1).gather(places), e.upload(values, len(values), 1)
}

func (e *Engine) SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor {
	return e.one("SquaredError", func() *val {
		x, target := e.known(e.in(x), target)
		d := x.sub(target)
		return d.mul(d).as(1, -1).mean().flat()
	})
}

func (e *Engine) Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor {
	return e.one("Pinball", func() *val {
		x, target := e.known(e.in(x), target)
		u, level := target.sub(x), e.upload(levels, len(levels))
		return u.mul(level.plus(-1)).where(u.lessThan(0), u.mul(level)).as(1, -1).mean().flat()
	})
}

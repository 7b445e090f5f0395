//go:build gpu

package gpu

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// AdamW is a launch for each parameter.
func (b *Backend) AdamW(params []*tensor.Tensor, moments []engine.Moments, grads []*tensor.Tensor, s engine.AdamWStep) {
	c := b.core
	for k, o := range moments {
		p, m, v, g := b.there(params[k]), b.there(o.M), b.there(o.V), b.there(grads[k])
		if p == nil || m == nil || v == nil || g == nil {
			b.Backend.AdamW(params[k:k+1], moments[k:k+1], grads[k:k+1], s)
			continue
		}
		lr := o.LR * s.Factor
		c.mu.Lock()
		c.launch("adamw", new(args).address(p.at.address(), m.at.address(), v.at.address(), g.at.address()).int(p.n).
			float(s.GradScale, s.Beta1, 1-s.Beta1, s.Beta2, 1-s.Beta2).
			float(1-lr*o.Decay, lr/s.Correct1, 1/s.Correct2, s.Eps).work(32*p.n, 0), blocks(p.n, 256))
		c.mu.Unlock()
	}
}

// there is the memory of a tensor that is on the device, nil for others.
func (b *Backend) there(x *tensor.Tensor) *buffer {
	if m, ok := x.Storage().(*buffer); ok && m.c == b.core {
		return m
	}
	return nil
}

// pieces is how many numbers of a sum a thread adds up.
const pieces = 256

// Norm adds up squares in pieces, then pieces in larger ones: one thread alone would take long.
func (b *Backend) Norm(xs []*tensor.Tensor) float64 {
	total := b.core.New(len(xs))
	defer b.core.Free(total)
	b.core.Fill(flat(total, len(xs)), 0)
	for i, x := range xs {
		m := b.there(x)
		if m == nil {
			return b.Backend.Norm(xs)
		}
		b.sum(engine.View{Of: total, At: i, Shape: []int{1}, Stride: []int{1}}, m, m.n, b.core.Dot)
	}
	all := b.core.New(1)
	defer b.core.Free(all)
	b.core.Fill(flat(all, 1), 0)
	b.sum(flat(all, 1), total, len(xs), func(to, x, _ engine.View) { b.core.Sum(to, x) })
	var sum [1]float32
	all.Read(sum[:])
	return math.Sqrt(float64(sum[0]))
}

// sum adds n numbers of a buffer, or their squares if add is Dot, to an element.
func (b *Backend) sum(to engine.View, x engine.Buffer, n int, add func(to, x, y engine.View)) {
	view := func(of engine.Buffer, at, rows, stride, n, one int) engine.View {
		return engine.View{Of: of, At: at, Shape: []int{rows, n}, Stride: []int{stride, one}}
	}
	rows, done := n/pieces, 0
	if rows > 1 {
		parts := b.core.New(rows)
		defer b.core.Free(parts)
		b.core.Fill(flat(parts, rows), 0)
		all := view(x, 0, rows, pieces, pieces, 1)
		add(view(parts, 0, rows, 1, pieces, 0), all, all)
		b.sum(to, parts, rows, func(to, x, _ engine.View) { b.core.Sum(to, x) })
		done = rows * pieces
		n -= done
	}
	if n > 0 {
		rest := view(x, done, 1, n, n, 1)
		add(view(to.Of, to.At, 1, 1, n, 0), rest, rest)
	}
}

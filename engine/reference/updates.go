package reference

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Norm returns √Σx².
func (Backend) Norm(xs []*tensor.Tensor) float64 {
	sum := 0.0
	for _, x := range xs {
		for _, v := range read(x) {
			sum += v * v
		}
	}
	return math.Sqrt(sum)
}

// AdamW updates parameters by the definition in engine.Updates.
func (Backend) AdamW(params []*tensor.Tensor, moments []engine.Moments, grads []*tensor.Tensor, s engine.AdamWStep) {
	for k, o := range moments {
		p, m, v, g := read(params[k]), read(o.M), read(o.V), read(grads[k])
		lr := o.LR * s.Factor
		for i := range p {
			g := g[i] * s.GradScale
			m[i] = s.Beta1*m[i] + (1-s.Beta1)*g
			v[i] = s.Beta2*v[i] + (1-s.Beta2)*g*g
			p[i] = p[i]*(1-lr*o.Decay) - lr*(m[i]/s.Correct1)/(math.Sqrt(v[i]/s.Correct2)+s.Eps)
		}
		write(params[k], p)
		write(o.M, m)
		write(o.V, v)
		grads[k].Zero()
	}
}

// Sum sets dst to dst + src, and src to zero.
func (Backend) Sum(dst, src []*tensor.Tensor) {
	for k, x := range src {
		sum := read(dst[k])
		for i, v := range read(x) {
			sum[i] += v
		}
		write(dst[k], sum)
		x.Zero()
	}
}

// Average sets each average a to a + share·(x - a).
func (Backend) Average(averages, xs []*tensor.Tensor, share float32) {
	for k, x := range xs {
		a := read(averages[k])
		for i, v := range read(x) {
			a[i] += float64(share) * (v - a[i])
		}
		write(averages[k], a)
	}
}

// Swap exchanges a and b.
func (Backend) Swap(a, b []*tensor.Tensor) {
	for k := range a {
		x, y := append([]float64(nil), read(a[k])...), read(b[k])
		write(a[k], y)
		write(b[k], x)
	}
}

// write sets the elements of a tensor, rounded if it holds float32.
func write(x *tensor.Tensor, values []float64) {
	if n, ok := x.Storage().(*numbers); ok {
		copy(n.x, values)
		return
	}
	rounded := make([]float32, len(values))
	for i, v := range values {
		rounded[i] = float32(v)
	}
	x.CopyFrom(rounded)
}

package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Route chooses experts for each position and weighs them. With z the scores of a position:
//
//	s = softmax(z) or σ(z),   w_e = Scale·s_e/N for the chosen e, else 0,   N = Eps + Σ_chosen s, or 1
//
// Backward, with ds = 0 for experts that are not chosen, and c = Σ_chosen dw·s/N, or 0 where N is 1:
//
//	ds_e = Scale·(dw_e - c)/N,   dz_e = s_e·(ds_e - Σ s·ds) for the softmax, s_e·(1 - s_e)·ds_e for sigmoids
func (eng *Engine) Route(scores, bias *tensor.Tensor, by engine.Routing) *tensor.Tensor {
	y := eng.like(scores)
	e, zs, ys := scores.Dim(-1), eng.values(scores), eng.values(y)
	b := eng.start(bias, e)
	s, chosen := make([]float64, len(zs)), make([]bool, len(zs))
	sums := make([]float64, scores.Rows()) // N
	for r := range sums {
		in, out, choice := zs[r*e:][:e], s[r*e:][:e], chosen[r*e:][:e]
		keys := make([]float64, e)
		copy(out, in)
		if by.Sigmoid {
			for i, v := range in {
				out[i] = sigmoid(v)
			}
		} else {
			softmax(out)
		}
		for i, v := range out {
			keys[i] = v + b[i]
		}
		engine.Choose(by, keys, choice)
		sums[r] = 1
		if by.Normalize {
			sums[r] = by.Eps + sumOver(choice, out, nil)
		}
		for i, ok := range choice {
			if ok {
				ys[r*e+i] = by.Scale * out[i] / sums[r]
			}
		}
	}
	eng.record("Route", list{y}, list{scores}, func() {
		dz, dy := eng.gradOf(scores), eng.gradOf(y)
		for r, N := range sums {
			s, dw, choice := s[r*e:][:e], dy[r*e:][:e], chosen[r*e:][:e]
			c := 0.0
			if by.Normalize {
				c = sumOver(choice, s, dw) / N
			}
			ds := make([]float64, e)
			for i, ok := range choice {
				if ok {
					ds[i] = by.Scale * (dw[i] - c) / N
				}
			}
			mean := dot(s, ds)
			for i := range ds {
				if by.Sigmoid {
					dz[r*e+i] += s[i] * (1 - s[i]) * ds[i]
				} else {
					dz[r*e+i] += s[i] * (ds[i] - mean)
				}
			}
		}
	})
	return y
}

// sumOver returns the sum over the chosen experts of x, or of x ⊙ y unless y is nil.
func sumOver(chosen []bool, x, y []float64) (sum float64) {
	for i, ok := range chosen {
		switch {
		case ok && y == nil:
			sum += x[i]
		case ok:
			sum += x[i] * y[i]
		}
	}
	return sum
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Route chooses experts for each position and weighs them.
func (eng *Engine) Route(scores, bias *tensor.Tensor, by engine.Routing) *tensor.Tensor {
	y := eng.like(scores)
	e := scores.Dim(-1)
	parallel.For(scores.Rows(), rowGrain(e*by.TopK), func(lo, hi int) {
		buf, chosen := getFloats(2*e), make([]bool, e)
		defer putFloats(buf)
		s, keys := (*buf)[:e], (*buf)[e:]
		for r := lo; r < hi; r++ {
			routeScores(by, s, scores.Data()[r*e:][:e])
			copy(keys, s)
			if bias != nil {
				kernel.Add(keys, bias.Data())
			}
			engine.Choose(by, keys, chosen)
			scale := float32(by.Scale)
			if by.Normalize {
				sum := float32(by.Eps)
				for i, ok := range chosen {
					if ok {
						sum += s[i]
					}
				}
				scale /= sum
			}
			row := y.Data()[r*e:][:e]
			for i, ok := range chosen {
				row[i] = 0
				if ok {
					row[i] = scale * s[i]
				}
			}
		}
	})
	record(eng, "Route", routeOp{scores: scores, y: y, by: by}, y, scores)
	return y
}

// routeScores sets s to the softmax of z, or to its sigmoids.
func routeScores(by engine.Routing, s, z []float32) {
	if by.Sigmoid {
		kernel.FuncSigmoid.Into(s, z)
		return
	}
	copy(s, z)
	kernel.Softmax(s, 1)
}

type routeOp struct {
	scores, y *tensor.Tensor
	by        engine.Routing
}

// Backward recognizes the chosen experts by their weights. An expert whose weight is so small that it is zero has no
// gradient, chosen or not.
func (o *routeOp) Backward(eng *Engine) {
	dz, dy := eng.gradOf(o.scores), o.y.Grad()
	if dz == nil {
		return
	}
	e := o.y.Dim(-1)
	parallel.For(o.y.Rows(), rowGrain(8*e), func(lo, hi int) {
		buf := getFloats(2 * e)
		defer putFloats(buf)
		s, ds := (*buf)[:e], (*buf)[e:]
		for r := lo; r < hi; r++ {
			routeScores(o.by, s, o.scores.Data()[r*e:][:e])
			o.back(ds, s, o.y.Data()[r*e:][:e], dy[r*e:][:e])
			mean := float32(0)
			if !o.by.Sigmoid {
				for i, v := range s {
					mean += v * ds[i]
				}
			}
			for i, v := range s {
				if o.by.Sigmoid {
					mean = v * ds[i] // σ' = σ(1 - σ)
				}
				dz[r*e+i] += v * (ds[i] - mean)
			}
		}
	})
}

// back sets ds to the gradient of the scores s of a position, given the gradient dw of the weights w.
func (o *routeOp) back(ds, s, w, dw []float32) {
	scale, mean := float32(o.by.Scale), float32(0)
	if o.by.Normalize {
		sum := float32(o.by.Eps)
		for i, v := range w {
			if v != 0 {
				sum += s[i]
				mean += dw[i] * s[i]
			}
		}
		scale, mean = scale/sum, mean/sum
	}
	for i, v := range w {
		ds[i] = 0
		if v != 0 {
			ds[i] = scale * (dw[i] - mean)
		}
	}
}

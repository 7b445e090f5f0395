package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CrossEntropy is the mean of -log p over the N rows r of logits x (…, v) that have a target, or 0 if none has. p is
// the probability that the softmax gives to the target:
//
//	p[r, i] = e^x[r, i]/Σ_j e^x[r, j],   loss = -Σ_r log p[r, target[r]]/N
//	dx[r, i] = (p[r, i] - [i = target[r]])/N·dloss
func (eng *Engine) CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor {
	v := x.Dim(-1)
	targets = slices.Clone(targets) // backward reads them later
	loss := eng.New(1)
	xs, ps := eng.values(x), make([]float64, x.Len())
	count, sum := 0.0, 0.0
	for r, target := range targets {
		if target == engine.Ignore {
			continue
		}
		top, total := math.Inf(-1), 0.0 // subtracted, so that no exponential is too large
		for _, logit := range xs[r*v:][:v] {
			top = math.Max(top, logit)
		}
		for _, logit := range xs[r*v:][:v] {
			total += math.Exp(logit - top)
		}
		for i, logit := range xs[r*v:][:v] {
			ps[r*v+i] = math.Exp(logit-top) / total
		}
		sum += math.Log(total) - (xs[r*v+int(target)] - top)
		count++
	}
	if count > 0 {
		eng.values(loss)[0] = sum / count
	}
	eng.record("CrossEntropy", list{loss}, list{x}, func() {
		dx, dloss := eng.gradOf(x), eng.gradOf(loss)[0]
		for r, target := range targets {
			if target == engine.Ignore {
				continue
			}
			for i := range v {
				dx[r*v+i] += ps[r*v+i] / count * dloss
			}
			dx[r*v+int(target)] -= dloss / count
		}
	})
	return loss
}

// LinearCrossEntropy is the head of a language model and its loss, computed as two operations:
//
//	loss = CrossEntropy(x Wᵀ, targets)
func (eng *Engine) LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor {
	return eng.CrossEntropy(eng.Linear(x, w, nil, engine.None), targets)
}

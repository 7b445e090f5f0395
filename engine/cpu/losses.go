package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CrossEntropy saves the log-sum-exp of each row for backward.
func (eng *Engine) CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor {
	rows, v := x.Rows(), x.Dim(-1)
	op := take[logitsLossOp](eng)
	*op = logitsLossOp{x: x, loss: eng.New(1), lse: eng.arena.Floats(rows), count: countTargets(targets),
		targets: append(op.targets[:0], targets...)}
	xd := x.Data()
	sum := parallel.Sum(rows, rowGrain(v), func(lo, hi int) float64 {
		part := 0.0
		for r := lo; r < hi; r++ {
			if id := targets[r]; id != engine.Ignore {
				row := xd[r*v:][:v]
				op.lse[r] = kernel.LogSumExp(row)
				part += float64(op.lse[r]) - float64(row[id])
			}
		}
		return part
	})
	op.loss.Data()[0] = float32(sum / float64(max(1, op.count)))
	if eng.wants(x) {
		eng.push("CrossEntropy", op, op.loss)
	}
	return op.loss
}

type logitsLossOp struct {
	x, loss *tensor.Tensor
	lse     []float32
	targets []int32
	count   int
}

func (o *logitsLossOp) Backward(eng *Engine) {
	dx := eng.gradOf(o.x)
	if dx == nil || o.count == 0 {
		return
	}
	v, scale := o.x.Dim(-1), o.loss.Grad()[0]/float32(o.count)
	xd, row := o.x.Data(), eng.scratch(o.x.Len())
	parallel.For(len(o.targets), rowGrain(v), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			if id := o.targets[r]; id != engine.Ignore {
				g := row[r*v:][:v]
				copy(g, xd[r*v:])
				kernel.CrossEntropyGrad(g, o.lse[r], int(id), scale)
				kernel.Add(dx[r*v:][:v], g)
			}
		}
	})
	eng.done(row)
}

// SquaredError sums in float64.
func (eng *Engine) SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor {
	xd := x.Data()
	return eng.numbersLoss("SquaredError", x, 2, engine.CountNumbers(target), len(target), grain,
		func(lo, hi int, slope []float32) float64 {
			d := slope[lo:hi]
			for i := range d {
				d[i] = xd[lo+i] - target[lo+i]
				if target[lo+i] != target[lo+i] { // NaN
					d[i] = 0
				}
			}
			return kernel.SumSquares(d)
		})
}

// Pinball sums in float64.
func (eng *Engine) Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor {
	xd, q := x.Data(), len(levels)
	return eng.numbersLoss("Pinball", x, 1, q*engine.CountNumbers(target), len(target), rowGrain(q),
		func(lo, hi int, slope []float32) float64 {
			part := 0.0
			for i := lo; i < hi; i++ {
				missing := target[i] != target[i] // NaN
				for k, level := range levels {
					j := i*q + k
					d := target[i] - xd[j]
					switch {
					case missing:
						slope[j] = 0
					case d >= 0:
						slope[j] = -level
						part += float64(level) * float64(d)
					default:
						slope[j] = 1 - level
						part += float64(level-1) * float64(d)
					}
				}
			}
			return part
		})
}

// numbersLoss returns the mean over count numbers of a loss that is a sum over n targets. sum sums the loss of targets
// lo to hi, and sets the slopes of their elements of x, divided by scale, which are saved for backward.
func (eng *Engine) numbersLoss(name string, x *tensor.Tensor, scale float32, count, n, grain int,
	sum func(lo, hi int, slope []float32) float64) *tensor.Tensor {
	op := take[numbersLossOp](eng)
	*op = numbersLossOp{x: x, loss: eng.New(1), slope: eng.arena.Floats(x.Len()), scale: scale,
		count: max(1, count)}
	total := parallel.Sum(n, grain, func(lo, hi int) float64 { return sum(lo, hi, op.slope) })
	op.loss.Data()[0] = float32(total / float64(op.count))
	if eng.wants(x) {
		eng.push(name, op, op.loss)
	}
	return op.loss
}

type numbersLossOp struct {
	x, loss *tensor.Tensor
	slope   []float32
	scale   float32
	count   int
}

func (o *numbersLossOp) Backward(eng *Engine) {
	eng.addScaled(o.x, o.slope, o.scale*o.loss.Grad()[0]/float32(o.count))
}

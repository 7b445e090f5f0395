package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The fused loss computes logits for as many rows at a time as fit logitsBudget, but for at least logitsRows, with
// which products still run at nearly full speed. If that is all rows, the logits are saved for backward. Otherwise
// gradients are computed in forward, while the logits of some rows are in memory, up to the factor that backward
// provides. That needs memory of the size of the weights, unless they are frozen; computing the logits twice would take
// a third more time. If all logits need no more memory than that, they are kept as well: then each product is a single
// one, which packs the weights into panels once and passes over their gradient once.
const (
	logitsBudget = 1 << 21
	logitsRows   = 256
)

// LinearCrossEntropy computes logits for some rows at a time, as the comment above says.
func (eng *Engine) LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor {
	rows, d, v := x.Rows(), x.Dim(-1), w.Dim(0)
	count := countTargets(targets)
	record := eng.wants(x, w)
	atOnce := lossRows(rows, v)
	if record {
		atOnce, _ = recordedLoss(rows, d, v, !eng.wanted(w))
	}
	op := take[crossEntropyOp](eng)
	*op = crossEntropyOp{x: x, w: w, loss: eng.New(1), logits: eng.arena.Floats(atOnce * v),
		lse: eng.arena.Floats(rows), count: count, targets: append(op.targets[:0], targets...)}
	logits, lse := op.logits, op.lse
	if record {
		op.inForward = atOnce < rows
	}
	op.reserve(eng)
	sum := 0.0
	for r0 := 0; r0 < rows; r0 += atOnce {
		r1 := min(rows, r0+atOnce)
		eng.product(r1-r0, x.Data()[r0*d:], w, logits, nil)
		sum += parallel.Sum(r1-r0, rowGrain(v), func(lo, hi int) float64 {
			part := 0.0
			for r := lo; r < hi; r++ {
				row := logits[r*v:][:v]
				lse[r0+r] = kernel.LogSumExp(row)
				if id := targets[r0+r]; id != engine.Ignore {
					part += float64(lse[r0+r]) - float64(row[id])
				}
			}
			return part
		})
		if op.inForward {
			op.logitGrads(r0, r1, 1/float32(max(1, count)))
			op.products(eng, r0, r1, op.dx, op.dw, false, r0 > 0)
		}
	}
	op.loss.Data()[0] = float32(sum / float64(max(1, count)))
	if record {
		eng.push("LinearCrossEntropy", op, op.loss)
	}
	return op.loss
}

// countTargets returns the number of rows that have a target.
func countTargets(targets []int32) (count int) {
	for _, id := range targets {
		if id != engine.Ignore {
			count++
		}
	}
	return count
}

// lossRows returns the number of rows whose logits are in memory at a time.
func lossRows(rows, v int) int { return min(rows, max(logitsRows, logitsBudget/v)) }

// recordedLoss returns lossRows while a tape records, for x (rows, d) and W (v, d), and the number of floats that are
// kept.
func recordedLoss(rows, d, v int, frozen bool) (atOnce, floats int) {
	atOnce = lossRows(rows, v)
	floats = atOnce*v + rows*d
	if !frozen {
		floats += v * d
	}
	if rows*v <= floats {
		atOnce, floats = rows, rows*v
	}
	return atOnce, floats + rows
}

// LossMemory returns the number of floats that LinearCrossEntropy of x (rows, d) and W (v, d), perhaps frozen, keeps
// while a tape records.
func (Backend) LossMemory(rows, d, v int, frozen bool) int {
	_, floats := recordedLoss(rows, d, v, frozen)
	return floats
}

type crossEntropyOp struct {
	x, w, loss  *tensor.Tensor
	targets     []int32
	logits, lse []float32
	count       int
	inForward   bool      // the gradients are computed in forward
	dx, dw      []float32 // the gradients for a factor of 1, nil if they are not wanted
}

// reserve makes space for gradients that are computed in forward.
func (o *crossEntropyOp) reserve(eng *Engine) {
	if !o.inForward {
		return
	}
	if eng.wanted(o.x) {
		o.dx = eng.arena.Floats(o.x.Len())
	}
	if eng.wanted(o.w) {
		o.dw = eng.arena.Floats(o.w.Len())
	}
}

// logitGrads replaces the logits of the rows [r0, r1) by their gradients times scale.
func (o *crossEntropyOp) logitGrads(r0, r1 int, scale float32) {
	v := o.w.Dim(0)
	parallel.For(r1-r0, rowGrain(v), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := o.logits[r*v:][:v]
			if id := o.targets[r0+r]; id == engine.Ignore {
				clear(row)
			} else {
				kernel.CrossEntropyGrad(row, o.lse[r0+r], int(id), scale)
			}
		}
	})
}

// products computes dx and dw from the gradients of the logits of the rows [r0, r1). Each is nil if it is not wanted.
func (o *crossEntropyOp) products(eng *Engine, r0, r1 int, dx, dw []float32, addX, addW bool) {
	d, v := o.x.Dim(-1), o.w.Dim(0)
	if dx != nil {
		eng.productBack(r1-r0, o.logits, o.w, dx[r0*d:], addX)
	}
	if dw != nil {
		eng.precision().Gemm(kernel.Product{
			Op: kernel.TN, M: v, N: d, K: r1 - r0, A: o.logits, LDA: v, B: o.x.Data()[r0*d:], LDB: d,
			C: dw, LDC: d, Add: addW,
		})
	}
}

func (o *crossEntropyOp) Backward(eng *Engine) {
	if o.count == 0 {
		return
	}
	scale := o.loss.Grad()[0]
	if o.inForward {
		eng.addScaled(o.x, o.dx, scale)
		eng.addScaled(o.w, o.dw, scale)
		return
	}
	rows := o.x.Rows()
	o.logitGrads(0, rows, scale/float32(o.count))
	dx, addX := eng.gradTo(o.x)
	o.products(eng, 0, rows, dx, eng.gradOf(o.w), addX, true)
}

// addScaled adds a·dy to x's gradient, if one is wanted.
func (eng *Engine) addScaled(x *tensor.Tensor, dy []float32, a float32) {
	g := eng.gradOf(x)
	parallel.For(len(g), grain, func(lo, hi int) { kernel.Axpy(a, dy[lo:hi], g[lo:hi]) })
}

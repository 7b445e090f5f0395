package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Embedding copies rows of w.
func (eng *Engine) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor {
	d := w.Dim(1)
	y := eng.New(len(ids), d)
	packed, isPacked := w.Packed().(packedWeight)
	for i := 0; i < len(ids); {
		n := 1
		for i+n < len(ids) && ids[i+n] == ids[i]+int32(n) {
			n++
		}
		if rows := y.Data()[i*d:][:n*d]; isPacked {
			packed.Rows(rows, int(ids[i]), n)
		} else {
			copy(rows, w.Data()[int(ids[i])*d:])
		}
		i += n
	}
	if eng.wants(w) {
		op := take[embeddingOp](eng)
		*op = embeddingOp{w: w, y: y, ids: append(op.ids[:0], ids...)}
		eng.push("Embedding", op, y)
	}
	return y
}

type embeddingOp struct {
	w, y *tensor.Tensor
	ids  []int32
}

// Backward distributes columns, not positions, over the cores, because several positions may have the same id.
func (o *embeddingOp) Backward(eng *Engine) {
	dw, dy := eng.gradOf(o.w), o.y.Grad()
	if dw == nil {
		return
	}
	d := o.w.Dim(1)
	parallel.For(d, max(16, d/8), func(lo, hi int) {
		for i, id := range o.ids {
			kernel.Add(dw[int(id)*d+lo:int(id)*d+hi], dy[i*d+lo:i*d+hi])
		}
	})
}

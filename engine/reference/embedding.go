package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/tensor"
)

// Embedding looks up rows of W (v, d). It is a move, see there:
//
//	y[i, c] = W[ids[i], c]
//	dW[v, c] = Σ_{i: ids[i]=v} dy[i, c]
func (eng *Engine) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor {
	d := w.Dim(1)
	ids = slices.Clone(ids) // backward reads them later
	return eng.move("Embedding", eng.New(len(ids), d), w, func(i int) int { return int(ids[i/d])*d + i%d })
}

//go:build todo

package cpu

import (
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Tape is the least tape that tests of what lies inside this engine need; package autograd has the real one.
type Tape struct {
	*Engine
	step engine.Step
	ops  []engine.Op
}

// NewTape returns an empty tape that does not record.
func NewTape() *Tape {
	t := &Tape{}
	t.step.Push = func(op engine.Op) { t.ops = append(t.ops, op) }
	t.Engine = New(&t.step)
	return t
}

// Record switches recording on or off.
func (t *Tape) Record(on bool) { t.step.Recording = on }

// Train switches dropout on.
func (t *Tape) Train(rng *rand.Rand) { t.step.Seed = rng.Uint64 }

// SetPrecision sets that of products.
func (t *Tape) SetPrecision(p engine.Precision) { t.step.Precision = p }

// Dropout draws its seed from the tape's generator.
func (t *Tape) Dropout(x *tensor.Tensor, p float64) *tensor.Tensor {
	return t.Engine.Dropout(x, p, t.step.Seed())
}

// Attention draws its seed from the tape's generator where it trains.
func (t *Tape) Attention(qkv *tensor.Tensor, cache *engine.KVCache, o engine.AttentionOptions) *tensor.Tensor {
	var drop uint64
	if t.step.Seed != nil {
		drop = t.step.Seed()
	}
	return t.Engine.Attention(qkv, cache, o, drop)
}

// LongConv is GatedLongConv without gates.
func (t *Tape) LongConv(u, k, skip *tensor.Tensor) *tensor.Tensor { return t.longConv(u, k, skip) }

// LastPosition picks the last position of every sequence.
func (t *Tape) LastPosition(x *tensor.Tensor) *tensor.Tensor { return t.Positions(x, x.Dim(1)-1, 1) }

// RMSNorm is AddRMSNorm without a residual.
func (t *Tape) RMSNorm(x, w *tensor.Tensor, groups int, eps float64) *tensor.Tensor {
	_, y := t.AddRMSNorm(x, nil, w, groups, eps)
	return y
}

// Seed adds dy to the gradient of y.
func (t *Tape) Seed(y *tensor.Tensor, dy []float32) { t.AddGrad(y, dy) }

// Backward goes back from a scalar.
func (t *Tape) Backward(loss *tensor.Tensor) {
	t.Seed(loss, []float32{1})
	t.BackwardSeeded()
}

// BackwardFrom goes back from y.
func (t *Tape) BackwardFrom(y *tensor.Tensor, dy []float32) {
	t.Seed(y, dy)
	t.BackwardSeeded()
}

// BackwardSeeded goes back from what has been seeded.
func (t *Tape) BackwardSeeded() {
	for i := len(t.ops) - 1; i >= 0; i-- {
		t.Engine.Backward(t.ops[i])
		t.ops[i].Outputs(t.DropGrad)
	}
	t.ops = t.ops[:0]
}

// Reset forgets all.
func (t *Tape) Reset() {
	for _, op := range t.ops {
		op.Outputs(t.DropGrad)
	}
	t.ops = t.ops[:0]
	t.Engine.Reset()
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Tape is a minimal tape for tests of the internals of this engine; package autograd has the real one.
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

// SetPrecision sets the precision of products.
func (t *Tape) SetPrecision(p engine.Precision) { t.step.Precision = p }

// RMSNorm is AddRMSNorm without a residual.
func (t *Tape) RMSNorm(x, w *tensor.Tensor, groups int, eps float64) *tensor.Tensor {
	_, y := t.AddRMSNorm(x, nil, w, groups, eps)
	return y
}

// Seed adds dy to the gradient of y.
func (t *Tape) Seed(y *tensor.Tensor, dy []float32) { t.AddGrad(y, tensor.FromSlice(dy, y.Shape()...)) }

// Grad copies the gradient of x to dst, and reports whether there is one.
func (t *Tape) Grad(x *tensor.Tensor, dst []float32) bool {
	g := t.Engine.Grad(x)
	return g != nil && g.CopyTo(dst) > 0
}

// Backward runs backward from a scalar.
func (t *Tape) Backward(loss *tensor.Tensor) {
	t.Seed(loss, []float32{1})
	t.BackwardSeeded()
}

// BackwardFrom runs backward from y.
func (t *Tape) BackwardFrom(y *tensor.Tensor, dy []float32) {
	t.Seed(y, dy)
	t.BackwardSeeded()
}

// BackwardSeeded runs backward from the seeded gradients.
func (t *Tape) BackwardSeeded() {
	for i := len(t.ops) - 1; i >= 0; i-- {
		t.Engine.Backward(t.ops[i])
		t.ops[i].Outputs(t.DropGrad)
	}
	t.ops = t.ops[:0]
}

// Reset forgets all operations.
func (t *Tape) Reset() {
	for _, op := range t.ops {
		op.Outputs(t.DropGrad)
	}
	t.ops = t.ops[:0]
	t.Engine.Reset()
}

// LongConv is GatedLongConv without gates.
func (t *Tape) LongConv(u, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return t.GatedLongConv(engine.Gates{V: u}, k, skip, r)
}

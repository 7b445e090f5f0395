// Package autograd provides an eager tape of typed operations. A method of Tape documents an operation's contract
// (formula, shapes, source), checks shapes, and calls an engine, which computes at once. The tape stores what the
// engine records, in order. Backward runs it in reverse: each operation ADDS to the gradients of its inputs.
//
// Wrong shapes are programming errors. They panic with the operation's name and the shapes. Nothing else can fail.
package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Tape records the operations of one step. A Tape is for one goroutine; its engine uses all cores. The zero value is
// not ready for use: see NewTape.
type Tape struct {
	backend engine.Backend
	open    func(step *engine.Step) engine.Engine
	engine  engine.Engine
	step    engine.Step
	ops     []engine.Op
	scope   string
	scopes  []string // scopes[i] is the scope of ops[i]
	watch   func(name string, x *tensor.Tensor)
	leaves  leaves
	drops   uint64 // number of dropouts since Reset
	over    *engine.Rows
	aside   []aside
	beside  bool // whether Aside takes losses
	// at and one are buffers of Last.
	at, one []int
}

// NewTape returns an empty tape on an engine of a backend. It does not record.
func NewTape(b engine.Backend) *Tape { return newTape(b, b.Open) }

func newTape(b engine.Backend, open func(step *engine.Step) engine.Engine) *Tape {
	t := &Tape{backend: b, open: open}
	t.step.Push = t.push
	t.engine = open(&t.step)
	return t
}

// Another returns an empty tape on an engine of the same kind.
func (t *Tape) Another() *Tape { return newTape(t.backend, t.open) }

// Through returns an empty tape on the engine that wrap returns for an engine of the same kind. The returned engine may
// record what is computed, for example.
func (t *Tape) Through(wrap func(engine.Engine) engine.Engine) *Tape {
	return newTape(t.backend, func(step *engine.Step) engine.Engine { return wrap(t.open(step)) })
}

// Engine returns the kind of the engine, such as cpu or reference.
func (t *Tape) Engine() string { return t.backend.Kind() }

// Backend returns the backend of the engine.
func (t *Tape) Backend() engine.Backend { return t.backend }

// Record switches recording for Backward on or off. If it is off, operations save nothing, and states are updated in
// place.
func (t *Tape) Record(on bool) { t.step.Recording = on }

// Recording reports whether the tape records.
func (t *Tape) Recording() bool { return t.step.Recording }

// Freeze switches the gradients of all leaves off, or on again. While they are off, only tensors of New that are marked
// by SetNeedsGrad get a gradient. Freeze changes no parameter, so others may use the model meanwhile, and parameters
// may be packed.
func (t *Tape) Freeze(on bool) { t.step.Frozen = on }

// SetPrecision sets the precision, Float32 or BF16, of the operations that follow and of their backward. A new tape has
// Float32.
func (t *Tape) SetPrecision(p engine.Precision) {
	if p != engine.Float32 && p != engine.BF16 {
		panic(fmt.Sprintf("autograd.SetPrecision: %v, want float32 or bf16", p))
	}
	t.step.Precision = p
}

// Precision returns the precision that SetPrecision has set.
func (t *Tape) Precision() engine.Precision { return t.step.Precision }

// StepsRows reports whether the engine itself processes stepped rows: see engine.RowStepper.
func (t *Tape) StepsRows() bool {
	_, steps := t.engine.(engine.RowStepper)
	return steps && !t.Recording()
}

// Reset removes all operations and takes back all memory: no tensor created on the tape may be used afterwards.
func (t *Tape) Reset() {
	for _, op := range t.ops {
		op.Outputs(t.dropGrad)
	}
	t.forget()
	t.drops, t.over = 0, nil
	t.engine.Reset()
}

// drop returns the number of the next dropout. A mask depends only on this number and on the seed of the row.
func (t *Tape) drop() uint64 {
	t.drops++
	return t.drops
}

// Dropouts returns the number of dropouts since Reset.
func (t *Tape) Dropouts() uint64 { return t.drops }

// SkipDropouts sets the number of dropouts since Reset to n, for a part of a step that is computed alone.
func (t *Tape) SkipDropouts(n uint64) { t.drops = n }

// New returns a tensor with unspecified contents that lives until Reset.
func (t *Tape) New(shape ...int) *tensor.Tensor { return t.engine.New(shape...) }

// Bytes returns the memory that the tape's engine holds: the most that any step so far has needed at a time.
func (t *Tape) Bytes() int { return t.engine.Bytes() }

// Mark returns the current point in the order of allocations, for ReleaseSince.
func (t *Tape) Mark() int { return t.engine.Mark() }

// ReleaseSince releases the memory of every tensor created after mark except keep. It does nothing once an operation
// has been recorded, because backward needs the tensors. As long as a recording tape has used only frozen parameters,
// states of the rows may be among the tensors: the caller passes them in keep.
func (t *Tape) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	if !t.step.Recording || len(t.ops) == 0 {
		t.engine.ReleaseSince(mark, keep...)
	}
}

// Backward runs the recorded operations in reverse from a scalar loss. Gradients of leaves (parameters, and inputs that
// want a gradient) are added to the Gradients that Collect has set, or else to gradients on the tape. The memory of
// other gradients is released as soon as they have been used.
func (t *Tape) Backward(loss *tensor.Tensor) {
	t.BackwardTimes(loss, 1)
}

// BackwardTimes is Backward from a scalar loss multiplied by weight.
func (t *Tape) BackwardTimes(loss *tensor.Tensor, weight float32) {
	if loss.Len() != 1 {
		panic(fmt.Sprintf("autograd.Backward: loss of shape %v, want one element", loss))
	}
	t.seedAside(weight)
	t.BackwardFrom(loss, t.engine.Full(weight))
}

// BackwardFrom is Backward from a tensor of any shape with cotangent dy. It leaves out the losses of Aside.
func (t *Tape) BackwardFrom(y, dy *tensor.Tensor) {
	last := len(t.ops) - 1
	// No operation was recorded after the last one and uses its result, so dy itself may serve as the gradient.
	if last >= 0 && t.engine.BackwardFrom(t.ops[last], y, dy) {
		t.ops[last] = nil
		t.ops, t.scopes = t.ops[:last], t.scopes[:last]
	} else {
		t.Seed(y, dy)
	}
	t.BackwardSeeded()
}

// Seed adds the cotangent dy to the gradient of y, for BackwardSeeded. So a backward pass can start from several
// results, such as the outputs of several calls on one sequence. Seed does nothing if y depends on no leaf with a
// gradient.
func (t *Tape) Seed(y, dy *tensor.Tensor) {
	if dy.Len() != y.Len() {
		panic(fmt.Sprintf("autograd.Seed: cotangent of %d values for shape %v", dy.Len(), y))
	}
	t.engine.AddGrad(y, dy)
}

// BackwardSeeded is Backward from the cotangents that Seed has added.
func (t *Tape) BackwardSeeded() {
	t.leaves.begin(len(t.ops))
	for i := len(t.ops) - 1; i >= 0; i-- {
		t.engine.Backward(t.ops[i])
		t.ops[i].Outputs(t.dropGrad)
		t.leaves.gone(i)
	}
	t.forget()
}

// Grad returns the gradient of x on this tape, not a copy, or nil if there is none. It is valid until more is added to
// it or until DropGrads.
func (t *Tape) Grad(x *tensor.Tensor) *tensor.Tensor {
	if g := t.collected(x); g != nil {
		return g
	}
	return t.engine.Grad(x)
}

// DropGrads releases the gradients of leaves on this tape, so that the next backward pass starts from zero. Collected
// gradients are set to zero.
func (t *Tape) DropGrads(leaves ...*tensor.Tensor) {
	for _, x := range leaves {
		if g := t.collected(x); g != nil {
			g.Zero()
			continue
		}
		t.engine.DropGrad(x)
	}
}

// collected returns the gradient of x if the tape collects it, and nil otherwise.
func (t *Tape) collected(x *tensor.Tensor) *tensor.Tensor {
	if t.leaves.gradients == nil {
		return nil
	}
	return t.leaves.gradients.Of(x)
}

func (t *Tape) dropGrad(x *tensor.Tensor) {
	if x != nil {
		t.engine.DropGrad(x)
	}
}

func (t *Tape) forget() {
	clear(t.ops)
	t.ops, t.scopes = t.ops[:0], t.scopes[:0]
	clear(t.aside)
	t.aside = t.aside[:0]
	t.leaves.forget()
}

// Scope names the part of the model to which the following operations belong ("backbone.layers.3.mixer"), for
// FirstNonFinite.
func (t *Tape) Scope(name string) { t.scope = name }

// Observe sets the function that Show calls, or nil for none.
func (t *Tape) Observe(watch func(name string, x *tensor.Tensor)) { t.watch = watch }

// Show passes a named result, such as the output of a layer, to the function that Observe has set.
func (t *Tape) Show(name string, x *tensor.Tensor) {
	if t.watch != nil {
		t.watch(name, x)
	}
}

// FirstNonFinite looks for the first result recorded since Reset that holds a NaN or an infinity, in the order of
// computation. It returns the part of the model and the operation that the result came from. Call it before Backward.
func (t *Tape) FirstNonFinite() (where string, found bool) {
	for i, op := range t.ops {
		bad := false
		op.Outputs(func(x *tensor.Tensor) {
			bad = bad || x != nil && !t.backend.AllFinite(x)
		})
		if bad {
			return t.scopes[i] + " (" + op.Name() + ")", true
		}
	}
	return "", false
}

// push records an operation of the engine.
func (t *Tape) push(op engine.Op) {
	t.ops = append(t.ops, op)
	t.scopes = append(t.scopes, t.scope)
}

// wants reports whether an operation with these inputs has to be recorded.
func (t *Tape) wants(inputs ...*tensor.Tensor) bool {
	if !t.step.Recording {
		return false
	}
	for _, x := range inputs {
		if x != nil && x.NeedsGrad() {
			return true
		}
	}
	return false
}

func shapePanic(op string, tensors ...*tensor.Tensor) {
	msg := "autograd." + op + ": shapes do not fit:"
	for _, x := range tensors {
		if x == nil {
			msg += " nil"
		} else {
			msg += " " + x.String()
		}
	}
	panic(msg)
}

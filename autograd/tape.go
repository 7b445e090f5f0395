// Package autograd is an eager tape of typed operations. A method of Tape states an operation's contract (formula,
// shapes, source), checks shapes, and calls an engine, which computes at once. The tape stores what the engine records,
// in order. Backward runs it in reverse: each operation ADDS to the gradients of its inputs.
//
// Wrong shapes are programmers' errors: they panic with the operation's name and the shapes. Nothing else can fail.
package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Tape records the operations of one step. A Tape is for one goroutine; the engine below it uses all cores. The zero
// value is not ready: use NewTape.
type Tape struct {
	backend engine.Backend
	open    func(step *engine.Step) engine.Engine
	engine  engine.Engine
	step    engine.Step
	ops     []engine.Op
	scope   string
	scopes  []string // scopes[i] is where ops[i] was recorded
	watch   func(name string, x *tensor.Tensor)
	leaves  leaves
	drops   uint64 // dropouts since Reset
	over    *engine.Rows
	aside   []aside
	beside  bool // Aside takes losses
	// at and one are memory for Last.
	at, one []int
}

// NewTape returns an empty tape that does not record, on an engine of a backend.
func NewTape(b engine.Backend) *Tape { return newTape(b, b.Open) }

func newTape(b engine.Backend, open func(step *engine.Step) engine.Engine) *Tape {
	t := &Tape{backend: b, open: open}
	t.step.Push = t.push
	t.engine = open(&t.step)
	return t
}

// Another returns an empty tape on an engine of the same kind.
func (t *Tape) Another() *Tape { return newTape(t.backend, t.open) }

// Through returns an empty tape on an engine of the same kind inside what wrap returns, such as an engine that also
// records what is computed.
func (t *Tape) Through(wrap func(engine.Engine) engine.Engine) *Tape {
	return newTape(t.backend, func(step *engine.Step) engine.Engine { return wrap(t.open(step)) })
}

// Engine is the kind of the engine: cpu, reference.
func (t *Tape) Engine() string { return t.backend.Kind() }

// Backend is the backend whose engine computes.
func (t *Tape) Backend() engine.Backend { return t.backend }

// Record switches recording for Backward on or off. Without it operations save nothing and states are updated in place.
func (t *Tape) Record(on bool) { t.step.Recording = on }

// Recording reports whether the tape records.
func (t *Tape) Recording() bool { return t.step.Recording }

// Freeze switches the gradients of all leaves off or on again. While it is on, only tensors of New that are marked by
// SetNeedsGrad get one. No parameter changes, so others may use the model meanwhile, and parameters may be packed.
func (t *Tape) Freeze(on bool) { t.step.Frozen = on }

// SetPrecision sets the precision, Float32 or BF16, of the operations that follow and of their backward. A new tape has
// Float32.
func (t *Tape) SetPrecision(p engine.Precision) {
	if p != engine.Float32 && p != engine.BF16 {
		panic(fmt.Sprintf("autograd.SetPrecision: %v, want float32 or bf16", p))
	}
	t.step.Precision = p
}

// Precision is what SetPrecision has set.
func (t *Tape) Precision() engine.Precision { return t.step.Precision }

// StepsRows reports whether the engine itself takes stepped rows: see engine.RowStepper.
func (t *Tape) StepsRows() bool {
	_, steps := t.engine.(engine.RowStepper)
	return steps && !t.Recording()
}

// Reset forgets all operations and takes back all memory: no tensor made on the tape may be used afterwards.
func (t *Tape) Reset() {
	for _, op := range t.ops {
		op.Outputs(t.dropGrad)
	}
	t.forget()
	t.drops, t.over = 0, nil
	t.engine.Reset()
}

// drop is the number of a dropout. A mask depends on it and on the seed of the row only.
func (t *Tape) drop() uint64 {
	t.drops++
	return t.drops
}

// Dropouts is the number of dropouts since Reset.
func (t *Tape) Dropouts() uint64 { return t.drops }

// SkipDropouts continues as after n dropouts since Reset, for a part of a step that is computed alone.
func (t *Tape) SkipDropouts(n uint64) { t.drops = n }

// New returns a tensor with unspecified contents that lives until Reset.
func (t *Tape) New(shape ...int) *tensor.Tensor { return t.engine.New(shape...) }

// Bytes is the memory that the tape's engine holds: the most that any step since it was made needed at a time.
func (t *Tape) Bytes() int { return t.engine.Bytes() }

// Mark names the present point for ReleaseSince.
func (t *Tape) Mark() int { return t.engine.Mark() }

// ReleaseSince releases the memory of every tensor made after mark except keep. It does nothing once an operation has
// been recorded, because backward needs them. While a recording tape has seen only frozen parameters, states of the
// rows may be among the tensors: the caller passes them in keep.
func (t *Tape) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	if !t.step.Recording || len(t.ops) == 0 {
		t.engine.ReleaseSince(mark, keep...)
	}
}

// Backward runs the recorded operations in reverse from a scalar loss. Gradients of leaves (parameters, inputs that
// want one) are added to the Gradients that Collect has set, else to gradients on the tape. The memory of other
// gradients is released as soon as they have been used.
func (t *Tape) Backward(loss *tensor.Tensor) {
	t.BackwardTimes(loss, 1)
}

// BackwardTimes is Backward from weight times a scalar loss.
func (t *Tape) BackwardTimes(loss *tensor.Tensor, weight float32) {
	if loss.Len() != 1 {
		panic(fmt.Sprintf("autograd.Backward: loss of shape %v, want one element", loss))
	}
	t.seedAside(weight)
	t.BackwardFrom(loss, t.engine.Full(weight))
}

// BackwardFrom is Backward from a tensor of any shape, with cotangent dy, and leaves out what Aside was given.
func (t *Tape) BackwardFrom(y, dy *tensor.Tensor) {
	last := len(t.ops) - 1
	// Nothing that was recorded after the last operation has used its result, so dy itself may serve as the gradient.
	if last >= 0 && t.engine.BackwardFrom(t.ops[last], y, dy) {
		t.ops[last] = nil
		t.ops, t.scopes = t.ops[:last], t.scopes[:last]
	} else {
		t.Seed(y, dy)
	}
	t.BackwardSeeded()
}

// Seed adds the cotangent dy to the gradient of y, from which BackwardSeeded starts. So a backward can start from
// several results, such as the outputs of several calls on one sequence. It does nothing if y depends on no leaf with a
// gradient.
func (t *Tape) Seed(y, dy *tensor.Tensor) {
	if dy.Len() != y.Len() {
		panic(fmt.Sprintf("autograd.Seed: cotangent of %d values for shape %v", dy.Len(), y))
	}
	t.engine.AddGrad(y, dy)
}

// BackwardSeeded is Backward from what Seed has set.
func (t *Tape) BackwardSeeded() {
	t.leaves.begin(len(t.ops))
	for i := len(t.ops) - 1; i >= 0; i-- {
		t.engine.Backward(t.ops[i])
		t.ops[i].Outputs(t.dropGrad)
		t.leaves.gone(i)
	}
	t.forget()
}

// Grad returns the gradient of x on this tape itself, nil if there is none. It is valid until more is added to it or
// DropGrads.
func (t *Tape) Grad(x *tensor.Tensor) *tensor.Tensor {
	if g := t.collected(x); g != nil {
		return g
	}
	return t.engine.Grad(x)
}

// DropGrads releases the gradients of leaves on this tape, so that the next backward starts from zero. Those that are
// collected become zero.
func (t *Tape) DropGrads(leaves ...*tensor.Tensor) {
	for _, x := range leaves {
		if g := t.collected(x); g != nil {
			g.Zero()
			continue
		}
		t.engine.DropGrad(x)
	}
}

// collected is the gradient of x if the tape collects it, else nil.
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

// Scope names the part of the model whose operations follow ("backbone.layers.3.mixer"), for FirstNonFinite.
func (t *Tape) Scope(name string) { t.scope = name }

// Observe sets the function that Show calls; nil for none.
func (t *Tape) Observe(watch func(name string, x *tensor.Tensor)) { t.watch = watch }

// Show passes a named result, such as the output of a layer, to the function that Observe has set.
func (t *Tape) Show(name string, x *tensor.Tensor) {
	if t.watch != nil {
		t.watch(name, x)
	}
}

// FirstNonFinite looks through the results recorded since Reset, in the order they were computed, for the first that
// holds a NaN or an infinity, and names the part of the model and the operation it came from. Call it before Backward.
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

// push records an operation for the engine.
func (t *Tape) push(op engine.Op) {
	t.ops = append(t.ops, op)
	t.scopes = append(t.scopes, t.scope)
}

// wants reports whether an operation over these inputs has to be recorded.
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

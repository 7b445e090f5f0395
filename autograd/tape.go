// Package autograd is an eager tape of typed operations over fused kernels. An operation computes its result at once and,
// when the tape records, remembers what its backward needs; Backward runs the remembered operations in reverse, each
// ADDING into its inputs' gradients. One file holds one operation, forward and backward side by side.
//
// It may import tensor, internal/kernel and internal/parallel. It is the lowest package that looks inside tensors, so it
// is here, and only here, that another device would be added. Programmers' errors (wrong shapes) panic with the
// operation's name and the shapes; nothing else in it can fail.
package autograd

import (
	"fmt"
	"math/rand/v2"
	"reflect"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Op is one recorded operation: a struct that holds what its backward needs.
type Op interface {
	// Backward adds the operation's share to the gradients of its inputs.
	Backward(t *Tape)
	// Outputs calls visit with every tensor the operation made whose gradient dies once Backward has run.
	Outputs(visit func(*tensor.Tensor))
	// Name is the operation's name for errors and for the search of the first NaN.
	Name() string
}

// Tape owns the memory of one step and the operations recorded in it. A Tape is for one goroutine; the kernels below it
// use all cores. The zero value is not ready: use NewTape.
type Tape struct {
	arena     *tensor.Arena
	ops       []Op
	pools     map[reflect.Type]resetter
	recording bool
	precision Precision
	rng       *rand.Rand // of dropout masks; nil where the tape does not train
	scope     string
	scopes    []string // scopes[i] is where ops[i] was recorded
}

// NewTape returns an empty tape that does not record.
func NewTape() *Tape {
	return &Tape{arena: tensor.NewArena(), pools: map[reflect.Type]resetter{}}
}

// Record switches recording for Backward on or off. Without it operations keep nothing and states are updated in place.
func (t *Tape) Record(on bool) { t.recording = on }

// Recording tells whether the tape records.
func (t *Tape) Recording() bool { return t.recording }

// Train switches dropout on (with rng as the source of its masks) or off (nil).
func (t *Tape) Train(rng *rand.Rand) { t.rng = rng }

// Reset forgets all operations and takes back all memory: every tensor made on the tape is dead afterwards.
func (t *Tape) Reset() {
	t.releaseGrads()
	t.forget()
	for _, p := range t.pools {
		p.reset()
	}
	t.arena.Reset()
}

// New returns a tensor with unspecified contents that lives until Reset.
func (t *Tape) New(shape ...int) *tensor.Tensor { return t.arena.Tensor(shape...) }

// like returns a tensor of x's shape with unspecified contents.
func (t *Tape) like(x *tensor.Tensor) *tensor.Tensor { return t.arena.Like(x, 0) }

// withLast returns a tensor of x's shape but for a last axis of length n.
func (t *Tape) withLast(x *tensor.Tensor, n int) *tensor.Tensor { return t.arena.Like(x, n) }

// Arena is the memory of the tape, for its statistics.
func (t *Tape) Arena() *tensor.Arena { return t.arena }

// Mark names the present point for ReleaseSince.
func (t *Tape) Mark() int { return t.arena.Mark() }

// ReleaseSince gives back the memory of every tensor made after mark except keep. While recording it does nothing,
// because backward needs them.
func (t *Tape) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	if t.recording {
		return
	}
	var bufs [4][]float32
	held := bufs[:0]
	for _, k := range keep {
		held = append(held, k.Data())
	}
	t.arena.ReleaseSince(mark, held...)
}

// Backward runs the recorded operations in reverse from a scalar loss. Gradients of leaves (parameters, inputs that want
// one) are added to what they hold; those of intermediate results are given back as soon as they have been used.
func (t *Tape) Backward(loss *tensor.Tensor) {
	if loss.Len() != 1 {
		panic(fmt.Sprintf("autograd.Backward: loss of shape %v, want one element", loss))
	}
	t.BackwardFrom(loss, []float32{1})
}

// BackwardFrom is Backward from a tensor of any shape with the given cotangent dy.
func (t *Tape) BackwardFrom(y *tensor.Tensor, dy []float32) {
	if !t.backwardLent(y, dy) {
		t.Seed(y, dy)
	}
	t.BackwardSeeded()
}

// gradReader is an Op that can do without a gradient of its own: its Backward only reads that of result, unless this is nil.
type gradReader interface{ result() *tensor.Tensor }

// backwardLent goes back through the operation recorded last, with dy itself for the gradient of y instead of a copy, and
// reports whether it could. Nothing that was recorded has used y then, so nothing adds to its gradient.
func (t *Tape) backwardLent(y *tensor.Tensor, dy []float32) bool {
	last := len(t.ops) - 1
	if last < 0 || y.Grad() != nil || len(dy) != y.Len() {
		return false
	}
	op, ok := t.ops[last].(gradReader)
	if !ok || op.result() != y {
		return false
	}
	y.SetGrad(dy)
	t.ops[last].Backward(t)
	y.SetGrad(nil)
	t.ops[last] = nil
	t.ops, t.scopes = t.ops[:last], t.scopes[:last]
	return true
}

// Seed adds the cotangent dy to the gradient of y, for BackwardSeeded to start from: the way to go back from several results
// at once, such as those of the chunks of one sequence. It does nothing where no gradient is wanted behind y.
func (t *Tape) Seed(y *tensor.Tensor, dy []float32) {
	if len(dy) != y.Len() {
		panic(fmt.Sprintf("autograd.Seed: cotangent of %d values for shape %v", len(dy), y))
	}
	t.addGrad(y, dy)
}

// BackwardSeeded is Backward from what Seed has set.
func (t *Tape) BackwardSeeded() {
	for i := len(t.ops) - 1; i >= 0; i-- {
		op := t.ops[i]
		op.Backward(t)
		op.Outputs(t.dropGrad)
	}
	t.forget()
}

func (t *Tape) forget() {
	clear(t.ops)
	t.ops, t.scopes = t.ops[:0], t.scopes[:0]
}

// Scope names the part of the model whose operations follow ("backbone.layers.3.mixer"), for FirstNonFinite.
func (t *Tape) Scope(name string) { t.scope = name }

// FirstNonFinite looks through the results recorded since Reset, in the order they were computed, for the first that
// holds a NaN or an infinity, and names the part of the model and the operation it came from. Call it before Backward.
func (t *Tape) FirstNonFinite() (where string, found bool) {
	for i, op := range t.ops {
		bad := false
		op.Outputs(func(x *tensor.Tensor) {
			bad = bad || x != nil && !kernel.AllFinite(x.Data())
		})
		if bad {
			return t.scopes[i] + " (" + op.Name() + ")", true
		}
	}
	return "", false
}

// push records op when one of its inputs wants a gradient, and marks its outputs so.
func (t *Tape) push(op Op) {
	t.ops = append(t.ops, op)
	t.scopes = append(t.scopes, t.scope)
	op.Outputs(func(x *tensor.Tensor) {
		if x != nil {
			x.SetNeedsGrad(true)
		}
	})
}

// wants reports whether an operation over these inputs has to be recorded.
func (t *Tape) wants(inputs ...*tensor.Tensor) bool {
	if !t.recording {
		return false
	}
	for _, x := range inputs {
		if x != nil && x.NeedsGrad() {
			return true
		}
	}
	return false
}

// pool keeps the structs of one operation type from step to step.
type pool[T any] struct {
	items []*T
	next  int
}

type resetter interface{ reset() }

func (p *pool[T]) reset() { p.next = 0 }

// take returns a struct of type T from the tape's pool. Its fields hold what an earlier step left, so that its slices can be
// reused; the caller sets every field.
func take[T any](t *Tape) *T {
	key := reflect.TypeFor[T]()
	p, ok := t.pools[key].(*pool[T])
	if !ok {
		p = &pool[T]{}
		t.pools[key] = p
	}
	if p.next == len(p.items) {
		p.items = append(p.items, new(T))
	}
	p.next++
	return p.items[p.next-1]
}

// resize returns s with length n, its memory reused where it is large enough; the contents are unspecified.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
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

// Package cpu is the engine that computes in float32 on all cores. It decides on layouts, blocks, loops over cores and
// the values saved for backward. Each file holds one operation, forward and backward side by side. The methods of
// Engine implement engine.Engine, whose comments have the formulas and shapes; comments here describe how they are
// computed.
//
// Terms: a row is the positions of one sequence in a call (engine.Rows). A chunk is the part of a row that a scan or
// linear attention computes at a time, carrying the state from one chunk to the next; a block of SSD is the same. A
// piece is any other part of a row: one convolution of a longer row, or the part that a task computes. A task is a
// chunk of parallel.For. Lanes are 16 channels side by side. A tile is a matrix of scores, of some queries by some
// keys. A group is a term of models: channels that share B and C or a norm.
//
// No other package reads or writes the float32 elements of tensors. Package autograd has checked the shapes.
package cpu

import (
	"reflect"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Engine owns the memory of one step. It may be used by only one goroutine; the kernels below it use all cores.
type Engine struct {
	*engine.Step
	arena *tensor.Arena
	pools map[reflect.Type]resetter
	ops   pool[recorded]
	// leaves holds the gradients of leaves that Step.Leaves does not collect.
	leaves map[*tensor.Tensor][]float32
}

// New returns an engine for the tape whose settings are in step.
func New(step *engine.Step) *Engine {
	return &Engine{Step: step, arena: tensor.NewArena(), pools: map[reflect.Type]resetter{}}
}

var _ interface {
	engine.Engine
	engine.RowStepper
	engine.Viewer
} = (*Engine)(nil)

// StepsRows marks an engine.RowStepper.
func (eng *Engine) StepsRows() {}

// operation holds the data that backward needs of an operation.
type operation interface {
	// Backward adds to the gradients of the operation's inputs. It is called if one of the operation's outputs has a
	// gradient.
	Backward(eng *Engine)
}

// recorded is an operation on the tape.
type recorded struct {
	operation
	name    string
	outputs []*tensor.Tensor // some may be nil
	part    *tensor.Tensor   // an output of an earlier operation, of which this one has written a part
}

func (r *recorded) Name() string { return r.name }

func (r *recorded) Outputs(visit func(*tensor.Tensor)) {
	for _, x := range r.outputs {
		visit(x)
	}
}

// add adds outputs, which then want a gradient. Each may be nil.
func (r *recorded) add(outputs ...*tensor.Tensor) {
	r.outputs = append(r.outputs, outputs...)
	for _, x := range outputs {
		if x != nil {
			x.SetNeedsGrad(true)
		}
	}
}

// used reports whether an output may have a gradient. Outputs with a storage keep theirs elsewhere.
func (r *recorded) used() bool {
	hasGrad := func(x *tensor.Tensor) bool { return x != nil && (x.Grad() != nil || x.Storage() != nil) }
	return hasGrad(r.part) || slices.ContainsFunc(r.outputs, hasGrad)
}

// precision returns the precision of products.
func (eng *Engine) precision() kernel.Precision { return kernel.Precision(eng.Precision) }

// New returns a tensor with unspecified contents that lives until Reset.
func (eng *Engine) New(shape ...int) *tensor.Tensor { return eng.arena.Tensor(shape...) }

// Full returns a tensor whose elements are all v.
func (eng *Engine) Full(v float32, shape ...int) *tensor.Tensor {
	x := eng.New(shape...)
	x.Fill(v)
	return x
}

// like returns a tensor of x's shape with unspecified contents.
func (eng *Engine) like(x *tensor.Tensor) *tensor.Tensor { return eng.arena.Like(x, 0) }

// withLast returns a tensor of x's shape, but with a last axis of length n.
func (eng *Engine) withLast(x *tensor.Tensor, n int) *tensor.Tensor { return eng.arena.Like(x, n) }

// Bytes returns the size of the memory that the engine holds, in use or not.
func (eng *Engine) Bytes() int { return eng.arena.Bytes() }

// Mark returns a mark of the current point for ReleaseSince.
func (eng *Engine) Mark() int { return eng.arena.Mark() }

// ReleaseSince releases the memory of every tensor made after mark except keep.
func (eng *Engine) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	var bufs [4][]float32
	buffers := bufs[:0]
	for _, k := range keep {
		buffers = append(buffers, k.Data())
	}
	eng.arena.ReleaseSince(mark, buffers...)
}

// Reset takes back all memory: no tensor made here may be used afterwards.
func (eng *Engine) Reset() {
	for _, p := range eng.pools {
		p.reset()
	}
	eng.ops.reset()
	eng.arena.Reset()
}

// push records op, which the caller has filled, with its outputs.
func (eng *Engine) push(name string, op operation, outputs ...*tensor.Tensor) *recorded {
	r := eng.ops.take()
	*r = recorded{operation: op, name: name, outputs: r.outputs[:0]}
	r.add(outputs...)
	eng.Push(r)
	return r
}

// pushPart is push for one of several operations that write parts of y. The first of them has y as an output, so its
// backward runs last.
func (eng *Engine) pushPart(name string, op operation, y *tensor.Tensor) *recorded {
	if !y.NeedsGrad() {
		return eng.push(name, op, y)
	}
	r := eng.push(name, op)
	r.part = y
	return r
}

// wanted reports whether a gradient of x is wanted in this step. x may be nil.
func (eng *Engine) wanted(x *tensor.Tensor) bool {
	return x != nil && x.NeedsGrad() && (!eng.Frozen || x.Lent())
}

// wants reports whether an operation with these inputs must be recorded. It tells Step.Leaves which leaves the
// operation uses.
func (eng *Engine) wants(inputs ...*tensor.Tensor) (record bool) {
	if !eng.Recording {
		return false
	}
	for _, x := range inputs {
		if !eng.wanted(x) {
			continue
		}
		record = true
		if eng.Leaves != nil && !x.Lent() {
			eng.Leaves.Use(x)
		}
	}
	return record
}

// pool keeps the structs of one operation type from step to step.
type pool[T any] struct {
	items []*T
	next  int
}

type resetter interface{ reset() }

func (p *pool[T]) reset() { p.next = 0 }

func (p *pool[T]) take() *T {
	if p.next == len(p.items) {
		p.items = append(p.items, new(T))
	}
	p.next++
	return p.items[p.next-1]
}

// take returns a struct of type T from the engine's pool. Its fields hold the values of an earlier step, so that its
// slices can be reused; the caller sets every field.
func take[T any](eng *Engine) *T {
	key := reflect.TypeFor[T]()
	p, ok := eng.pools[key].(*pool[T])
	if !ok {
		p = &pool[T]{}
		eng.pools[key] = p
	}
	return p.take()
}

// save returns a copy of value in a struct from the engine's pool.
func save[T any](eng *Engine, value T) *T {
	op := take[T](eng)
	*op = value
	return op
}

// record records an operation with output y, described by a struct of type T, if one of its inputs wants a gradient.
func record[T any, P interface {
	*T
	operation
}](eng *Engine, name string, value T, y *tensor.Tensor, inputs ...*tensor.Tensor) {
	if eng.wants(inputs...) {
		eng.push(name, P(save(eng, value)), y)
	}
}

// resize returns s with length n. It reuses the memory if it is large enough; the contents are unspecified.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

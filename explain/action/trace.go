package action

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// tracer is an engine that computes with another one and records how results depend on the sequence: the steps, each of
// which is linear in values with all other inputs held fixed. It does not embed Engine, so that the code compiles only
// if every operation is in along.go, local.go or static.go.
type tracer struct {
	engine.Memory
	engine.Gradients

	Engine engine.Engine                     // does the computation
	on     bool                              // true while the mixer runs, false when its steps run again
	of     map[*tensor.Tensor]origin         // tensors that depend on the sequence
	copies map[*tensor.Tensor]*tensor.Tensor // copies of parameters, for the steps
	steps  []*step
}

var _ engine.Engine = (*tracer)(nil)

func newTracer() *tracer {
	return &tracer{of: map[*tensor.Tensor]origin{}, copies: map[*tensor.Tensor]*tensor.Tensor{}}
}

// through sets the engine that e computes with.
func (e *tracer) through(inner engine.Engine) { e.Memory, e.Gradients, e.Engine = inner, inner, inner }

// origin describes how a tensor depends on the sequence. A tensor without an origin is the same for every sequence.
type origin struct {
	mixed bool // depends on other positions too; else each row depends only on its own position
	depth int  // number of operations along the sequence that it has passed
}

// step is an operation as a linear map of its values. run computes it for other values, with everything else held
// fixed.
type step struct {
	name    string
	in, out []*tensor.Tensor
	run     func(in []*tensor.Tensor) []*tensor.Tensor // nil if it is not linear

	along bool // it moves something from one position to another
	// At most one of these additional properties is set.
	pointwise bool           // each element of the only result is a multiple of that of the only value, plus a constant
	weight    *tensor.Tensor // the only result is the only value times this matrix (n, k), plus a constant
	at        []int          // result i is the columns of the only value from at[i] on
	joined    bool           // the only result is the values side by side
	spread    spread         // how an operation along the sequence spreads its only value
	why       string         // why run is nil
}

// known reports whether a tensor depends on the sequence.
func (e *tracer) known(x *tensor.Tensor) bool {
	if x == nil {
		return false
	}
	_, ok := e.of[x]
	return ok
}

// mixed reports whether a tensor depends on other positions.
func (e *tracer) mixed(x *tensor.Tensor) bool { return x != nil && e.of[x].mixed }

// follow records that ys were computed from xs position by position. It reports whether some of xs depend on other
// positions. In that case the caller must add a step.
func (e *tracer) follow(xs, ys []*tensor.Tensor) bool {
	if !e.on {
		return false
	}
	var o origin
	some := false
	for _, x := range xs {
		if !e.known(x) {
			continue
		}
		some = true
		o.mixed, o.depth = o.mixed || e.of[x].mixed, max(o.depth, e.of[x].depth)
	}
	if some {
		for _, y := range ys {
			e.of[y] = o
		}
	}
	return o.mixed
}

// add appends a step whose values depend on the sequence.
func (e *tracer) add(s *step) {
	o := origin{mixed: true}
	for _, x := range s.in {
		o.depth = max(o.depth, e.of[x].depth)
	}
	if s.along {
		o.depth++
	}
	for _, y := range s.out {
		e.of[y] = o
	}
	e.steps = append(e.steps, s)
}

// traced reports whether the values x of an operation along the sequence must be followed.
func (e *tracer) traced(x *tensor.Tensor) bool { return e.on && e.known(x) }

// along appends a step along the sequence with one value.
func (e *tracer) along(name string, x, y *tensor.Tensor, how spread, run func(x *tensor.Tensor) *tensor.Tensor) {
	e.add(&step{name: name, in: list{x}, out: list{y}, along: true, spread: how, run: one(run)})
}

// linear appends a step that is linear in all of xs together. If s.along is set, it moves positions.
func (e *tracer) linear(s *step, xs, ys []*tensor.Tensor, op func(xs []*tensor.Tensor) []*tensor.Tensor) {
	if s.along {
		if !e.on || !e.some(xs) {
			return
		}
	} else if !e.follow(xs, ys) {
		return
	}
	var at []int
	for i, x := range xs {
		if e.known(x) {
			at, s.in = append(at, i), append(s.in, x)
		}
	}
	xs = append(list(nil), xs...)
	s.out = ys
	s.run = func(in []*tensor.Tensor) []*tensor.Tensor {
		with := append(list(nil), xs...)
		for k, i := range at {
			with[i] = in[k]
		}
		return op(with)
	}
	e.add(s)
}

// some reports whether one of xs depends on the sequence.
func (e *tracer) some(xs []*tensor.Tensor) bool {
	for _, x := range xs {
		if e.known(x) {
			return true
		}
	}
	return false
}

// unknown appends a step that is not linear in x, for a result that should be a gate.
func (e *tracer) unknown(name, why string, xs []*tensor.Tensor, ys ...*tensor.Tensor) {
	if e.follow(xs, ys) {
		e.add(&step{name: name, in: xs, out: ys, why: why})
	}
}

type list = []*tensor.Tensor

// one returns run for an operation with one value and one result.
func one(run func(x *tensor.Tensor) *tensor.Tensor) func(in []*tensor.Tensor) []*tensor.Tensor {
	return func(in []*tensor.Tensor) []*tensor.Tensor { return list{run(in[0])} }
}

// held returns a parameter for use in a step: x itself while the mixer runs, later a copy that needs no gradient.
func (e *tracer) held(x *tensor.Tensor) *tensor.Tensor {
	if e.on {
		return x
	}
	return e.copied(x)
}

// copied returns a copy of a parameter that needs no gradient, or x if x itself needs none.
func (e *tracer) copied(x *tensor.Tensor) *tensor.Tensor {
	if x == nil || !x.NeedsGrad() && x.Packed() == nil {
		return x
	}
	if e.copies[x] == nil {
		e.copies[x] = tensor.FromSlice(x.Floats(), x.Shape()...)
	}
	return e.copies[x]
}

// again runs f as part of a step, not of the mixer.
func (e *tracer) again(f func() *tensor.Tensor) *tensor.Tensor {
	on := e.on
	e.on = false
	defer func() { e.on = on }()
	return f()
}

// fresh returns states or caches while the mixer runs. Steps run without them.
func fresh[S ~[]E, E any](e *tracer, states S) S {
	if e.on {
		return states
	}
	return nil
}

// The forms of operations. Each method computes the operation and records it.

// each traces an operation that is linear in all of xs together.
func (e *tracer) each(s step, run func(xs []*tensor.Tensor) *tensor.Tensor, xs ...*tensor.Tensor) *tensor.Tensor {
	y := run(xs)
	e.linear(&s, xs, list{y}, func(xs []*tensor.Tensor) []*tensor.Tensor { return list{run(xs)} })
	return y
}

// activated traces an operation that is linear in x before its activation.
func (e *tracer) activated(s step, x *tensor.Tensor, a engine.Activation,
	run func(x *tensor.Tensor, a engine.Activation) *tensor.Tensor) *tensor.Tensor {
	y := run(x, a)
	if s.along && !e.traced(x) || !s.along && !e.follow(list{x}, list{y}) {
		return y
	}
	plain, p := func(x *tensor.Tensor) *tensor.Tensor { return run(x, engine.None) }, y
	if a != engine.None {
		p = e.again(func() *tensor.Tensor { return plain(x) })
	}
	s.in, s.out, s.run = list{x}, list{p}, one(plain)
	e.add(&s)
	if a != engine.None {
		e.secant(p, y, a)
	}
	return y
}

// carried traces an operation that carries x along the sequence. how returns its spread, and may be nil.
func (e *tracer) carried(name string, x *tensor.Tensor, how func() spread,
	run func(x *tensor.Tensor) *tensor.Tensor) *tensor.Tensor {
	y := run(x)
	if e.traced(x) {
		var known spread
		if how != nil {
			known = how()
		}
		e.along(name, x, y, known, run)
	}
	return y
}

// gate traces an operation that is not linear and may occur only in a gate.
func (e *tracer) gate(name string, y *tensor.Tensor, xs ...*tensor.Tensor) *tensor.Tensor {
	e.unknown(name, "it is not linear, and is known as part of a gate only", xs, y)
	return y
}

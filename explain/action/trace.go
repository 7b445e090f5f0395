package action

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// tracer is an engine that computes with another one, and writes down how results depend on the sequence: the steps by
// which each is linear in values while all else is held fixed.
type tracer struct {
	engine.Engine
	on    bool
	of    map[*tensor.Tensor]origin
	steps []*step
}

// origin says how a tensor depends on the sequence. One that is not known is the same for every sequence.
type origin struct {
	mixed bool // on other positions too; else on the sequence's position of each row
	depth int  // operations along the sequence that it has passed
}

// step is an operation as a linear map of its values: run computes it for other values, with all else held fixed.
type step struct {
	name    string
	in, out []*tensor.Tensor
	run     func(in []*tensor.Tensor) []*tensor.Tensor // nil where it is not linear

	along bool // it takes something from one position to another
	// What is known beside: one of these, or nothing.
	pointwise bool           // each element of the one result is a multiple of that of the one value, plus a constant
	weight    *tensor.Tensor // the one result is the one value times this matrix (n, k), plus a constant
	at        []int          // result i is the columns of the one value from at[i] on
	joined    bool           // the one result is the values side by side
	spread    spread         // how an operation along the sequence spreads the one value
	why       string         // why run is nil
}

// known tells whether a tensor depends on the sequence.
func (e *tracer) known(x *tensor.Tensor) bool {
	if x == nil {
		return false
	}
	_, ok := e.of[x]
	return ok
}

// mixed tells whether a tensor depends on other positions.
func (e *tracer) mixed(x *tensor.Tensor) bool { return x != nil && e.of[x].mixed }

// follow says that xs made ys position by position. It reports whether some of xs depends on other positions: then the
// caller adds a step.
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

// along appends a step along the sequence of one value, unless the value is the same for every sequence.
func (e *tracer) along(name string, x, y *tensor.Tensor, how spread, run func(x *tensor.Tensor) *tensor.Tensor) {
	if e.on && e.known(x) {
		e.add(&step{name: name, in: list{x}, out: list{y}, along: true, spread: how, run: one(run)})
	}
}

// linear appends a step that is linear in all of xs together. along says that it moves positions.
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

// some tells whether one of xs depends on the sequence.
func (e *tracer) some(xs []*tensor.Tensor) bool {
	for _, x := range xs {
		if e.known(x) {
			return true
		}
	}
	return false
}

// unknown appends a step that is not linear in x, for a result that is to be a gate.
func (e *tracer) unknown(name, why string, xs []*tensor.Tensor, ys ...*tensor.Tensor) {
	if e.follow(xs, ys) {
		e.add(&step{name: name, in: xs, out: ys, why: why})
	}
}

type list = []*tensor.Tensor

// one is run for an operation of one value and one result.
func one(run func(x *tensor.Tensor) *tensor.Tensor) func(in []*tensor.Tensor) []*tensor.Tensor {
	return func(in []*tensor.Tensor) []*tensor.Tensor { return list{run(in[0])} }
}

// constant is a copy of a parameter that wants no gradient.
func constant(x *tensor.Tensor) *tensor.Tensor {
	if x == nil || !x.NeedsGrad() && x.Packed() == nil {
		return x
	}
	return tensor.FromSlice(x.Floats(), x.Shape()...)
}

package memory

import (
	"context"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/tensor"
)

// stateWalk runs a mixer over one sequence u (l, d), token by token, to observe its state after each.
type stateWalk struct {
	tape *autograd.Tape
	m    mixer.Mixer
	u    []float32
	l, d int
	seen map[int]mixer.State // results of before

	products recalled
}

func newWalk(on engine.Backend, m mixer.Mixer, u *tensor.Tensor) *stateWalk {
	w := &stateWalk{m: m, u: u.Floats(), l: u.Dim(0), d: u.Dim(1), seen: map[int]mixer.State{},
		products: recalled{of: map[linear][]float32{}, out: map[linear]bool{}}}
	w.tape = autograd.NewTape(on).Through(func(e engine.Engine) engine.Engine { return recall{e, w} })
	return w
}

// begin returns the state before the first token.
func (w *stateWalk) begin() mixer.State { return mixer.Begin(w.m.NewState())[0] }

// run passes n tokens through each of several states, which are at the positions at.
func (w *stateWalk) run(states []mixer.State, at []int, n int) {
	w.runEach(states, at, slices.Repeat([]int{n}, len(at)))
}

// runEach passes n[i] tokens through state i, which is at the position at[i].
func (w *stateWalk) runEach(states []mixer.State, at, n []int) {
	rows := &mixer.Rows{Rows: &engine.Rows{}, States: states}
	var x []float32
	var places []int
	for i, a := range at {
		rows.Add(n[i], a)
		x = append(x, w.u[a*w.d:][:n[i]*w.d]...)
		for t := range n[i] {
			places = append(places, a+t)
		}
	}
	in := w.tape.New(len(places), w.d)
	in.CopyFrom(x)
	w.products.begin(in, places)
	w.products.end(w.m.Forward(w.tape, in, rows))
	w.tape.Reset()
}

// pieces runs the whole sequence in pieces of n tokens. It returns the states before each piece, and calls see, unless
// it is nil, with the state after each.
func (w *stateWalk) pieces(ctx context.Context, n int, see func(from, to int, s mixer.State)) ([]mixer.State, error) {
	var starts []mixer.State
	s := w.begin()
	for at := 0; at < w.l; at += n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		starts = append(starts, s.Clone())
		end := min(w.l, at+n)
		w.run([]mixer.State{s}, []int{at}, end-at)
		if see != nil {
			see(at, end, s)
		}
	}
	return starts, nil
}

// before returns the state before a position. It is cached and must not be changed.
func (w *stateWalk) before(at int) mixer.State {
	w.prepare(at)
	return w.seen[at]
}

// prepare computes the states before several positions in parallel.
func (w *stateWalk) prepare(at ...int) {
	var states []mixer.State
	var n []int
	for _, a := range at {
		if w.seen[a] != nil {
			continue
		}
		s := w.begin()
		if w.seen[a] = s; a > 0 {
			states, n = append(states, s), append(n, a)
		}
	}
	if len(states) > 0 {
		w.runEach(states, make([]int, len(states)), n)
	}
}

// steps goes through the sequence token by token. To need few calls, it processes all pieces of n tokens in parallel:
// see is called for the tokens 0, n, 2n, ..., then for 1, n+1, ..., with the state after each. Before that, begin is
// called with the states before the pieces. If beside is not nil, it makes a second state from each state before a
// token. The token passes through that state too, and the result is in others.
func (w *stateWalk) steps(ctx context.Context, n int, begin func(states []mixer.State),
	beside func(mixer.State) (mixer.State, error), see func(at []int, now, others []mixer.State)) error {
	states, err := w.pieces(ctx, n, nil)
	if err != nil {
		return err
	}
	begin(states)
	for j := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		var at []int
		for c := range states {
			if c*n+j < w.l {
				at = append(at, c*n+j)
			}
		}
		count := len(at)
		now := slices.Clone(states[:count])
		if beside != nil {
			for _, s := range states[:count] {
				other, err := beside(s)
				if err != nil {
					return err
				}
				now = append(now, other)
			}
			at = append(at, at...)
		}
		w.run(now, at, 1)
		see(at[:count], now[:count], now[count:])
	}
	return nil
}

// probe passes the token at a position through copies of s in which one part has other values, and returns that part
// after each.
func (w *stateWalk) probe(at int, s mixer.State, name string, shape []int, values ...[]float32) ([][]float32, error) {
	n := len(values)
	return w.probes(slices.Repeat([]int{at}, n), slices.Repeat([]mixer.State{s}, n), name, shape, values)
}

// probes is like probe for several positions, with a state and values of the part for each.
func (w *stateWalk) probes(at []int, before []mixer.State, name string, shape []int, values [][]float32) ([][]float32,
	error) {
	states := make([]mixer.State, len(values))
	for i, v := range values {
		states[i] = before[i].Clone()
		if err := states[i].Restore(name, shape, v); err != nil {
			return nil, err
		}
	}
	w.run(states, at, 1)
	out := make([][]float32, len(states))
	for i, c := range states {
		out[i] = readPart(c, name, nil)
	}
	return out, nil
}

// readPart copies a part of a state into dst, if it is large enough, or new memory. It returns nil if there is no part
// with that name.
func readPart(s mixer.State, name string, dst []float32) []float32 {
	var out []float32
	s.Tensors(func(n string, x *tensor.Tensor) {
		if n == name {
			out = slices.Grow(dst[:0], x.Len())[:x.Len()]
			x.CopyTo(out)
		}
	})
	return out
}

// shapesIn returns the names of the parts of a state in order, and their shapes.
func shapesIn(s mixer.State) (names []string, shapes map[string][]int) {
	shapes = map[string][]int{}
	s.Tensors(func(n string, x *tensor.Tensor) {
		names, shapes[n] = append(names, n), x.Shape()
	})
	return names, shapes
}

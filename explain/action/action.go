// Package action computes the effect of a mixer on one sequence, as a linear map from position to position. It derives
// the map from the mixer's own forward pass, which runs on an engine that records the operations. So no mixer is
// defined twice, and a new mixer needs no code here unless it uses a new operation.
package action

import (
	"context"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/tensor"
)

// Action is the effect of a mixer on one sequence of l positions, in the form of "A Unified Implicit Attention
// Formulation for Gated-Linear Recurrent Sequence Models" (arXiv:2405.16504, §3):
//
//	y[t] = b[t] + Σ_s C[t,s],   C[t,s] = U[t] M[t,s] x[s]
//
// x[s] are the values at position s: what the mixer computes from the input at s alone, before anything reaches another
// position. M is the operator of everything that moves along the sequence, including short filters. U[t] is what
// happens at t afterwards. Factors that depend on the sequence and multiply values are held fixed:
//
//   - gates, attention weights, steps Δ and the B and C of selective models;
//   - activations after a filter or a state, f(z) = (f(z)/z)·z, as the paper has SiLU;
//   - the size that a norm divides by.
//
// With these factors fixed, the formula is exact. b is the output if all values are 0: biases, and contributions of an
// encoder's or a state's own vectors. For attention M is the pattern; for S4, H3 and Hyena gates times kernels; for
// Mamba, Mamba-2, RG-LRU and retention gates times products of decays; for an RNN products of its matrix and the
// factors tanh(z)/z.
type Action struct {
	Length, Width int

	tape    *autograd.Tape
	e       *tracer
	y       *tensor.Tensor
	steps   []*step // from the sources to y
	sources []*tensor.Tensor
	by      map[*tensor.Tensor]*step
}

// Of computes the effect of a mixer on u (l, d_model), on an engine of the tape's kind. It returns an error if the
// mixer is not linear in the values with all factors held fixed.
func Of(t *autograd.Tape, m mixer.Mixer, u *tensor.Tensor) (*Action, error) {
	return of(t, func(t *autograd.Tape, in []*tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
		return m.Forward(t, in[0], r)
	}, u)
}

// OfShared computes what a block that layers share adds to the input of a layer's mixer, for a residual stream x (l,
// d_model) that started as e (l, d_model): see mixer.Shared. Values at s depend on x[s] and e[s] together. The errors
// are those of Of.
func OfShared(t *autograd.Tape, m *mixer.Shared, x, e *tensor.Tensor) (*Action, error) {
	return of(t, func(t *autograd.Tape, in []*tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
		return m.Forward(t, in[0], in[1], r)
	}, x, e)
}

// of computes the effect of forward on sequences of one length, which are side by side at each position.
func of(t *autograd.Tape, forward func(t *autograd.Tape, in []*tensor.Tensor, r *mixer.Rows) *tensor.Tensor,
	in ...*tensor.Tensor) (*Action, error) {
	e := newTracer()
	a := &Action{Length: in[0].Rows(), e: e, by: map[*tensor.Tensor]*step{}}
	a.tape = t.Through(func(inner engine.Engine) engine.Engine {
		if e.Engine != nil { // of another tape, which a mixer makes for what does not depend on the sequence
			return inner
		}
		e.through(inner)
		return e
	})
	var xs []*tensor.Tensor
	for _, u := range in {
		x := tensor.FromSlice(u.Floats(), u.Shape()...)
		e.of[x] = origin{}
		xs = append(xs, x)
	}
	e.on = true
	a.y = forward(a.tape, xs, &mixer.Rows{Rows: engine.NewRows(a.Length)})
	e.on = false
	a.Width = a.y.Dim(-1)
	return a, a.trim()
}

// trim keeps the steps that lead to y.
func (a *Action) trim() error {
	a.steps = leading(a.e.steps, map[*tensor.Tensor]bool{a.y: true}, nil)
	for _, s := range slices.Backward(a.steps) {
		if s.run == nil {
			return fmt.Errorf("its output comes through %s: %s", s.name, s.why)
		}
		for _, y := range s.out {
			a.by[y] = s
		}
	}
	for _, s := range a.steps {
		a.source(s.in...)
	}
	a.source(a.y)
	return nil
}

// leading returns the steps that lead to the needed tensors, and adds the steps' inputs to needed. If stop is not nil,
// it is called with each step that makes a needed tensor, and reports whether to omit the step.
func leading(steps []*step, needed map[*tensor.Tensor]bool, stop func(s *step) bool) (out []*step) {
	for _, s := range slices.Backward(steps) {
		some := slices.ContainsFunc(s.out, func(y *tensor.Tensor) bool { return needed[y] })
		if !some || stop != nil && stop(s) {
			continue
		}
		out = append(out, s)
		for _, x := range s.in {
			needed[x] = true
		}
	}
	slices.Reverse(out)
	return out
}

// source adds the tensors of xs that are values to the sources.
func (a *Action) source(xs ...*tensor.Tensor) {
	for _, x := range xs {
		if a.local(x) && !slices.Contains(a.sources, x) {
			a.sources = append(a.sources, x)
		}
	}
}

// local reports whether a tensor is values: it depends only on the input at its own position.
func (a *Action) local(x *tensor.Tensor) bool { return a.e.known(x) && !a.e.mixed(x) }

// Output is y (l, d_model).
func (a *Action) Output() []float32 { return a.y.Floats() }

// From returns the contribution of position s to all outputs, C[·,s] (l, d_model). b is the result of Constant.
func (a *Action) From(s int, b []float32) []float32 {
	y := a.replay(a.steps, a.y, func(x []float32, width int) []float32 {
		alone := make([]float32, len(x))
		copy(alone[s*width:][:width], x[s*width:])
		return alone
	})
	for i := range y {
		y[i] -= b[i]
	}
	return y
}

// Select specifies the part of an action.
type Select struct {
	Head int // index among all heads; AllHeads for all
}

// AllHeads selects all heads.
const AllHeads = -1

// Along returns the lengths of C[t,s] along p[t], Σ_i p_i[t] C_i[t,s], for directions p (l, d_model). The result is (l,
// l), with 0 if s has no effect on t. The sum of a row over s is the length of y[t] - b[t] along p[t].
func (a *Action) Along(ctx context.Context, p []float32, of Select) ([]float32, error) {
	return a.sums(ctx, seeds{a.y: p}, false, of)
}

// Mean returns the mean of the paper's matrices over channels: the mean, over the channels before the last projection,
// of what they receive at t if each channel has the value 1 at s.
func (a *Action) Mean(ctx context.Context, of Select) ([]float32, error) {
	from := seeds{}
	var inner func(y *tensor.Tensor)
	inner = func(y *tensor.Tensor) {
		s := a.by[y]
		if s == nil || s.along {
			from[y] = even(y)
			return
		}
		if s.weight != nil {
			from[s.in[0]] = even(s.in[0])
			return
		}
		for _, x := range s.in {
			inner(x)
		}
	}
	inner(a.y)
	return a.sums(ctx, from, true, of)
}

// even returns the weights of a mean over the last axis.
func even(x *tensor.Tensor) []float32 {
	return slices.Repeat([]float32{1 / float32(x.Dim(-1))}, x.Len())
}

// upper returns the steps between the seeds and the last operations along the sequence, and these operations, tops.
// bare contains the values that reach the seeds without an operation along the sequence.
func (a *Action) upper(from seeds) (steps, tops []*step, bare []*tensor.Tensor) {
	reached := map[*tensor.Tensor]bool{}
	for x := range from {
		reached[x] = true
	}
	steps = leading(a.steps, reached, func(s *step) bool {
		if s.along {
			tops = append(tops, s)
		}
		return s.along
	})
	for _, x := range a.sources {
		if reached[x] {
			bare = append(bare, x)
		}
	}
	return steps, tops, bare
}

// sums returns Σ_c of the derivatives of the seeds' sum at t with respect to values x_c[s], times x_c[s], or times 1 if
// ones is true.
func (a *Action) sums(ctx context.Context, from seeds, ones bool, of Select) ([]float32, error) {
	steps, tops, bare := a.upper(from)
	leaves := append(list(nil), bare...)
	for _, s := range tops {
		leaves = append(leaves, s.out[0])
	}
	steps, from = throughLast(steps, from)
	grads := a.pull(steps, from, leaves)
	w := &work{ctx: ctx, l: a.Length, m: make([]float32, a.Length*a.Length)}
	for i, x := range bare {
		if of.Head != AllHeads {
			break
		}
		values := a.values(x, ones)
		d := x.Dim(-1)
		for t := range w.l {
			w.m[t*w.l+t] += kernel.Dot(grads[i][t*d:][:d], values[t*d:][:d])
		}
	}
	head := of.Head
	for i, s := range tops {
		w.p = grads[len(bare)+i]
		if of.Head != AllHeads {
			mine := mask(w.p, s, head)
			if s.spread != nil {
				head -= s.spread.heads()
			}
			if !mine {
				continue
			}
		}
		parts, ok := a.parts(s.in[0], ones)
		if w.parts = parts; ok && s.spread != nil {
			if err := s.spread.add(w); err != nil {
				return nil, err
			}
			continue
		}
		if err := a.slowly(w, s, ones); err != nil {
			return nil, err
		}
	}
	return w.m, ctx.Err()
}

// mask keeps only the part of p that belongs to a head of s, and reports whether s has that head.
func mask(p []float32, s *step, head int) bool {
	n := 0
	if s.spread != nil {
		n = s.spread.heads()
	}
	if head < 0 || head >= n {
		return false
	}
	width := s.out[0].Dim(-1)
	keep := make([]bool, width)
	for _, c := range s.spread.channels(head) {
		keep[c] = true
	}
	for i := range p {
		if !keep[i%width] {
			p[i] = 0
		}
	}
	return true
}

// Heads returns the number of heads that Select can pick: the heads or channels of the last operation along the
// sequence. If there are several such operations, it counts the heads of all, those of the last one first.
func (a *Action) Heads() int {
	_, tops, _ := a.upper(seeds{a.y: nil})
	n := 0
	for _, s := range tops {
		if s.spread != nil {
			n += s.spread.heads()
		}
	}
	return n
}

// values returns the values of a source, or ones in their place.
func (a *Action) values(x *tensor.Tensor, ones bool) []float32 {
	values := x.Floats()
	if ones {
		for i := range values {
			values[i] = 1
		}
	}
	return values
}

// slowly adds the sums of an operation along the sequence by a backward pass for each target.
func (a *Action) slowly(w *work, top *step, ones bool) error {
	steps := leading(a.steps, map[*tensor.Tensor]bool{top.out[0]: true}, nil)
	width := top.out[0].Dim(-1)
	seed := make([]float32, len(w.p))
	for t := range w.l {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		clear(seed)
		copy(seed[t*width:][:width], w.p[t*width:])
		grads := a.pull(steps, seeds{top.out[0]: seed}, a.sources)
		for i, x := range a.sources {
			values, d := a.values(x, ones), x.Dim(-1)
			for s := range w.l {
				w.m[t*w.l+s] += kernel.Dot(grads[i][s*d:][:d], values[s*d:][:d])
			}
		}
	}
	return nil
}

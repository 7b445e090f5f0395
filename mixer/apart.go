package mixer

import (
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// forward computes a mixer, or a part of one, for inputs along the rows.
type forward func(t *autograd.Tape, r *Rows, xs ...*tensor.Tensor) *tensor.Tensor

// piece is a range of n positions of row i, starting at position at.
type piece struct{ i, at, n int }

// inGroups calls f once for each group of pieces and assembles the results in the order of the rows. A group has pieces
// of different rows. All groups together cover all positions.
func (r *Rows) inGroups(t *autograd.Tape, groups [][]piece, f forward, xs ...*tensor.Tensor) *tensor.Tensor {
	ys, handed := make([]*tensor.Tensor, r.Total()), make([]*tensor.Tensor, r.Total()) // of pieces, by their starts
	hands, before := r.Handed != nil && r.Handed.Values == nil, r.Handed.layers()
	for _, group := range groups {
		part, ins := &Rows{Rows: &engine.Rows{}}, make([]*tensor.Tensor, len(xs))
		for _, p := range group {
			part.Add(p.n, r.Start(p.i)+p.at)
			part.States = append(part.States, r.state(p.i))
			if from := r.From(p.i) + p.at; r.Steps != nil {
				part.Steps = append(part.Steps, r.Steps[from:from+p.n]...)
			}
		}
		cut := func(x *tensor.Tensor) *tensor.Tensor {
			var cut []*tensor.Tensor
			for _, p := range group {
				cut = append(cut, t.Slice(x, r.From(p.i)+p.at, p.n))
			}
			return stacked(t, cut)
		}
		for k, x := range xs {
			ins[k] = cut(x)
		}
		if r.Handed != nil {
			part.Handed = &Handed{pruned: r.prunedOf(group, before)}
			if !hands {
				part.Handed.Values = cut(r.Handed.Values)
			}
		}
		y := f(t, part, ins...)
		r.addPruned(part.Handed, group, before)
		for k, p := range group {
			at, from, n := r.From(p.i)+p.at, part.From(k), part.Len(k)
			ys[at] = t.Slice(y, from, n)
			if hands && part.Handed.Values != nil {
				handed[at] = t.Slice(part.Handed.Values, from, n)
			}
		}
	}
	none := func(y *tensor.Tensor) bool { return y == nil }
	if handed = slices.DeleteFunc(handed, none); len(handed) > 0 {
		r.Handed.Values = stacked(t, handed)
	}
	return stacked(t, slices.DeleteFunc(ys, none))
}

// stacked returns the concatenation of xs.
func stacked(t *autograd.Tape, xs []*tensor.Tensor) *tensor.Tensor {
	if len(xs) == 1 {
		return xs[0]
	}
	return t.Stack(xs...)
}

// apart calls f once for each class of rows. It is for computations that choose one way for all rows of a call. Since a
// call has rows of only one class, a row's result has the same bits whatever other rows there are. If all rows are of
// one class, there is one call.
func (r *Rows) apart(t *autograd.Tape, u *tensor.Tensor, class func(i int) int,
	f func(*autograd.Tape, *tensor.Tensor, *Rows) *tensor.Tensor) *tensor.Tensor {
	var classes []int
	var groups [][]piece
	for i := range r.Count() {
		at := slices.Index(classes, class(i))
		if at < 0 {
			at = len(classes)
			classes, groups = append(classes, class(i)), append(groups, nil)
		}
		groups[at] = append(groups[at], piece{i, 0, r.Len(i)})
	}
	if len(classes) == 1 {
		return f(t, u, r)
	}
	of := func(t *autograd.Tape, r *Rows, xs ...*tensor.Tensor) *tensor.Tensor { return f(t, xs[0], r) }
	return r.inGroups(t, groups, of, u)
}

// oneByOne calls f once for all rows if none is stepped. Otherwise it calls f once for each position of the longest
// stepped row: first for the first positions of stepped rows and all positions of the others, then for the second
// positions, and so on. So stepped rows get the same results as in that many calls, whatever f does.
func (r *Rows) oneByOne(t *autograd.Tape, f forward, xs ...*tensor.Tensor) *tensor.Tensor {
	if !r.AnyStepped() {
		return f(t, r, xs...)
	}
	groups := make([][]piece, 1)
	for i := range r.Count() {
		if !r.Stepped(i) {
			groups[0] = append(groups[0], piece{i, 0, r.Len(i)})
			continue
		}
		for at := range r.Len(i) {
			if at == len(groups) {
				groups = append(groups, nil)
			}
			groups[at] = append(groups[at], piece{i, at, 1})
		}
	}
	return r.inGroups(t, groups, f, xs...)
}

// Run is m.Forward for any rows. If the mixer or the engine cannot step rows, Run computes stepped rows position by
// position.
func Run(t *autograd.Tape, m Mixer, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	if !r.AnyStepped() || m.Traits().StepsRows && t.StepsRows() {
		return m.Forward(t, u, r)
	}
	return r.oneByOne(t, func(t *autograd.Tape, r *Rows, xs ...*tensor.Tensor) *tensor.Tensor {
		return m.Forward(t, xs[0], r)
	}, u)
}

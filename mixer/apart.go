package mixer

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// apart maps the rows for which first is true in one call of forward, and the others in another, and puts the results together
// in the order of the rows. It is for what is computed in a way that all rows of a call have in common: a row has the same bits
// beside any others.
func (r *Rows) apart(t *autograd.Tape, u *tensor.Tensor, first func(i int) bool,
	forward func(*autograd.Tape, *tensor.Tensor, *Rows) *tensor.Tensor) *tensor.Tensor {
	ys := make([]*tensor.Tensor, r.Count())
	for _, which := range [2]bool{true, false} {
		part := &Rows{Rows: &engine.Rows{}}
		var us []*tensor.Tensor
		for i := range r.Count() {
			if first(i) == which {
				part.Add(r.Len(i), r.Start(i))
				part.States = append(part.States, r.state(i))
				us = append(us, t.Slice(u, r.From(i), r.Len(i)))
			}
		}
		y, k := forward(t, t.Stack(us...), part), 0
		for i := range r.Count() {
			if first(i) == which {
				ys[i] = t.Slice(y, part.From(k), part.Len(k))
				k++
			}
		}
	}
	return t.Stack(ys...)
}

// shortest is the length of the shortest row.
func (r *Rows) shortest() int {
	least := r.Len(0)
	for i := range r.Count() {
		least = min(least, r.Len(i))
	}
	return least
}

package mixer

import (
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// apart calls forward once for each class of rows and puts the results together in the order of the rows. It is for
// computations that choose one way for all rows of a call: with only one class in a call, a row has the same bits
// beside any others. If all rows are of one class there is one call.
func (r *Rows) apart(t *autograd.Tape, u *tensor.Tensor, class func(i int) int,
	forward func(*autograd.Tape, *tensor.Tensor, *Rows) *tensor.Tensor) *tensor.Tensor {
	classes := make([]int, r.Count())
	for i := range classes {
		classes[i] = class(i)
	}
	if one := slices.Compact(slices.Clone(classes)); len(one) == 1 {
		return forward(t, u, r)
	}
	ys := make([]*tensor.Tensor, r.Count())
	for first, c := range classes {
		if ys[first] != nil {
			continue
		}
		part, us, places := &Rows{Rows: &engine.Rows{}}, []*tensor.Tensor(nil), []int(nil)
		for i := range classes {
			if classes[i] == c {
				part.Add(r.Len(i), r.Start(i))
				part.States = append(part.States, r.state(i))
				us, places = append(us, t.Slice(u, r.From(i), r.Len(i))), append(places, i)
			}
		}
		y := forward(t, t.Stack(us...), part)
		for k, i := range places {
			ys[i] = t.Slice(y, part.From(k), part.Len(k))
		}
	}
	return t.Stack(ys...)
}

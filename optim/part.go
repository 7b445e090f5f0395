package optim

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Part holds the moments of the elements from First up to, but not including, End. Elements are numbered across all
// parameters, in order. An optimizer whose moments are in parts, on this machine or others, has none of its own.
type Part struct {
	First, End int
	M, V       []float32 // nil before the first update: zeros
}

// part is the range of n elements of one parameter, from index at on, that belongs to a Part.
type part struct{ param, at, n int }

// alignment divides the index in a parameter at which a part starts. It keeps each element in the same lane of the
// kernels, since the last bit of a result may depend on the lane.
const alignment = 256

// Parts splits the elements of all parameters into at most n parts of about equal size.
func (o *AdamW) Parts(n int) (all []Part) {
	total := 0
	var cuts []int // positions at which a part may end
	for _, x := range o.tensors {
		for at := alignment; at < x.Len(); at += alignment {
			cuts = append(cuts, total+at)
		}
		total += x.Len()
		cuts = append(cuts, total)
	}
	n = max(1, min(n, total/alignment))
	first := 0
	for i := range n {
		k, _ := slices.BinarySearch(cuts, total*(i+1)/n)
		if end := cuts[min(k, len(cuts)-1)]; end > first {
			all = append(all, Part{First: first, End: end})
			first = end
		}
	}
	return all
}

// Params returns the parameters.
func (o *AdamW) Params() []Param { return o.params }

// pieces returns the ranges of parameters that belong to the part.
func (p *Part) pieces(o *AdamW) (all []part) {
	begin := 0
	for i, x := range o.tensors {
		lo, hi := max(p.First, begin), min(p.End, begin+x.Len())
		if lo < hi {
			all = append(all, part{i, lo - begin, hi - lo})
		}
		begin += x.Len()
	}
	return all
}

// Each visits the elements of the part, as views of xs, which has a tensor for each parameter.
func (p *Part) Each(o *AdamW, xs []*tensor.Tensor, visit func(x *tensor.Tensor)) {
	for _, s := range p.pieces(o) {
		visit(xs[s.param].Part(s.at, s.n))
	}
}

// Parts updates the elements that belong to parts by their gradients, and zeroes these gradients. The parts of one
// optimizer may be updated on several machines: the results have the same bits as those of Range.
func (u Update) Parts(parts []*Part, grads []*tensor.Tensor) {
	o := u.optimizer
	var params, dw []*tensor.Tensor
	var moments []engine.Moments
	for _, p := range parts {
		if p.M == nil {
			room := tensor.Together(p.End-p.First, p.End-p.First)
			p.M, p.V = room[0], room[1]
		}
		m, v := p.M, p.V
		for _, s := range p.pieces(o) {
			params = append(params, o.tensors[s.param].Part(s.at, s.n))
			dw = append(dw, grads[s.param].Part(s.at, s.n))
			moments = append(moments, engine.Moments{M: tensor.FromSlice(m[:s.n], s.n),
				V: tensor.FromSlice(v[:s.n], s.n), LR: o.params[s.param].LR, Decay: o.params[s.param].Decay})
			m, v = m[s.n:], v[s.n:]
		}
	}
	o.backend.AdamW(params, moments, dw, u.step)
	changed(o.tensors)
}

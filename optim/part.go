package optim

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Part is the moments of the elements from First to before End of all parameters, which are counted one behind the
// other. An optimizer whose moments are in parts, here or on other machines, has none of its own.
type Part struct {
	First, End int
	M, V       []float32 // nil before the first update: zeros
}

// part is where a part has elements of a parameter.
type part struct{ param, at, n int }

// alignment is what the places of parts in a parameter are multiples of: the lanes of kernels, of which an element's
// last bit may depend.
const alignment = 256

// Parts cuts the elements of all parameters into at most n parts of about equal size.
func (o *AdamW) Parts(n int) (all []Part) {
	total := 0
	var cuts []int // where a part may end
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

// pieces are where the part has elements.
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

// Each visits the elements of the part by the tensors, of all parameters, that have them.
func (p *Part) Each(o *AdamW, xs []*tensor.Tensor, visit func(x *tensor.Tensor)) {
	for _, s := range p.pieces(o) {
		visit(xs[s.param].Part(s.at, s.n))
	}
}

// Parts updates the parameters in some parts, by their gradients, which become zero. Parts of one optimizer may be
// updated on several machines: an element has the same bits as in Range.
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

package train

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// split holds the moments of an optimizer in parts. Two machines of a team keep each part. They update the weights of
// the part and send them to the others.
type split struct {
	loop   *Training
	parts  []optim.Part
	kept   []bool
	coming map[int]*optim.Part // parts received incompletely
}

// splitParts is the most parts. The numbers of parts that machines keep differ by at most one.
const splitParts = 240

// newSplit returns moments that are zero. This machine keeps all of them or none.
func newSplit(l *Training, keeps bool) *split {
	s := &split{loop: l, parts: l.opt.Parts(splitParts), coming: map[int]*optim.Part{}}
	s.kept = make([]bool, len(s.parts))
	for i := range s.kept {
		s.kept[i] = keeps
	}
	return s
}

var _ cluster.Keeper = (*split)(nil)

// Parts returns the number of parts.
func (s *split) Parts() int { return len(s.parts) }

// Numbers returns the weights of a part or, if kept is true, its first moments followed by its second.
func (s *split) Numbers(i int, kept bool) (values []float32) {
	p := &s.parts[i]
	if kept {
		return append(append(values, p.M...), p.V...)
	}
	p.Each(s.loop.opt, s.loop.opt.Tensors(), func(x *tensor.Tensor) { values = append(values, x.Elements()...) })
	return values
}

// Set stores weights or moments of a part, from index at on. It reports whether the part is complete.
func (s *split) Set(i int, kept bool, at int, values []float32) (whole bool, err error) {
	p := &s.parts[i]
	n := p.End - p.First
	if kept {
		n *= 2
	}
	end := at + len(values)
	if end > n {
		return false, fmt.Errorf("part %d: found %d numbers, want %d", i, end, n)
	}
	if !kept {
		some := optim.Part{First: p.First + at, End: p.First + end}
		some.Each(s.loop.opt, s.loop.opt.Tensors(), func(x *tensor.Tensor) {
			x.CopyFrom(values[:x.Len()])
			values = values[x.Len():]
		})
		return end == n, nil
	}
	if at == 0 {
		s.coming[i] = &optim.Part{}
	}
	c := s.coming[i]
	if c == nil || len(c.M) != at {
		return false, fmt.Errorf("part %d: found numbers from %d on, want them in order", i, at)
	}
	c.M = append(c.M, values...)
	if whole = end == n || end == 0; whole {
		if end > 0 {
			p.M, p.V = c.M[:n/2:n/2], c.M[n/2:]
		}
		s.kept[i] = true
		delete(s.coming, i)
	}
	return whole, nil
}

// Has reports whether this machine keeps the moments of a part.
func (s *split) Has(i int) bool { return s.kept[i] }

// Forget drops the moments of a part.
func (s *split) Forget(i int) {
	s.kept[i], s.parts[i].M, s.parts[i].V = false, nil, nil
	delete(s.coming, i)
}

// bytes returns the memory of the moments that this machine keeps.
func (s *split) bytes() (n int) {
	for _, p := range s.parts {
		n += 4 * (len(p.M) + len(p.V))
	}
	return n
}

// step updates the parts that this machine keeps by the sum of gradients of count targets, and exchanges the new
// weights with all machines. It returns the norm of the mean gradient, as optim.AdamW.Step does.
func (s *split) step(sum *autograd.Gradients, count, factor float64) (norm float64, err error) {
	opt := s.loop.opt
	if norm = opt.Norm(sum.Each()) / count; !isFinite(norm) {
		return norm, nil
	}
	var own []*optim.Part
	for i := range s.parts {
		if s.kept[i] {
			own = append(own, &s.parts[i])
		}
	}
	opt.Begin(opt.Scale(norm)/count, factor).Parts(own, sum.Each())
	sum.Zero()
	err = s.loop.group.team.Share()
	for _, x := range opt.Tensors() {
		x.Changed()
	}
	return norm, s.loop.group.explain(err)
}

// partOf is called for n elements of a moment: those from index at on in the values of part i. It reports whether to
// continue.
type partOf func(i, at, n int, values *[]float32) bool

// moments visits the moments by their names in a checkpoint. each visits the parts that have elements of that moment.
func (s *split) moments(visit func(name string, p optim.Param, each func(partOf))) {
	first := 0
	for _, p := range s.loop.opt.Params() {
		for _, second := range []bool{false, true} {
			name, from := p.Name+optim.FirstMoment, first
			if second {
				name = p.Name + optim.SecondMoment
			}
			visit(name, p, func(do partOf) {
				for i := range s.parts {
					part := &s.parts[i]
					lo, hi := max(from, part.First), min(from+p.Len(), part.End)
					values := &part.M
					if second {
						values = &part.V
					}
					if lo < hi && !do(i, lo-part.First, hi-lo, values) {
						return
					}
				}
			})
		}
		first += p.Len()
	}
}

// write writes the moments into a checkpoint's folder. Other machines send theirs part by part, so that this machine
// needs memory for only one more part.
func (s *split) write(dir string) error {
	var all []checkpoint.Tensor
	var failed error
	lent := -1
	giveBack := func() {
		if lent >= 0 {
			s.Forget(lent)
			lent = -1
		}
	}
	defer giveBack()
	s.moments(func(name string, p optim.Param, each func(partOf)) {
		all = append(all, checkpoint.InPieces(name, checkpoint.F32, p.Shape(), func(yield func([]byte) bool) {
			each(func(i, at, n int, values *[]float32) bool {
				if !s.kept[i] {
					giveBack()
					lent = i
					if failed = s.loop.group.team.Lend(i); failed != nil {
						return false
					}
				}
				piece := make([]float32, n) // zeros, for a part without updates
				if *values != nil {
					piece = (*values)[at : at+n]
				}
				return yield(checkpoint.NewTensor("", []int{n}, piece).Data)
			})
		}))
	})
	err := WriteTensors(filepath.Join(dir, optimizerFile), all)
	return s.loop.group.explain(cmp.Or(failed, err))
}

// set sets the moments from a checkpoint. This machine must keep all of them.
func (s *split) set(get func(name string) ([]float32, error)) (err error) {
	s.moments(func(name string, p optim.Param, each func(partOf)) {
		if err != nil {
			return
		}
		var v []float32
		if v, err = get(name); err == nil && len(v) != p.Len() {
			err = fmt.Errorf("optimizer state %q has %d values, want %d", name, len(v), p.Len())
		}
		each(func(i, at, n int, values *[]float32) bool {
			if err == nil {
				if *values == nil {
					*values = make([]float32, s.parts[i].End-s.parts[i].First)
				}
				copy((*values)[at:], v[:n])
				v = v[n:]
			}
			return err == nil
		})
	})
	return err
}

package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// changedTensor is a tensor of files whose rows an adapter changes: one matrix, or a stack of experts' matrices.
type changedTensor struct {
	name        string
	rows, width int // of one matrix
	stack       int // matrices in the tensor; 0 if it is not a stack
	parts       []*changePart
}

// changePart is a change of some rows of a matrix: A (rank, width), and B (rows, rank), which is zero at the other
// rows.
type changePart struct {
	a, b   []float32
	rank   int
	scale  float64
	matrix int // index in the stack
}

// changedTensors returns the tensors whose rows the adapter of m changes. sources returns the tensors that make up a
// parameter.
func changedTensors(m *model.Model, sources func(parameter string) []model.Source) (all []*changedTensor) {
	found := map[string]*changedTensor{}
	for _, c := range m.Adapter().Changes {
		a, b, rank := c.A.Floats(), c.B.Floats(), c.A.Dim(0)
		from, shares, at := sources(c.Name), 0, 0
		for _, s := range from {
			shares += max(1, s.Share)
		}
		own := map[string]*changePart{}
		for _, s := range from {
			size := c.B.Dim(0) / shares * max(1, s.Share)
			x := found[s.Name]
			if x == nil {
				x = &changedTensor{name: s.Name, rows: size * max(1, s.Of) / max(1, s.Stack), width: c.A.Dim(1),
					stack: s.Stack}
				found[s.Name], all = x, append(all, x)
			}
			first := s.Part * size
			part := own[s.Name]
			if part == nil {
				part = &changePart{a, make([]float32, x.rows*rank), rank, c.Scale, first / x.rows}
				own[s.Name], x.parts = part, append(x.parts, part)
			}
			copy(part.b[first%x.rows*rank:], b[at*rank:][:size*rank])
			at += size
		}
		for _, part := range own {
			part.shrink()
		}
	}
	return all
}

// shrink removes the ranks for which B is zero in all rows.
func (p *changePart) shrink() {
	var used []int
	for r := range p.rank {
		for j := r; j < len(p.b); j += p.rank {
			if p.b[j] != 0 {
				used = append(used, r)
				break
			}
		}
	}
	if len(used) == 0 || len(used) == p.rank {
		return
	}
	k := len(p.a) / p.rank
	var a, b []float32
	for _, r := range used {
		a = append(a, p.a[r*k:][:k]...)
	}
	for row := range slices.Chunk(p.b, p.rank) {
		for _, r := range used {
			b = append(b, row[r])
		}
	}
	p.a, p.b, p.rank = a, b, len(used)
}

// joined joins changes of one matrix. Each has its own rows of A and columns of B. If the scales differ, they are
// multiplied into B.
func joined(parts []*changePart) changePart {
	all := changePart{scale: parts[0].scale}
	for _, p := range parts {
		all.rank += p.rank
		if p.scale != all.scale {
			all.scale = 1
		}
	}
	all.b = make([]float32, len(parts[0].b)/parts[0].rank*all.rank)
	from := 0
	for _, p := range parts {
		all.a = append(all.a, p.a...)
		for i, v := range p.b {
			x := float64(v)
			if p.scale != all.scale {
				x *= p.scale
			}
			all.b[i/p.rank*all.rank+from+i%p.rank] = float32(x)
		}
		from += p.rank
	}
	return all
}

package action

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// recurrent is s[t] = k[t] ⊙ (x[t] + R s[t-1]) with factors k that are held fixed: tanh(z)/z if the network has tanh.
type recurrent struct {
	engine  engine.Engine
	r       *tensor.Tensor // (n, n)
	back    *tensor.Tensor // its transpose
	factors []float32      // (l, n)
	n       int
}

// newRecurrent computes the factors of the first tanhs components from the inputs u and the results s.
func newRecurrent(eng engine.Engine, u, s, r []float32, tanhs int) *recurrent {
	n := 0
	for n*n < len(r) {
		n++
	}
	m := &recurrent{engine: eng, r: tensor.FromSlice(r, n, n), n: n, factors: make([]float32, len(u))}
	back := make([]float32, len(r))
	for i := range n {
		for j := range n {
			back[j*n+i] = r[i*n+j]
		}
	}
	m.back = tensor.FromSlice(back, n, n)
	z := make([]float32, n)
	for at := 0; at < len(u); at += n {
		for i := range z {
			z[i] = u[at+i]
			if at > 0 {
				z[i] += kernel.Dot(r[i*n:][:n], s[at-n:][:n])
			}
		}
		k := slopes(z, s[at:][:n], 0, 1)
		for i := tanhs; i < n; i++ {
			k[i] = 1
		}
		copy(m.factors[at:], k)
	}
	return m
}

// run computes the recurrence for other inputs.
func (m *recurrent) run(x *tensor.Tensor) *tensor.Tensor {
	var all []*tensor.Tensor
	for t := range x.Rows() {
		z := m.engine.Slice(x, t, 1)
		if t > 0 {
			z = m.engine.Add(z, m.engine.Linear(all[t-1], m.r, nil, engine.None))
		}
		all = append(all, m.engine.Mul(z, tensor.FromSlice(m.factors[t*m.n:][:m.n], 1, m.n)))
	}
	if len(all) == 1 {
		return all[0]
	}
	return m.engine.Stack(all...)
}

// heads returns 1, since all components affect each other.
func (m *recurrent) heads() int { return 1 }

func (m *recurrent) channels(int) []int {
	out := make([]int, m.n)
	for i := range out {
		out[i] = i
	}
	return out
}

// add goes back from all targets at once, one position at a time.
func (m *recurrent) add(w *work) error {
	n := m.n
	g := append([]float32(nil), w.p...) // for each target, at position r
	for r := w.l - 1; r >= 0; r-- {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		k, live := m.factors[r*n:][:n], g[r*n:]
		for t := r; t < w.l; t++ {
			own := g[t*n:][:n]
			for i := range own {
				own[i] *= k[i]
			}
			for i := range w.parts {
				if x, ok := w.parts[i].row(r); ok {
					w.m[t*w.l+r-w.parts[i].lag] += kernel.Dot(own, x)
				}
			}
		}
		if r == 0 {
			break
		}
		mark := m.engine.Mark()
		x := m.engine.New(w.l-r, n)
		x.CopyFrom(live)
		m.engine.Linear(x, m.back, nil, engine.None).CopyTo(live)
		m.engine.ReleaseSince(mark)
	}
	return nil
}

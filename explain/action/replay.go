package action

import (
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// replay returns y for other values. steps lead to y.
func (a *Action) replay(steps []*step, y *tensor.Tensor, values func(x []float32, width int) []float32) []float32 {
	mark := a.e.Engine.Mark()
	defer a.e.Engine.ReleaseSince(mark)
	with := map[*tensor.Tensor]*tensor.Tensor{}
	for _, x := range a.sources {
		with[x] = tensor.FromSlice(values(x.Floats(), x.Dim(-1)), x.Shape()...)
	}
	return a.again(steps, with, y).Floats()
}

// again runs steps with some tensors replaced, and returns y.
func (a *Action) again(steps []*step, with map[*tensor.Tensor]*tensor.Tensor, y *tensor.Tensor) *tensor.Tensor {
	for _, s := range steps {
		if with[s.out[0]] != nil {
			continue
		}
		in, some := append(list(nil), s.in...), false
		for i, x := range in {
			if z := with[x]; z != nil {
				in[i], some = z, true
			}
		}
		if !some {
			continue
		}
		for i, z := range s.run(in) {
			with[s.out[i]] = z
		}
	}
	if z := with[y]; z != nil {
		return z
	}
	return y
}

// Constant returns b (l, d_model): y for values of 0. The input of the last product is then often 0, so all rows are
// the same.
func (a *Action) Constant() []float32 {
	zeros := func(x []float32, _ int) []float32 { return make([]float32, len(x)) }
	n := len(a.steps) - 1
	if n < 0 || a.steps[n].weight == nil || a.steps[n].out[0] != a.y {
		return a.replay(a.steps, a.y, zeros)
	}
	last := a.steps[n]
	in := last.in[0]
	x := a.replay(a.steps[:n], in, zeros)
	mark := a.e.Engine.Mark()
	defer a.e.Engine.ReleaseSince(mark)
	if slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
		return last.run(list{tensor.FromSlice(x, in.Shape()...)})[0].Floats()
	}
	k := in.Dim(-1)
	row := last.run(list{tensor.FromSlice(x[:k], 1, k)})[0].Floats()
	return slices.Repeat(row, a.Length)
}

// throughLast goes back from the seeds through the last steps as long as these are only products, for which the steps
// need not be run again. It returns the remaining steps, and the seeds for their results.
func throughLast(steps []*step, from seeds) ([]*step, seeds) {
	for n := len(steps) - 1; n >= 0 && len(from) == 1; n-- {
		s := steps[n]
		dy := from[s.out[0]]
		if s.weight == nil || dy == nil {
			break
		}
		rows, k := s.weight.Dim(0), s.weight.Dim(1)
		dx := make([]float32, len(dy)/rows*k)
		kernel.Gemm(kernel.Product{Op: kernel.NN, M: len(dy) / rows, N: k, K: rows, A: dy, LDA: rows,
			B: s.weight.Floats(), LDB: k, C: dx, LDC: k})
		steps, from = steps[:n], seeds{s.in[0]: dx}
	}
	return steps, from
}

// seeds holds weights for the elements of tensors.
type seeds map[*tensor.Tensor][]float32

// pull returns the derivatives of the weighted sum over the seeds' tensors with respect to each of the leaves. steps
// lead from the leaves to the seeds' tensors.
func (a *Action) pull(steps []*step, from seeds, leaves []*tensor.Tensor) [][]float32 {
	mark := a.e.Engine.Mark()
	a.tape.Record(true)
	with := map[*tensor.Tensor]*tensor.Tensor{}
	for _, x := range leaves {
		z := tensor.FromSlice(x.Floats(), x.Shape()...)
		z.SetNeedsGrad(true)
		with[x] = z
	}
	a.again(steps, with, a.y)
	for y, dy := range from {
		if z := with[y]; z != nil {
			a.tape.Seed(z, tensor.FromSlice(dy, z.Shape()...))
		}
	}
	a.tape.BackwardSeeded()
	grads := make([][]float32, len(leaves))
	for i, x := range leaves {
		grads[i] = make([]float32, x.Len())
		if g := a.tape.Grad(with[x]); g != nil {
			g.CopyTo(grads[i])
		}
		a.tape.DropGrads(with[x])
	}
	a.tape.Record(false)
	a.e.Engine.ReleaseSince(mark)
	return grads
}

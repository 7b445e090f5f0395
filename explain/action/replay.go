package action

import "github.com/hippo-ssm/hippo/tensor"

// replay is y for other values.
func (a *Action) replay(values func(x []float32, width int) []float32) []float32 {
	mark := a.e.Engine.Mark()
	defer a.e.Engine.ReleaseSince(mark)
	with := map[*tensor.Tensor]*tensor.Tensor{}
	for _, x := range a.sources {
		with[x] = tensor.FromSlice(values(floats(x), x.Dim(-1)), x.Shape()...)
	}
	return floats(a.again(a.steps, with, a.y))
}

// again runs steps with some tensors replaced, and gives y.
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

// seeds are weights of the elements of tensors.
type seeds map[*tensor.Tensor][]float32

// pull gives what the weighted sum over the seeds' tensors has for derivatives by each of the leaves, from which steps
// lead to them.
func (a *Action) pull(steps []*step, from seeds, leaves []*tensor.Tensor) [][]float32 {
	mark := a.e.Engine.Mark()
	a.tape.Record(true)
	with := map[*tensor.Tensor]*tensor.Tensor{}
	for _, x := range leaves {
		z := tensor.FromSlice(floats(x), x.Shape()...)
		z.SetNeedsGrad(true)
		with[x] = z
	}
	a.again(steps, with, a.y)
	for y, dy := range from {
		if z := with[y]; z != nil {
			a.tape.Seed(z, dy)
		}
	}
	a.tape.BackwardSeeded()
	grads := make([][]float32, len(leaves))
	for i, x := range leaves {
		grads[i] = make([]float32, x.Len())
		a.tape.Grad(with[x], grads[i])
		a.tape.DropGrads(with[x])
	}
	a.tape.Record(false)
	a.e.Engine.ReleaseSince(mark)
	return grads
}

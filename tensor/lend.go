package tensor

import "github.com/hippo-ssm/hippo/internal/hugepage"

// leastLent is the number of elements that are worth a huge page.
const leastLent = 1 << 15

// Lend returns tensors of one shape, side by side in memory that belongs to owner: the tensors must not be used once
// owner is garbage. Their contents are unspecified. They are for many small pieces that are read as a whole.
func Lend[P any](owner *P, count int, shape ...int) []*Tensor {
	out, lengths := make([]*Tensor, count), make([]int, count)
	for i := range out {
		out[i] = Shaped(shape...)
		lengths[i] = out[i].Len()
	}
	n := out[0].Len()
	if count*n < leastLent {
		for i, memory := range Together(lengths...) {
			out[i].SetData(memory)
		}
		return out
	}
	memory := hugepage.Lend(owner, count*n)
	for i, x := range out {
		x.SetData(memory[i*n:][:n:n])
	}
	return out
}

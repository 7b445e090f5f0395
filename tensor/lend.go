package tensor

import "github.com/hippo-ssm/hippo/internal/hugepage"

// leastLent is the number of elements that are worth a huge page.
const leastLent = 1 << 15

// Lend returns two tensors of one shape, side by side, that belong to owner: once that is garbage, nothing may use
// them. Their contents are unspecified. They are for many small pieces that are read as a whole.
func Lend[P any](owner *P, shape ...int) (a, b *Tensor) {
	a, b = Shaped(shape...), Shaped(shape...)
	n := a.Len()
	if 2*n < leastLent {
		memory := Together(n, n)
		a.SetData(memory[0])
		b.SetData(memory[1])
		return a, b
	}
	memory := hugepage.Lend(owner, 2*n)
	a.SetData(memory[:n:n])
	b.SetData(memory[n:])
	return a, b
}

package optim

import "github.com/hippo-ssm/hippo/tensor"

// Values returns a copy of the values of all parameters.
func (o *AdamW) Values() []*tensor.Tensor {
	all := make([]*tensor.Tensor, len(o.tensors))
	for i, x := range o.tensors {
		all[i] = x.Clone()
	}
	return all
}

// Average moves averages of all parameters towards the parameters: a ← a + (1-keep)·(w - a). The averages start as
// copies from Values.
func (o *AdamW) Average(averages []*tensor.Tensor, keep float64) {
	o.backend.Average(averages, o.tensors, float32(1-keep))
}

// Swap exchanges the values of all parameters with the given ones.
func (o *AdamW) Swap(values []*tensor.Tensor) {
	o.backend.Swap(o.tensors, values)
	changed(o.tensors)
}

// Add adds the gradients src to dst and zeroes src. Both cover all parameters. The order of additions does not depend
// on the number of cores, so the sum has the same bits on any.
func (o *AdamW) Add(dst, src []*tensor.Tensor) { o.backend.Sum(dst, src) }

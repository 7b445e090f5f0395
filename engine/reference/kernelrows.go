package reference

import "github.com/hippo-ssm/hippo/tensor"

// KernelRows returns the kernels k themselves: here all are rows (l, h).
func (eng *Engine) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor { return k }

// KernelTaps is the length of the h kernels k (l, h), 0 if they are not that many.
func (eng *Engine) KernelTaps(k *tensor.Tensor, h int) int {
	if k.Dims() != 2 || k.Dim(1) != h {
		return 0
	}
	return k.Dim(0)
}

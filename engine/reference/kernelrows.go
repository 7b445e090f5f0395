package reference

import "github.com/hippo-ssm/hippo/tensor"

// KernelRows returns the kernels k themselves, because here all kernels are rows (l, h).
func (eng *Engine) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor { return k }

// KernelTaps returns the length of the h kernels k (l, h), or 0 if k does not hold h kernels.
func (eng *Engine) KernelTaps(k *tensor.Tensor, h int) int {
	if k.Dims() != 2 || k.Dim(1) != h {
		return 0
	}
	return k.Dim(0)
}

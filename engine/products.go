package engine

import "github.com/hippo-ssm/hippo/tensor"

// Products are the operations that multiply by weight matrices.
type Products interface {
	// Linear returns y = a(x Wᵀ + bias), x (…, k), W (n, k), bias (n) or nil, y (…, n).
	Linear(x, w, bias *tensor.Tensor, a Activation) *tensor.Tensor
	// LinearLowRank returns y = a(x Wᵀ + bias + scale·(x' Downᵀ) Upᵀ), x' of the shape of x, Down (r, k), Up (n, r).
	LinearLowRank(x, w, bias *tensor.Tensor, change LowRank, a Activation) *tensor.Tensor
	// BlockLinear returns y = a(x W + bias) where W consists of h blocks, x (…, h·k), W (h, k, n), bias (h, n), y (…,
	// h·n).
	BlockLinear(x, w, bias *tensor.Tensor, a Activation) *tensor.Tensor
	// Embedding returns y[i] = W[ids[i]], W (v, d), y (n, d).
	Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor
}

// LowRank is a change of rank r to a matrix W (n, k) (arXiv:2106.09685): W + Scale·Up Down. In the paper's notation
// Down (r, k) is A, Up (n, r) is B, and Scale is α/r. X is the input of the change: the input of the product, or the
// same after a dropout.
type LowRank struct {
	X, Down, Up *tensor.Tensor
	Scale       float64
}

// Norms are the operations that scale every row to a mean square of one.
type Norms interface {
	// AddLayerNorm returns s = x + r and y = (s - mean(s))/√(var(s)+eps) ⊙ w + b, over each of the groups of the last
	// axis. s = x if r is nil.
	AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor)
	// AddRMSNorm returns s = x + r and y = s/√(mean(s²)+eps) ⊙ w, over each of the groups of the last axis. s = x if r
	// is nil.
	AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor)
}

// Losses are the operations whose results are scalars.
type Losses interface {
	// LinearCrossEntropy returns the mean of -log softmax(x[r] Wᵀ)[targets[r]] over the rows with a target.
	LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor
	// CrossEntropy returns the mean of -log softmax(x[r])[targets[r]] over the rows with a target.
	CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor
	// SquaredError returns the mean of (x - target)² over the targets that are not NaN.
	SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor
	// Pinball returns the mean of max(τ(target - x), (τ-1)(target - x)) over levels τ and the targets that are not NaN.
	Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor
}

// Ignore is the target of a position that the loss ignores.
const Ignore int32 = -1

// CountNumbers returns the number of targets that are not NaN. NaN stands for an unknown target.
func CountNumbers(targets []float32) (count int) {
	for _, y := range targets {
		if y == y {
			count++
		}
	}
	return count
}

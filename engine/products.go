package engine

import "github.com/hippo-ssm/hippo/tensor"

// Products multiply by weight matrices.
type Products interface {
	// Linear: y = a(x Wᵀ + bias), x (…, k), W (n, k), bias (n) or nil, y (…, n).
	Linear(x, w, bias *tensor.Tensor, a Activation) *tensor.Tensor
	// LinearLowRank: y = a(x Wᵀ + bias + scale·(x' Downᵀ) Upᵀ), x' of the shape of x, Down (r, k), Up (n, r).
	LinearLowRank(x, w, bias *tensor.Tensor, change LowRank, a Activation) *tensor.Tensor
	// BlockLinear: y = a(x W + bias) with a W of h blocks, x (…, h·k), W (h, k, n), bias (h, n), y (…, h·n).
	BlockLinear(x, w, bias *tensor.Tensor, a Activation) *tensor.Tensor
	// Embedding: y[i] = W[ids[i]], W (v, d), y (n, d).
	Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor
}

// LowRank is a change of a matrix W (n, k) by one of rank r (arXiv:2106.09685): W + Scale·Up Down. In the paper's words
// Down (r, k) is A, Up (n, r) is B, and Scale α/r. X' is what the change is multiplied with: the inputs of the product,
// or the same after a dropout.
type LowRank struct {
	X, Down, Up *tensor.Tensor
	Scale       float64
}

// Norms scale every row to a mean square of one.
type Norms interface {
	// AddLayerNorm: s = x + r, y = (s - mean(s))/√(var(s)+eps) ⊙ w + b, over each of the groups of the last axis; s = x
	// for an r of nil.
	AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor)
	// AddRMSNorm: s = x + r, y = s/√(mean(s²)+eps) ⊙ w, over each of the groups of the last axis; s = x for an r of
	// nil.
	AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor)
}

// Losses are scalars.
type Losses interface {
	// LinearCrossEntropy: the mean of -log softmax(x[r] Wᵀ)[targets[r]] over the rows with a target.
	LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor
	// CrossEntropy: the mean of -log softmax(x[r])[targets[r]] over the rows with a target.
	CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor
	// SquaredError: the mean of (x - target)² over the targets that are not NaN.
	SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor
	// Pinball: the mean of max(τ(target - x), (τ-1)(target - x)) over levels τ and the targets that are not NaN.
	Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor
}

// Ignore is the target of a position that does not count in the loss.
const Ignore int32 = -1

// CountNumbers is the number of targets that are not NaN. NaN stands for an unknown target.
func CountNumbers(targets []float32) (count int) {
	for _, y := range targets {
		if y == y {
			count++
		}
	}
	return count
}

package autograd

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Linear computes y = a(x Wᵀ + bias): x (…, k), W (n, k), bias (n) or nil, y (…, n).
func (t *Tape) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if w.Dims() != 2 || w.Dim(1) != x.Dim(-1) || bias != nil && bias.Len() != w.Dim(0) {
		shapePanic("Linear", x, w, bias)
	}
	t.mustTrain("Linear", w)
	return t.engine.Linear(x, w, bias, a)
}

// LinearLowRank computes Linear with weights changed by a matrix of low rank, as LoRA does (arXiv:2106.09685):
//
//	y = a(x Wᵀ + bias + scale·(x' Downᵀ) Upᵀ)
//
// with x (…, k), W (n, k), bias (n) or nil, x' of the shape of x, Down (r, k), Up (n, r), and y (…, n).
func (t *Tape) LinearLowRank(x, w, bias *tensor.Tensor, change engine.LowRank, a engine.Activation) *tensor.Tensor {
	down, up := change.Down, change.Up
	if w.Dims() != 2 || w.Dim(1) != x.Dim(-1) || bias != nil && bias.Len() != w.Dim(0) || !change.X.SameShape(x) ||
		!isMatrix(down, down.Dim(0), w.Dim(1)) || !isMatrix(up, w.Dim(0), down.Dim(0)) {
		shapePanic("LinearLowRank", x, w, bias, change.X, down, up)
	}
	t.mustTrain("LinearLowRank", w)
	return t.engine.LinearLowRank(x, w, bias, change, a)
}

// BlockLinear computes y = a(x W + bias) with a block-diagonal W: x (…, h·k), W (h, k, n), bias (h, n), y (…, h·n).
// Part e of y depends only on part e of x and block e. A block has a row for each input, unlike the weights of Linear.
func (t *Tape) BlockLinear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if w.Dims() != 3 || w.Dim(0)*w.Dim(1) != x.Dim(-1) || bias.Len() != w.Dim(0)*w.Dim(2) {
		shapePanic("BlockLinear", x, w, bias)
	}
	return t.engine.BlockLinear(x, w, bias, a)
}

// Embedding copies rows of w (v, d): y[i] = w[ids[i]], y (n, d). Ids must be in [0, v).
func (t *Tape) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor {
	v := w.Dim(0)
	for _, id := range ids {
		if id < 0 || int(id) >= v {
			panic(fmt.Sprintf("autograd.Embedding: id %d outside a vocabulary of %d", id, v))
		}
	}
	t.mustTrain("Embedding", w)
	return t.engine.Embedding(w, ids)
}

// AddLayerNorm computes the residual sum and its normalization in one operation, for pre-norm blocks:
//
//	s = x + r,   y = (s - mean(s))/√(var(s)+eps) · w + b
//
// over the last axis, with x, r (…, d) and w, b (d). A nil r means s = x.
func (t *Tape) AddLayerNorm(x, r, w, b *tensor.Tensor, eps float64) (s, y *tensor.Tensor) {
	return t.layerNorm(x, r, w, b, 1, eps)
}

// LayerNorm is AddLayerNorm without a residual. It normalizes each of the groups that the last axis is divided into: a
// group norm (arXiv:1803.08494) of each position.
func (t *Tape) LayerNorm(x, w, b *tensor.Tensor, groups int, eps float64) *tensor.Tensor {
	_, y := t.layerNorm(x, nil, w, b, groups, eps)
	return y
}

func (t *Tape) layerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	d := x.Dim(-1)
	if groups < 1 || w.Len() != d || b.Len() != d || d%groups != 0 || r != nil && !r.SameShape(x) {
		shapePanic("AddLayerNorm", x, r, w, b)
	}
	return t.engine.AddLayerNorm(x, r, w, b, groups, eps)
}

// AddRMSNorm computes the residual sum and its normalization in one operation (arXiv:1910.07467):
//
//	s = x + r,   y = s/√(mean(s²)+eps) · w
//
// over the last axis, with x, r (…, d) and w (d). A nil r means s = x.
func (t *Tape) AddRMSNorm(x, r, w *tensor.Tensor, eps float64) (s, y *tensor.Tensor) {
	return t.rmsNorm(x, r, w, 1, eps)
}

// RMSNorm is AddRMSNorm without a residual. It normalizes each of the groups that the last axis is divided into.
func (t *Tape) RMSNorm(x, w *tensor.Tensor, groups int, eps float64) *tensor.Tensor {
	_, y := t.rmsNorm(x, nil, w, groups, eps)
	return y
}

func (t *Tape) rmsNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	if groups < 1 || w.Len() != x.Dim(-1) || w.Len()%groups != 0 || r != nil && !r.SameShape(x) {
		shapePanic("RMSNorm", x, r, w)
	}
	return t.engine.AddRMSNorm(x, r, w, groups, eps)
}

// LinearCrossEntropy computes the language-model head and its loss in one operation. It returns the mean, over the
// positions r that have a target, of
//
//	-log softmax(x[r] Wᵀ)[target[r]]
//
// with x (…, d), W (v, d), and one target per row, which is Ignore if there is none. The result is a scalar in nats.
// LinearCrossEntropy never holds all logits of a long sequence in memory. The head has no bias (H3, §5).
func (t *Tape) LinearCrossEntropy(x, w *tensor.Tensor, targets []int32) *tensor.Tensor {
	rows, d, v := x.Rows(), x.Dim(-1), w.Dim(0)
	if w.Dim(1) != d || len(targets) != rows {
		panic(fmt.Sprintf("autograd.LinearCrossEntropy: x %v, w %v, %d targets", x, w, len(targets)))
	}
	checkTargets("LinearCrossEntropy", targets, v)
	t.mustTrain("LinearCrossEntropy", w)
	return t.engine.LinearCrossEntropy(x, w, targets)
}

// CrossEntropy returns the mean of -log softmax(x[r])[targets[r]], in nats, over the rows r of logits x (…, v) that
// have a target, which means one other than Ignore. For the vocabularies of language models LinearCrossEntropy is
// faster and takes less memory.
func (t *Tape) CrossEntropy(x *tensor.Tensor, targets []int32) *tensor.Tensor {
	rows, v := x.Rows(), x.Dim(-1)
	if len(targets) != rows {
		panic(fmt.Sprintf("autograd.CrossEntropy: x %v, %d targets", x, len(targets)))
	}
	checkTargets("CrossEntropy", targets, v)
	return t.engine.CrossEntropy(x, targets)
}

// SquaredError returns the mean of (x - target)² over the elements of x (…, n) whose target is not NaN.
func (t *Tape) SquaredError(x *tensor.Tensor, target []float32) *tensor.Tensor {
	if len(target) != x.Len() {
		panic(fmt.Sprintf("autograd.SquaredError: x %v, %d targets", x, len(target)))
	}
	return t.engine.SquaredError(x, target)
}

// Pinball returns the loss of quantiles (Koenker and Bassett, 1978): the mean of max(τ(y - x), (τ-1)(y - x)) over the
// targets y that are not NaN and the levels τ. x (…, n·q) holds the q quantiles of the first target, then those of the
// second, and so on. In the mean, the loss is least if x is the τ-quantile of y. Pinball panics unless each level is
// between 0 and 1.
func (t *Tape) Pinball(x *tensor.Tensor, target, levels []float32) *tensor.Tensor {
	if len(levels) == 0 || len(target)*len(levels) != x.Len() || !(slices.Min(levels) > 0 && slices.Max(levels) < 1) {
		panic(fmt.Sprintf("autograd.Pinball: x %v, %d targets, levels %v", x, len(target), levels))
	}
	return t.engine.Pinball(x, target, levels)
}

// checkTargets panics unless every target is one of v classes or Ignore.
func checkTargets(name string, targets []int32, v int) {
	for _, id := range targets {
		if id != engine.Ignore && (id < 0 || int(id) >= v) {
			panic(fmt.Sprintf("autograd.%s: target %d, want one of %d classes", name, id, v))
		}
	}
}

// mustTrain panics if the weights w are packed and need a gradient. Backward can compute gradients of the inputs of
// packed weights, but not of the weights.
func (t *Tape) mustTrain(op string, w *tensor.Tensor) {
	if w.Packed() != nil && !t.step.Frozen && t.wants(w) {
		panic("autograd." + op + ": the weights " + w.String() +
			" are packed for inference, want the elements of one that trains")
	}
}

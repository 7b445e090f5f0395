package nn

import (
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// InitStd is the standard deviation of the weights of Linear and Embedding in the releases.
const InitStd = 0.02

// Linear computes y = a(x Wᵀ + b), with x (…, in), W (out, in), and b (out), which may be nil for zeros.
type Linear struct {
	Weight, Bias *Param
	Activation   engine.Activation
	// Edit, if not nil, changes x first. It is for tools that look into a model.
	Edit func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor
}

// NewLinear returns a Linear layer. The initial deviation of its weights is std, and its bias is initialized to zero.
func NewLinear(in, out int, std float64) *Linear {
	return &Linear{Weight: NewMatrix(Normal(std), out, in), Bias: NewParam(Bias, Constant(0), out)}
}

// Forward maps x (…, in) to (…, out).
func (m *Linear) Forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	var bias *tensor.Tensor
	if m.Bias != nil {
		bias = m.Bias.Tensor
	}
	if m.Edit != nil {
		x = m.Edit(t, x)
	}
	if change := m.Weight.Change; change != nil {
		return change.forward(t, x, m.Weight.Tensor, bias, m.Activation)
	}
	return t.Linear(x, m.Weight.Tensor, bias, m.Activation)
}

// Params visits weight and bias.
func (m *Linear) Params(prefix string, visit Visitor) {
	visit(prefix+"weight", m.Weight)
	if m.Bias != nil {
		visit(prefix+"bias", m.Bias)
	}
}

// Embedding is a table with a row for each token id: (v, d).
type Embedding struct{ Weight *Param }

// NewEmbedding returns a table of vocab rows.
func NewEmbedding(vocab, d int) *Embedding {
	return &Embedding{Weight: NewParam(Table, Normal(InitStd), vocab, d)}
}

// Forward copies the rows of n ids to (n, d).
func (m *Embedding) Forward(t *autograd.Tape, ids []int32) *tensor.Tensor {
	return t.Embedding(m.Weight.Tensor, ids)
}

// Params visits the table.
func (m *Embedding) Params(prefix string, visit Visitor) { visit(prefix+"weight", m.Weight) }

// LayerNorm normalizes the last axis: (x-mean)/√(var+eps)·w + b.
type LayerNorm struct {
	Weight, Bias *Param
	Eps          float64
}

// NewLayerNorm returns a norm over d channels that is initialized to the identity.
func NewLayerNorm(d int, eps float64) *LayerNorm {
	return &LayerNorm{Weight: NewParam(Norm, Constant(1), d), Bias: NewParam(Norm, Constant(0), d), Eps: eps}
}

// AddForward returns s = x + r (r may be nil) and the norm of s.
func (m *LayerNorm) AddForward(t *autograd.Tape, x, r *tensor.Tensor) (s, y *tensor.Tensor) {
	return t.AddLayerNorm(x, r, m.Weight.Tensor, m.Bias.Tensor, m.Eps)
}

// Params visits weight and bias.
func (m *LayerNorm) Params(prefix string, visit Visitor) {
	visit(prefix+"weight", m.Weight)
	visit(prefix+"bias", m.Bias)
}

// RMSNorm divides the last axis by its root mean square: x/√(mean(x²)+eps)·w. arXiv:1910.07467.
type RMSNorm struct {
	Weight *Param
	Eps    float64
	one    func() *tensor.Tensor // added to the weight, or nil
}

// NewRMSNorm returns a norm over d channels whose weights are initialized to one.
func NewRMSNorm(d int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: NewParam(Norm, Constant(1), d), Eps: eps}
}

// NewRMSNormPlusOne returns the norm x/√(mean(x²)+eps)·(1 + w). Its weights are initialized to zero.
func NewRMSNormPlusOne(d int, eps float64) *RMSNorm {
	return &RMSNorm{Weight: NewParam(Norm, Constant(0), d), Eps: eps, one: sync.OnceValue(func() *tensor.Tensor {
		x := tensor.New(d)
		x.Fill(1)
		return x
	})}
}

// AddForward returns s = x + r (r may be nil) and the norm of s.
func (m *RMSNorm) AddForward(t *autograd.Tape, x, r *tensor.Tensor) (s, y *tensor.Tensor) {
	return t.AddRMSNorm(x, r, m.Factors(t), m.Eps)
}

// Factors returns the factors of the normalized channels: w, or 1 + w.
func (m *RMSNorm) Factors(t *autograd.Tape) *tensor.Tensor {
	if m.one == nil {
		return m.Weight.Tensor
	}
	return t.Add(m.Weight.Tensor, m.one())
}

// Params visits the weight.
func (m *RMSNorm) Params(prefix string, visit Visitor) { visit(prefix+"weight", m.Weight) }

// AddNorm is a norm of a residual stream.
type AddNorm interface {
	Module
	// AddForward returns s = x + r (r may be nil) and the norm of s.
	AddForward(t *autograd.Tape, x, r *tensor.Tensor) (s, y *tensor.Tensor)
}

// Sum is an AddNorm that does not normalize. It returns the sum alone, for blocks whose norms come after their parts.
type Sum struct{}

// AddForward returns s = x + r twice.
func (Sum) AddForward(t *autograd.Tape, x, r *tensor.Tensor) (s, y *tensor.Tensor) {
	if r != nil {
		x = t.Add(x, r)
	}
	return x, x
}

// Params visits nothing.
func (Sum) Params(string, Visitor) {}

// MLP computes fc2(a(fc1(x))) with the tanh GELU of the releases, or another activation.
type MLP struct{ FC1, FC2 *Linear }

// NewMLP returns an MLP of inner width dInner. The initial deviation of its second layer is outStd.
func NewMLP(d, dInner int, outStd float64) *MLP {
	m := &MLP{FC1: NewLinear(d, dInner, InitStd), FC2: NewLinear(dInner, d, outStd)}
	m.FC1.Activation = engine.GeluTanh
	return m
}

// WithoutBias removes the biases.
func (m *MLP) WithoutBias() { m.FC1.Bias, m.FC2.Bias = nil, nil }

// Forward maps (…, d) to (…, d).
func (m *MLP) Forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	return m.FC2.Forward(t, m.FC1.Forward(t, x))
}

// Params visits fc1 and fc2.
func (m *MLP) Params(prefix string, visit Visitor) {
	m.FC1.Params(prefix+"fc1.", visit)
	m.FC2.Params(prefix+"fc2.", visit)
}

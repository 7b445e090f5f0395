package engine

import "github.com/hippo-ssm/hippo/tensor"

// Pointwise are the operations that compute each element from the elements at the same index.
type Pointwise interface {
	// Activate returns y = a(x).
	Activate(x *tensor.Tensor, a Activation) *tensor.Tensor
	// Add returns y = a + b.
	Add(a, b *tensor.Tensor) *tensor.Tensor
	// AddBias returns y = a(x + bias), x (…, d), bias (d).
	AddBias(x, bias *tensor.Tensor, a Activation) *tensor.Tensor
	// Mul returns z = x ⊙ y.
	Mul(x, y *tensor.Tensor) *tensor.Tensor
	// Gate returns y = x ⊙ a(z).
	Gate(x, z *tensor.Tensor, a Activation) *tensor.Tensor
	// GLU returns y = a ⊙ σ(g), x = (a, g): x (…, 2d), y (…, d).
	GLU(x *tensor.Tensor) *tensor.Tensor
	// NegExp returns y = -e^x.
	NegExp(x *tensor.Tensor) *tensor.Tensor
	// Sine returns y = sin(f ⊙ x), x (…, d), f (d).
	Sine(x, f *tensor.Tensor) *tensor.Tensor
	// Scale returns y = c·x.
	Scale(x *tensor.Tensor, c float64) *tensor.Tensor
	// Clamp returns y = min(max(x, lo), hi).
	Clamp(x *tensor.Tensor, lo, hi float64) *tensor.Tensor
	// ScaleShift returns y = x ⊙ γ + β, x (…, d), γ, β (d).
	ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor
	// Dropout returns y[j] = x[j]/(1-p) where counter.Keep(r.Seed(i, op), j, p) is true, else 0, for element j of row
	// i.
	Dropout(x *tensor.Tensor, p float64, r *Rows, op uint64) *tensor.Tensor
	// DecayWindow returns y[i, c] = h[i, c]·(e^(-t[i]·|rate[c]|) + shift), h (l, d), rate (d). t and rate get no
	// gradients.
	DecayWindow(h, at, rate *tensor.Tensor, shift float32) *tensor.Tensor
	// Turn returns the vectors x of groups, repeated for the heads of each group, plus a bias, rotated by angles.
	Turn(x, bias, phase *tensor.Tensor, by Turning) *tensor.Tensor
	// RealPairs returns y[i] = (x[i], 0), the complex numbers with the real parts x.
	RealPairs(x *tensor.Tensor) *tensor.Tensor
}

// Activation is a pointwise function, alone or fused into Linear.
type Activation int

// The activations.
const (
	None        Activation = iota
	GeluTanh               // ½x(1+tanh(√(2/π)(x+0.044715x³))), as in the released H3 models
	GeluErf                // ½x(1+erf(x/√2)), as in S4D
	SiLU                   // x/(1+e^-x)
	Sigmoid                // 1/(1+e^-x)
	Tanh                   // tanh x
	Softplus               // log(1+e^x)
	SquaredReLU            // max(x, 0)² (Primer, arXiv:2109.08668)
	HeavyTail              // 1+x for x ≥ 0, otherwise 1/(1-x): for the A of Mamba-3
)

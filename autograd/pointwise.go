package autograd

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Activate computes y = a(x) element by element.
func (t *Tape) Activate(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	return t.engine.Activate(x, a)
}

// Add computes y = a + b for equal shapes.
func (t *Tape) Add(a, b *tensor.Tensor) *tensor.Tensor {
	if !a.SameShape(b) {
		shapePanic("Add", a, b)
	}
	return t.engine.Add(a, b)
}

// AddBias computes y = a(x + bias): x (…, d), bias (d).
func (t *Tape) AddBias(x, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	d := x.Dim(-1)
	if bias.Len() != d {
		shapePanic("AddBias", x, bias)
	}
	return t.engine.AddBias(x, bias, a)
}

// Mul computes z = x ⊙ y for tensors of equal shapes.
func (t *Tape) Mul(x, y *tensor.Tensor) *tensor.Tensor {
	if !x.SameShape(y) {
		shapePanic("Mul", x, y)
	}
	return t.engine.Mul(x, y)
}

// Gate computes y = x · a(z) element by element, such as Mamba's gate with SiLU. Unlike in Mul, explanations hold the
// second factor fixed.
func (t *Tape) Gate(x, z *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if !x.SameShape(z) {
		shapePanic("Gate", x, z)
	}
	return t.engine.Gate(x, z, a)
}

// GLU splits the last axis in halves, x = (a, g), and computes y = a · sigmoid(g): x (…, 2d), y (…, d). Dauphin et al.,
// arXiv:1612.08083.
func (t *Tape) GLU(x *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(-1) / 2
	if x.Dim(-1) != 2*d {
		shapePanic("GLU", x)
	}
	return t.engine.GLU(x)
}

// NegExp computes y = -e^x element by element, for the A of Mamba, which is negative for any parameter.
func (t *Tape) NegExp(x *tensor.Tensor) *tensor.Tensor {
	return t.engine.NegExp(x)
}

// Sine computes y = sin(f·x) for x (…, d) with a frequency f for each channel, d elements. It is the activation of
// Hyena's filters, after SIREN (arXiv:2006.09661).
func (t *Tape) Sine(x, f *tensor.Tensor) *tensor.Tensor {
	d := f.Len()
	if x.Dim(-1) != d {
		shapePanic("Sine", x, f)
	}
	return t.engine.Sine(x, f)
}

// Scale computes y = c·x for a number c. It returns x itself if c is 1.
func (t *Tape) Scale(x *tensor.Tensor, c float64) *tensor.Tensor {
	if c == 1 {
		return x
	}
	return t.engine.Scale(x, c)
}

// Clamp computes y = min(max(x, lo), hi) element by element. Elements outside the range carry no gradient.
func (t *Tape) Clamp(x *tensor.Tensor, lo, hi float64) *tensor.Tensor {
	if !(lo <= hi) {
		shapePanic("Clamp", x)
	}
	return t.engine.Clamp(x, lo, hi)
}

// ScaleShift computes y = x ⊙ γ + β for every row of x (…, d), with γ, β (d).
func (t *Tape) ScaleShift(x, gamma, beta *tensor.Tensor) *tensor.Tensor {
	d := x.Dim(-1)
	if gamma.Len() != d || beta.Len() != d {
		shapePanic("ScaleShift", x, gamma, beta)
	}
	return t.engine.ScaleShift(x, gamma, beta)
}

// Dropout sets each element of x (n, d) to zero with probability p and multiplies the others by 1/(1-p). It is the
// identity if the rows do not train or p is 0. The mask of a row depends on the row's seed, on the number of dropouts
// on the tape since Reset, and on the place in the row. It is not stored, and does not depend on other rows.
func (t *Tape) Dropout(x *tensor.Tensor, p float64, r *engine.Rows) *tensor.Tensor {
	checkRows("Dropout", r, x)
	if !r.Trains() || p <= 0 {
		return x
	}
	return t.engine.Dropout(x, p, r, t.drop())
}

// AddGumbel adds noise -log(-log u), with u uniform in (0, 1), to each element of x (n, d), if the rows train. The
// largest element of the sum is then a sample of softmax(x) (arXiv:1611.01144, §2.1). The noise of a row depends on the
// same values as the mask of Dropout.
func (t *Tape) AddGumbel(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	checkRows("AddGumbel", r, x)
	if !r.Trains() {
		return x
	}
	noise, d, op := make([]float32, x.Len()), x.Dim(-1), t.drop()
	for i := range r.Count() {
		row := noise[r.From(i)*d:][:r.Len(i)*d]
		for j := range row {
			row[j] = float32(-math.Log(-math.Log(r.Uniform(i, op, j))))
		}
	}
	y := t.New(x.Shape()...)
	y.CopyFrom(noise)
	return t.engine.Add(x, y)
}

// Over sets the rows of the inputs of DropoutOver until Reset, or nil for none.
func (t *Tape) Over(r *engine.Rows) { t.over = r }

// DropoutOver is Dropout of x (n, d) for layers that do not know their rows: it takes the rows that Over has set. It is
// the identity if there are no rows, or if n is not their number of positions.
func (t *Tape) DropoutOver(x *tensor.Tensor, p float64) *tensor.Tensor {
	if t.over == nil || p <= 0 || x.Rows() != t.over.Total() {
		return x
	}
	return t.Dropout(x, p, t.over)
}

// DecayWindow multiplies kernels h (l, d) by the window of Hyena's filters, which decays at a different rate in each
// channel:
//
//	y[i, c] = h[i, c]·(e^(-t[i]·|rate[c]|) + shift)
//
// t has l elements or more, and rate is (d). Both are constants without gradients. Hyena, arXiv:2302.10866, §3.3.
func (t *Tape) DecayWindow(h, at, rate *tensor.Tensor, shift float32) *tensor.Tensor {
	d := rate.Len()
	if h.Dim(-1) != d || at.Len() < h.Rows() {
		shapePanic("DecayWindow", h, at, rate)
	}
	return t.engine.DecayWindow(h, at, rate, shift)
}

// Turn repeats the vectors of each group for the group's heads, adds a bias and rotates pairs of components by angles:
//
//	u_rh = x_rg + bias_rh,   (a, b) → (a·cos φ_hi - b·sin φ_hi, a·sin φ_hi + b·cos φ_hi)   for pair i of u_rh
//
// for each rank r and head h of group g, with x (…, R·g·n), bias (R·h, n), phase (…, h·a) for the first a pairs, and y
// (…, R·h·n).
func (t *Tape) Turn(x, bias, phase *tensor.Tensor, by engine.Turning) *tensor.Tensor {
	if !by.Valid(x, bias, phase) {
		shapePanic("Turn", x, bias, phase)
	}
	return t.engine.Turn(x, bias, phase, by)
}

// RealPairs returns the real parameters x (h, n) as complex numbers (h, n, 2) with imaginary part 0, for systems with
// real modes.
func (t *Tape) RealPairs(x *tensor.Tensor) *tensor.Tensor {
	return t.engine.RealPairs(x)
}

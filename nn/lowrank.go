package nn

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// LowRank changes the weights W (n, k) of a Linear by a matrix of rank r, as in LoRA (arXiv:2106.09685):
//
//	y = a(x Wᵀ + bias + α/r·(x Aᵀ) Bᵀ),   A (r, k), B (n, r)
//
// B is initialized to zero, so that a new LowRank changes nothing. A is initialized as in the PEFT library, uniformly
// between ±1/√k, which is Kaiming's initialization with a slope of √5.
type LowRank struct {
	A, B  *Param
	Scale float64 // α/r
	// Dropout is the probability that an element of x is zeroed before A, in rows that train, as in the PEFT library: x
	// Aᵀ becomes dropout(x) Aᵀ, and x Wᵀ is unchanged. The other elements are multiplied by 1/(1-Dropout). See
	// autograd.Tape.Over.
	Dropout float64
}

// NewLowRank returns a change of rank r of weights (n, k). Its parameters have no values yet.
func NewLowRank(n, k, r int, scale float64) *LowRank {
	return &LowRank{
		A: NewParam(Weight, Uniform(1/math.Sqrt(float64(k))), r, k), B: NewParam(Weight, Constant(0), n, r),
		Scale: scale,
	}
}

// forward computes Linear with the change.
func (c *LowRank) forward(t *autograd.Tape, x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	change := engine.LowRank{X: t.DropoutOver(x, c.Dropout), Down: c.A.Tensor, Up: c.B.Tensor, Scale: c.Scale}
	return t.LinearLowRank(x, w, bias, change, a)
}

// Params visits A and B under their names in PEFT.
func (c *LowRank) Params(prefix string, visit Visitor) {
	visit(prefix+"lora_A.weight", c.A)
	visit(prefix+"lora_B.weight", c.B)
}

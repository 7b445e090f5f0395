// Package nn provides the building blocks of every network: parameters with their names and roles, Linear, Embedding,
// LayerNorm, RMSNorm and the MLP. Names of parameters are those of the official H3 release.
package nn

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/tensor"
)

// Role is the purpose of a parameter. It determines weight decay and learning rate.
type Role int

// The roles.
const (
	Weight    Role = iota // matrices of Linear layers
	Mixing                // other weights, with the same decay: filters, matrices over positions
	Table                 // embedding tables
	Bias                  // biases of Linear layers
	Norm                  // weights and biases of norms
	SSM                   // SSM parameters that the releases decay: C, D, the shift's C and D; matrices of recurrences
	SSMSystem             // SSM parameters that the releases never decay: log_dt, A, B, the shift's B
)

// Param is a trainable tensor.
type Param struct {
	*tensor.Tensor
	Role Role
	// Init fills a new parameter. Each parameter has its own random generator, so its values do not depend on the other
	// parameters.
	Init func(rng *rand.Rand, x []float32)
	// Fine marks a matrix that takes 8 bits in a model packed in 4: its rounding errors would cost more than its size.
	Fine bool
	// Product marks a matrix that is used only as the weights of a Linear. Only such a matrix may have a Change.
	Product bool
	// Change is added to the weights of a Linear, or nil. It is not a parameter of the model: see model.Adapter.
	Change *LowRank
}

// NewParam returns a parameter without values.
func NewParam(role Role, init func(rng *rand.Rand, x []float32), shape ...int) *Param {
	p := &Param{Tensor: tensor.Shaped(shape...), Role: role, Init: init}
	p.SetNeedsGrad(true)
	return p
}

// NewMatrix returns the weights of a Linear.
func NewMatrix(init func(rng *rand.Rand, x []float32), out, in int) *Param {
	p := NewParam(Weight, init, out, in)
	p.Product = true
	return p
}

// NewBuffer returns a tensor that is saved among the parameters but not trained: a constant of the model.
func NewBuffer(init func(rng *rand.Rand, x []float32), shape ...int) *Param {
	p := NewParam(SSMSystem, init, shape...)
	p.SetNeedsGrad(false)
	return p
}

// Visitor is called with the name of every parameter, in the order of the official release.
type Visitor func(name string, p *Param)

// Module is implemented by everything that has parameters.
type Module interface {
	// Params calls visit for every parameter. Names begin with prefix.
	Params(prefix string, visit Visitor)
}

// InitAll initializes every parameter of m from seed.
func InitAll(m Module, prefix string, seed uint64) {
	values := Values(m)
	m.Params(prefix, func(name string, p *Param) {
		h := fnv.New64a()
		h.Write([]byte(name))
		x := values()
		p.Init(rand.New(rand.NewPCG(seed, h.Sum64())), x)
		p.SetData(x)
	})
}

// Values allocates the values of all parameters of m in one piece of memory, in the order in which a forward pass reads
// them. Each call of the returned function returns the values of the next parameter.
func Values(m Module) func() []float32 {
	var lengths []int
	m.Params("", func(_ string, p *Param) { lengths = append(lengths, p.Len()) })
	parts := tensor.Together(lengths...)
	return func() []float32 {
		x := parts[0]
		parts = parts[1:]
		return x
	}
}

// Normal returns an Init that samples from a normal distribution of mean 0 and deviation std.
func Normal(std float64) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32(rng.NormFloat64() * std)
		}
	}
}

// Uniform returns an Init that samples uniformly between -bound and bound.
func Uniform(bound float64) func(*rand.Rand, []float32) {
	return func(rng *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32((2*rng.Float64() - 1) * bound)
		}
	}
}

// Constant returns an Init that sets every element to v.
func Constant(v float32) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		for i := range x {
			x[i] = v
		}
	}
}

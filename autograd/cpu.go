package autograd

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// The functions below concern the CPU engine only.

// Pack replaces the elements of weight matrices (n, k), those of Linear, LinearCrossEntropy and Embedding, by a packed
// form for inference, with which products read memory at full speed. Such weights cannot have a gradient, and their
// elements cannot be restored.
func Pack(p engine.Precision, ws ...*tensor.Tensor) { cpu.Pack(p, ws...) }

// PackRows returns the packed forms of weight matrices whose elements are not in memory, for tensor.Tensor.SetPacked.
// It needs little memory besides.
func PackRows(p engine.Precision, ms ...engine.Matrix) []tensor.Packed { return cpu.PackRows(p, ms...) }

// PackExact is PackRows for matrices whose elements are bfloat16 numbers, which loses nothing: results are those of
// float32, and keys and values stay float32.
func PackExact(ms ...engine.Matrix) []tensor.Packed { return cpu.PackExact(ms...) }

// PackFrozen is PackRows for the weights of a model of which other parts train: they are rounded to BF16 or Int8, and
// results are those of float32 with the rounded weights, forward and backward. They must not want a gradient.
func PackFrozen(p engine.Precision, ms ...engine.Matrix) []tensor.Packed {
	return cpu.PackFrozen(p, ms...)
}

// PackGroups returns the packed forms of weight matrices that are integers already, which rounds nothing. The precision
// is Int8, Int4 or Int4Min.
func PackGroups(p engine.Precision, ms ...engine.Groups) []tensor.Packed {
	return cpu.PackGroups(p, ms...)
}

// LossMemory is the number of floats that LinearCrossEntropy keeps for backward, x being (rows, d) and W (v, d), which
// may be frozen.
func LossMemory(rows, d, v int, frozen bool) int { return cpu.LossMemory(rows, d, v, frozen) }

// CPULevel names the processor features in use (generic, avx2, avx512, avx512bf16): the highest the machine has, or
// what HIPPO_CPU asks for. If the machine lacks that, kernels are generic and the error says what there is.
func CPULevel() (string, error) { return cpu.CPULevel() }

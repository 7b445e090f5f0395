package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// CPULevel names the processor features that the kernels use (generic, avx2, avx512, avx512bf16, avx512bf16+amx, or a
// level between those, such as avx2+vnni): the highest the machine has, or what HIPPO_CPU asks for. If the machine
// lacks that, kernels are generic and the error says what there is.
func CPULevel() (string, error) { return kernel.CPULevel() }

// Rounding names the lowest level whose results, with products in float32 and in p, have the bits of those of the level
// in use.
func Rounding(p engine.Precision) string { return kernel.Rounding(kernel.Precision(p)) }

// Levels are the names of the levels that CPULevel might be, from the lowest, up to that in use.
func Levels() []string { return kernel.LevelsBelow() }

// Use makes kernels use one of Levels: see kernel.Use.
func Use(name string) error { return kernel.Use(name) }

// Kernels says which code computes what at that level, a line for all work with the same code.
func Kernels() []string { return kernel.InUse() }

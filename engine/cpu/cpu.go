package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// CPULevel returns the processor features that the kernels use (generic, avx2, avx512, avx512bf16, avx512bf16+amx, or a
// level between those, such as avx2+vnni): the highest level that the machine has, or the one that HIPPO_CPU asks for.
// If the machine lacks that, kernels are generic and the error lists the available levels.
func CPULevel() (string, error) { return kernel.CPULevel() }

// Rounding returns the lowest level whose results, with products in float32 and in p, are bit for bit those of the
// level in use.
func Rounding(p engine.Precision) string { return kernel.Rounding(kernel.Precision(p)) }

// Levels returns the names that CPULevel may return, from the lowest up to the level in use.
func Levels() []string { return kernel.LevelsBelow() }

// Use makes kernels use one of Levels: see kernel.Use.
func Use(name string) error { return kernel.Use(name) }

// Kernels describes which code computes what at the level in use, one line for all work with the same code.
func Kernels() []string { return kernel.InUse() }

// Package native names the engine of a model for which nobody has chosen another: the processor's.
package native

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// Backend is the engine of a new model.
var Backend engine.Backend = cpu.Backend{}

// Level returns the processor features in use (generic, avx2, avx512, avx512bf16, avx512bf16+amx): the highest level
// that the machine has, or the one that HIPPO_CPU asks for. If the machine lacks that, kernels are generic and the
// error lists the available levels.
func Level() (string, error) { return cpu.CPULevel() }

// Rounding returns the lowest level whose results, with products in float32 and in p, are bit for bit those of the
// level in use. For example, avx512+bf16 gives the results of avx512bf16, and of avx512bf16+amx unless p is BF16.
func Rounding(p engine.Precision) string { return cpu.Rounding(p) }

// Levels returns the names that Level may return here, from the lowest up to the level in use.
func Levels() []string { return cpu.Levels() }

// Use lowers the level to one of Levels. It must be called before anything is computed.
func Use(name string) error { return cpu.Use(name) }

// Kernels describes which code computes what at the level in use, one line for all work with the same code.
func Kernels() []string { return cpu.Kernels() }

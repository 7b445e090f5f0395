// Package native names the engine of a model for which nobody has chosen another: that of the processor.
package native

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// Backend is the engine of a new model.
var Backend engine.Backend = cpu.Backend{}

// Level names the processor features in use (generic, avx2, avx512, avx512bf16, avx512bf16+amx): the highest that the
// machine has, or what HIPPO_CPU asks for. If the machine lacks that, kernels are generic and the error says what there
// is.
func Level() (string, error) { return cpu.CPULevel() }

// Rounding names the lowest level whose results, with products in float32 and in p, have the bits of those of the level
// in use: avx512+bf16, for example, those of avx512bf16, and of avx512bf16+amx unless p is BF16.
func Rounding(p engine.Precision) string { return cpu.Rounding(p) }

// Levels are the names that Level may have here, from the lowest up to that in use.
func Levels() []string { return cpu.Levels() }

// Use lowers the level to one of Levels. Call it before anything is computed.
func Use(name string) error { return cpu.Use(name) }

// Kernels says which code computes what at that level, a line for all work with the same code.
func Kernels() []string { return cpu.Kernels() }

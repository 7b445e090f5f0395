// Package gpukernel contains the compute shaders of the engine for GPUs: in GLSL (*.comp), and as SPIR-V that the
// script build makes from it. Package engine/gpu documents what each computes and its arguments.
package gpukernel

import "embed"

//go:embed *.spv
var files embed.FS

// Code returns the SPIR-V of a kernel, or nil if there is none of that name.
func Code(name string) []byte {
	code, err := files.ReadFile(name + ".spv")
	if err != nil {
		return nil
	}
	return code
}

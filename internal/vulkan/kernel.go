//go:build gpu

package vulkan

import (
	"fmt"
	"unsafe"
)

// PushBytes is the maximum size of a kernel's arguments, which every device supports.
const PushBytes = 128

// Kernel is a compute shader.
type Kernel struct {
	module   uint64
	pipeline uint64
}

// Kernel creates a kernel from SPIR-V code with the entry point main. Constants are the values of its specialization
// constants 0, 1, and so on.
func (d *Device) Kernel(name string, code []byte, constants ...uint32) (*Kernel, error) {
	k := &Kernel{}
	words := make([]uint32, len(code)/4) // aligned, as the API requires
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*4), code)
	if len(words) == 0 {
		return nil, fmt.Errorf("the kernel %s has no code", name)
	}
	module := shaderModuleCreate{head: head{kind: typeShaderModuleCreate}, size: uintptr(len(words) * 4),
		code: unsafe.Pointer(&words[0])}
	if err := call(d.fn.createModule, d.handle, uintptr(unsafe.Pointer(&module)), 0,
		uintptr(unsafe.Pointer(&k.module))); err != nil {
		return nil, d.fail("the kernel "+name, err)
	}
	d.kernels = append(d.kernels, k)
	info := computePipelineCreate{head: head{kind: typeComputePipelineCreate}, layout: d.layout, baseIndex: -1,
		stage: shaderStage{head: head{kind: typeShaderStageCreate}, stage: computeStage, module: k.module,
			name: text("main"), specialization: specialize(constants)}}
	if hasMatrices(words) {
		const wholeSubgroups = 2
		info.stage.flags = wholeSubgroups
	}
	if err := call(d.fn.createPipelines, d.handle, 0, 1, uintptr(unsafe.Pointer(&info)), 0,
		uintptr(unsafe.Pointer(&k.pipeline))); err != nil {
		return nil, d.fail("the kernel "+name, err)
	}
	return k, nil
}

// hasMatrices reports whether a kernel uses cooperative matrices, according to the capabilities at the start of its
// SPIR-V code.
func hasMatrices(words []uint32) bool {
	const header, capability, matrices = 5, 2<<16 | 17, 6022
	for i := header; i+1 < len(words) && words[i] == capability; i += 2 {
		if words[i+1] == matrices {
			return true
		}
	}
	return false
}

func specialize(constants []uint32) *specialization {
	if len(constants) == 0 {
		return nil
	}
	entries := make([]specializationEntry, len(constants))
	for i := range entries {
		entries[i] = specializationEntry{id: uint32(i), offset: uint32(4 * i), size: 4}
	}
	return &specialization{count: uint32(len(entries)), entries: &entries[0], size: uintptr(4 * len(constants)),
		data: unsafe.Pointer(&constants[0])}
}

// Package vulkan runs compute shaders on a GPU through Vulkan 1.2, without cgo: it opens the loader with purego. It
// provides devices, memory with 64-bit addresses, kernels with push constants, and one queue, on which launches and
// copies run in the order in which they were recorded. It knows nothing of tensors.
//
// The code is behind the build tag gpu, because a program with purego is linked dynamically.
package vulkan

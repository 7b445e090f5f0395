// Package gpu is the engine for graphics cards. It implements engine.Engine through Vulkan 1.2, on any device that
// supports it. Its core computes on views of the device's memory. Package compose builds every operation on that core,
// forward and backward. The operations that take most of the time of decoding have kernels of their own. No operation
// falls back to the processor: a step copies ids in, and logits or a loss out.
//
// Launches are recorded, and run when a result is read. The code is behind the build tag gpu, like that of
// internal/vulkan. See docs/gpu.md.
package gpu

// Package gpu is the engine for graphics cards: engine.Engine through Vulkan 1.2 on any device that has it. Its core
// computes on views of the device's memory, on which package compose builds every operation, forward and backward; the
// operations in which the time of decoding goes have kernels of their own. So nothing falls back to the processor, and
// a step copies ids in and logits or a loss out.
//
// Launches are recorded, and run when something is read. The code is behind the build tag gpu, as that of
// internal/vulkan is. See docs/gpu.md.
package gpu

//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/internal/vulkan"
)

// Limits are those of a device, for an estimate.
type Limits struct {
	Bandwidth float64 // of memory, in bytes a second
	Flops     float64 // sums and products of float32 a second
	Matrices  float64 // those of its cooperative matrices of bfloat16; 0 for a device without
	Threads   int     // that must run to reach these
	Launch    float64 // seconds from the end of a launch to the beginning of the next one, which waits for it
}

// H200 are the limits of an NVIDIA H200 by its data sheet, of matrices those without sparsity. Half of the 2,048
// threads of its 132 processors are what a kernel needs, and two microseconds what a launch costs: both are
// assumptions.
var H200 = Limits{Bandwidth: 4.8e12, Flops: 67e12, Matrices: 989e12, Threads: 132 * 1024, Launch: 2e-6}

// Estimate returns a backend that computes nothing and takes no memory: its results are zeros. It counts what a device
// would do, and the time by the limits of that, as if each number were read and written once.
func Estimate(l Limits) *Backend {
	c := newCore(nil)
	if c.limits = l; l.Matrices > 0 {
		c.unit = &matrixUnit{vulkan.Matrix{Of: "bfloat16", M: 16, N: 16, K: 16}, 32, "product_matrix"}
	}
	return &Backend{Backend: compose.Backend{Core: c}, core: c}
}

// seconds is the time of a launch.
func (l Limits) seconds(a *args, threads int) float64 {
	if l.Bandwidth == 0 {
		return 0
	}
	busy, flops := min(1, float64(threads)/float64(l.Threads)), l.Flops
	if a.matrices {
		flops = l.Matrices
	}
	return l.Launch + max(float64(a.moved)/l.Bandwidth, float64(a.flops)/flops)/busy
}

// threads is the size of a workgroup of a kernel. Where a thread of a product of matrices reads more than 16 bytes of
// weights before it computes, as those of other kernels do, it counts for as many.
func threads(kernel string, constants []uint32) int {
	switch kernel {
	case "product_matrix":
		const size, width, deep, along, perRead = 1, 3, 4, 7, 8
		return max(int(constants[size]), int(constants[width]*constants[deep]*constants[along])/perRead)
	case "fft":
		return int(constants[0])
	case "attention", "filter", "heads", "reduce", "scan_carry", "scatter", "shift", "system":
		return 64
	}
	return 256
}

// add counts a launch.
func (c *Counts) add(a *args, seconds float64) {
	c.Bytes, c.Flops, c.Seconds = c.Bytes+float64(a.moved), c.Flops+float64(a.flops), c.Seconds+seconds
}

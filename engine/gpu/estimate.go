//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/internal/vulkan"
)

// Limits are the limits of a device, for an estimate.
type Limits struct {
	Bandwidth float64 // of memory, in bytes a second
	Flops     float64 // float32 additions and multiplications a second
	Matrices  float64 // the same for cooperative matrices of bfloat16; 0 if the device has none
	Threads   int     // threads that must run to reach these limits
	Launch    float64 // seconds from the end of a launch to the start of the next one, which waits for it
}

// H200 holds the limits of an NVIDIA H200 from its data sheet; Matrices is the rate without sparsity. Two values are
// assumptions: that a kernel needs half of the 2,048 threads of each of the 132 processors, and that a launch costs two
// microseconds.
var H200 = Limits{Bandwidth: 4.8e12, Flops: 67e12, Matrices: 989e12, Threads: 132 * 1024, Launch: 2e-6}

// Estimate returns a backend that computes nothing and takes no memory: its results are zeros. It counts the work that
// a device would do, and estimates the time from limits l, as if each number were read and written once.
func Estimate(l Limits) *Backend {
	c := newCore(nil)
	if c.limits = l; l.Matrices > 0 {
		c.unit = &matrixUnit{vulkan.Matrix{Of: "bfloat16", M: 16, N: 16, K: 16}, 32, "product_matrix"}
	}
	return &Backend{Backend: compose.Backend{Core: c}, core: c}
}

// seconds returns the estimated time of a launch.
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

// threads returns the number of threads of a kernel's workgroup. A thread of most kernels reads 16 bytes before it
// computes. A thread of product_matrix may read more bytes of weights, and then counts as one thread for each 16 bytes.
func threads(kernel string, constants []uint32) int {
	switch kernel {
	case "product_matrix":
		const size, width, deep, along, perRead = 1, 3, 4, 7, 8
		return max(int(constants[size]), int(constants[width]*constants[deep]*constants[along])/perRead)
	case "fft":
		return int(constants[0])
	case "attention", "filter", "filter_grad", "heads", "reduce", "scan_carry", "scatter", "shift", "system":
		return 64
	}
	return 256
}

// add adds a launch to the counts.
func (c *Counts) add(a *args, seconds float64) {
	c.Bytes, c.Flops, c.Seconds = c.Bytes+float64(a.moved), c.Flops+float64(a.flops), c.Seconds+seconds
}

//go:build gpu

package gpu

import (
	"fmt"
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/gpukernel"
	"github.com/hippo-ssm/hippo/internal/vulkan"
	"github.com/hippo-ssm/hippo/tensor"
)

// core implements engine.Core on a device. It is safe for concurrent use: recorded work runs in the order in which it
// was recorded.
type core struct {
	mu      sync.Mutex
	dev     *vulkan.Device // nil if nothing is computed: see Estimate
	limits  Limits
	kernels map[string]*vulkan.Kernel
	memory  pool
	tables  map[string]region // see table
	root    map[int]*buffer   // see roots
	unit    *matrixUnit       // nil if the device has none
	points  int               // largest transform in a workgroup's memory, in complex numbers
	err     error             // the first failure; nothing is computed after it
	counts  Counts
	pending int    // launches and copies that were not submitted yet
	later   *later // nil if no launch is postponed
}

// Counts is the work that was done since the engine was opened.
type Counts struct {
	In, Out     int // numbers copied from the host to the device, and back
	IDs         int // ids of rows that were copied in
	Tables      int // numbers in copied tables that the engine builds itself: of rows, positions and powers
	Launches    int
	Submissions int
	Replayed    int     // submissions of commands that had been recorded before
	Bytes       float64 // read and written by launches and copies on the device, each number once
	Flops       float64 // additions and multiplications
	Seconds     float64 // estimated from the Limits of Estimate
	Memory      uint64  // most bytes that were in use at a time
}

// mostPending is the number of pending launches and copies that triggers a submission even if nothing is read. A token
// of a small model takes fewer.
const mostPending = 1 << 11

func newCore(dev *vulkan.Device) *core {
	c := &core{dev: dev, kernels: map[string]*vulkan.Kernel{}, tables: map[string]region{},
		root: map[int]*buffer{}, points: mostPoints}
	if c.memory.dev = dev; dev != nil {
		c.unit = unitOf(dev.Info, "bfloat16", "product_matrix")
	}
	return c
}

// Kind returns the name of the engine.
func (c *core) Kind() string { return "gpu" }

// fail stores the first error.
func (c *core) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// failure returns the first error.
func (c *core) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// kernel returns the kernel with a name and the values of its constants. It returns nil after a failure.
func (c *core) kernel(name string, constants ...uint32) *vulkan.Kernel {
	key := name
	if len(constants) > 0 {
		key = fmt.Sprint(name, constants)
	}
	k := c.kernels[key]
	if k == nil {
		var err error
		if k, err = c.dev.Kernel(name, gpukernel.Code(name), constants...); err != nil {
			c.fail(err)
			return nil
		}
		c.kernels[key] = k
	}
	return k
}

// launch records a launch of n workgroups of a kernel, with the values of its constants. mu must be held.
func (c *core) launch(name string, a *args, n int, constants ...uint32) {
	if c.err != nil || n == 0 {
		return
	}
	c.flush()
	c.counts.Launches++
	c.counts.add(a, c.limits.seconds(a, n*threads(name, constants)))
	if c.dev == nil {
		return
	}
	const most = 1 << 15
	groups := [3]uint32{uint32(min(n, most)), uint32((n + most - 1) / most), 1}
	if k := c.kernel(name, constants...); k != nil {
		c.dev.Launch(k, a.bytes(), groups)
		c.recorded()
	}
}

// recorded counts a launch or copy that was recorded, and submits if many are pending.
func (c *core) recorded() {
	if c.pending++; c.pending >= mostPending {
		c.submit()
	}
	if err := c.dev.Failed(); err != nil {
		c.fail(err)
	}
}

func (c *core) submit() {
	c.flush()
	if c.pending == 0 || c.err != nil {
		return
	}
	c.pending = 0
	if err := c.dev.Submit(); err != nil {
		c.fail(err)
	}
}

// New returns memory for n numbers with unspecified contents. If the device has no memory left, New returns a buffer on
// which nothing is computed, and failure returns the error.
func (c *core) New(n int) engine.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.make(n, 4*n)
}

// make returns memory of the given size for n elements. mu must be held.
func (c *core) make(n, bytes int) *buffer {
	b := &buffer{c: c, n: n}
	if c.err != nil {
		return b
	}
	var err error
	if b.at, err = c.take(bytes); err != nil {
		c.fail(err)
		return b
	}
	b.watch()
	return b
}

// take allocates memory of the device. It returns the first error if the device has failed.
func (c *core) take(bytes int) (region, error) {
	if c.err != nil {
		return region{}, c.err
	}
	return c.memory.take(bytes)
}

// Free releases memory. Work that was recorded before may still use it, because work that is recorded later runs after
// that.
func (c *core) Free(x engine.Buffer) {
	b := x.(*buffer)
	b.cleanup.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.put(b.at)
	b.at = region{}
}

// write copies bytes of the host to the device.
func (c *core) write(to region, data []byte) {
	c.flush()
	if c.err != nil || len(data) == 0 || c.dev == nil {
		return
	}
	if err := c.dev.Write(to.block.memory, to.at, data); err != nil {
		c.fail(err)
	}
	c.recorded()
}

// read copies numbers of the device to the host, after all work that was recorded. After a failure they are NaN.
func (c *core) read(from region, out []float32) {
	c.flush()
	if c.err == nil && len(out) > 0 && c.dev == nil {
		c.counts.Out, c.counts.Submissions = c.counts.Out+len(out), c.counts.Submissions+1
		clear(out)
		return
	}
	if c.err == nil && len(out) > 0 {
		c.counts.Out += len(out)
		c.pending = 0
		if err := c.dev.Read(from.block.memory, from.at, bytesOf(out)); err != nil {
			c.fail(err)
		}
	}
	if c.err != nil {
		for i := range out {
			out[i] = float32(math.NaN())
		}
	}
}

var _ engine.Core = (*core)(nil)
var _ tensor.Storage = (*buffer)(nil)

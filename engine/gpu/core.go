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

// core is engine.Core on a device. Any number of goroutines may use it: what they record runs in the order in which
// they record it.
type core struct {
	mu      sync.Mutex
	dev     *vulkan.Device // nil where nothing is computed: see Estimate
	limits  Limits
	kernels map[string]*vulkan.Kernel
	memory  pool
	tables  map[string]region // see table
	root    map[int]*buffer   // see roots
	unit    *matrixUnit       // nil for a device without
	points  int               // most complex numbers of a transform in the memory of a workgroup
	err     error             // the first failure, after which nothing is computed any more
	counts  Counts
	pending int // launches that were not submitted
}

// Counts are what was done since the engine was opened.
type Counts struct {
	In, Out     int // numbers of the host that were copied to the device, and from it
	IDs         int // of rows, copied in
	Launches    int
	Submissions int
	Replayed    int     // of these, of what had been recorded before
	Bytes       float64 // that launches and copies of the device read and write, each number once
	Flops       float64 // of sums and products
	Seconds     float64 // by the Limits of Estimate
	Memory      uint64  // most bytes that were lent at a time
}

// mostPending is the number of launches after which they are submitted though nobody reads. A token of a small model
// takes fewer.
const mostPending = 1 << 11

func newCore(dev *vulkan.Device) *core {
	c := &core{dev: dev, kernels: map[string]*vulkan.Kernel{}, tables: map[string]region{},
		root: map[int]*buffer{}, points: mostPoints}
	if c.memory.dev = dev; dev != nil {
		c.unit = unitOf(dev.Info, "bfloat16", "product_matrix")
	}
	return c
}

// Kind is the name of the engine.
func (c *core) Kind() string { return "gpu" }

// fail keeps the first error.
func (c *core) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// failure is the first error.
func (c *core) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// kernel is the kernel of a name, with the values of its constants.
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

// launch records a launch of n workgroups of a kernel, with the values of its constants; the caller holds the lock.
func (c *core) launch(name string, a *args, n int, constants ...uint32) {
	if c.err != nil || n == 0 {
		return
	}
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

// recorded counts something that was recorded.
func (c *core) recorded() {
	if c.pending++; c.pending >= mostPending {
		c.submit()
	}
	if err := c.dev.Failed(); err != nil {
		c.fail(err)
	}
}

func (c *core) submit() {
	if c.pending == 0 || c.err != nil {
		return
	}
	c.pending = 0
	if err := c.dev.Submit(); err != nil {
		c.fail(err)
	}
}

// New returns memory for n numbers with unspecified contents. Where the device has no more it returns memory in which
// nothing is computed, and failure says so.
func (c *core) New(n int) engine.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.make(n, 4*n)
}

// make returns memory of bytes for n elements.
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

// take lends memory of the device, unless that has failed.
func (c *core) take(bytes int) (region, error) {
	if c.err != nil {
		return region{}, c.err
	}
	return c.memory.take(bytes)
}

// Free takes memory back. What was recorded before may still use it: what is recorded later runs after that.
func (c *core) Free(x engine.Buffer) {
	b := x.(*buffer)
	b.cleanup.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.put(b.at)
	b.at = region{}
}

// write copies bytes in.
func (c *core) write(to region, data []byte) {
	if c.err != nil || len(data) == 0 || c.dev == nil {
		return
	}
	if err := c.dev.Write(to.block.memory, to.at, data); err != nil {
		c.fail(err)
	}
	c.recorded()
}

// read copies numbers out, after all that was recorded. After a failure they are NaN.
func (c *core) read(from region, out []float32) {
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

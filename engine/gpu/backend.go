//go:build gpu

package gpu

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/internal/vulkan"
)

// Backend is engine.Backend on a device. Any number of goroutines may use it.
type Backend struct {
	compose.Backend
	core *core
	in   *vulkan.Instance
}

var _ engine.Backend = (*Backend)(nil)

// Device describes a device.
type Device = vulkan.Info

// Devices describes all devices, in the order of their numbers. An error says what is missing.
func Devices() ([]Device, error) {
	in, err := vulkan.Open(false)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.Devices(), nil
}

// Open opens a device by its number in Devices, the best one for -1. With validate, the validation layer checks how it
// is used, and Err says what it says. It takes at most so many bytes of the device's memory, 0 for any.
func Open(number int, validate bool, most uint64) (*Backend, error) {
	in, err := vulkan.Open(validate)
	if err != nil {
		return nil, err
	}
	dev, err := openIn(in, number)
	if err != nil {
		in.Close()
		return nil, err
	}
	c := newCore(dev)
	c.memory.most = most
	if c.unit != nil && !c.multiplies() {
		c.unit = nil
	}
	c.counts = Counts{}
	return &Backend{Backend: compose.Backend{Core: c}, core: c, in: in}, nil
}

func openIn(in *vulkan.Instance, number int) (*vulkan.Device, error) {
	if number < 0 {
		var err error
		if number, err = best(in.Devices()); err != nil {
			return nil, err
		}
	}
	return in.Open(number)
}

// best is the number of the device to take where nobody says which: the first discrete GPU, else the first of the next
// best kind. An error says what is missing.
func best(all []Device) (int, error) {
	best, rank := -1, 0
	for i, d := range all {
		r := map[string]int{"discrete GPU": 5, "integrated GPU": 4, "virtual GPU": 3, "other": 2, "CPU": 1}[d.Kind]
		if len(d.Lacks) == 0 && r > rank {
			best, rank = i, r
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("found %d devices, none of which hippo can use: see hippo bench devices", len(all))
	}
	return best, nil
}

// Device describes the device.
func (b *Backend) Device() Device { return b.core.dev.Info }

// String is its name, its driver and what that implements, on which the bits of results depend.
func (b *Backend) String() string {
	d := b.Device()
	return fmt.Sprintf("%s, %s, Vulkan %s", d.Name, d.Driver, d.API)
}

// Err is the first failure of the device, such as its loss or too little memory, or what the validation layer has said.
// After it all results are NaN.
func (b *Backend) Err() error {
	if b.in == nil { // of Estimate
		return nil
	}
	if said := b.in.Messages(); len(said) > 0 {
		b.Fail(fmt.Errorf("the validation layer says: %s", said[0]))
	}
	return b.core.failure()
}

// Fail has the device count as failed from now on.
func (b *Backend) Fail(err error) {
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	b.core.fail(err)
}

// Room is how many bytes of memory the device still has, for all that one may tell beforehand.
func (b *Backend) Room() int64 {
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	return int64(b.core.memory.room())
}

// Counts are what was done since the device was opened.
func (b *Backend) Counts() Counts {
	c := b.core
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.counts
	if out.Memory = c.memory.peak; c.dev != nil {
		out.Submissions, out.Replayed = c.dev.Submissions()
	}
	return out
}

// Close waits for the device and closes it.
func (b *Backend) Close() {
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	b.core.fail(fmt.Errorf("the device was closed"))
	b.core.dev.Close()
	b.in.Close()
}

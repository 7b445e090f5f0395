//go:build gpu

package gpu

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/internal/vulkan"
)

// Backend implements engine.Backend on a device. It is safe for concurrent use.
type Backend struct {
	compose.Backend
	core *core
	in   *vulkan.Instance
}

var _ engine.Backend = (*Backend)(nil)

// Device describes a device.
type Device = vulkan.Info

// Devices returns descriptions of all devices, in the order of their numbers. If it fails, the error names what is
// missing.
func Devices() ([]Device, error) {
	in, err := vulkan.Open(false)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.Devices(), nil
}

// Open opens the device with a number in Devices, or the best one if the number is -1. If validate is set, the
// validation layer checks every call and Err reports its messages. The backend takes at most `most` bytes of the
// device's memory; 0 means no limit.
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

// best returns the number of the device to open if the caller gives none: the first discrete GPU, else the first device
// of the next best kind. It returns an error if no device can be used.
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

// Device returns the description of the device.
func (b *Backend) Device() Device { return b.core.dev.Info }

// String returns the device's name, its driver and the version of Vulkan. The bits of results depend on these.
func (b *Backend) String() string {
	d := b.Device()
	return fmt.Sprintf("%s, %s, Vulkan %s", d.Name, d.Driver, d.API)
}

// Err returns the first failure of the device, such as its loss or a lack of memory, or a message of the validation
// layer. After a failure all results are NaN.
func (b *Backend) Err() error {
	if b.in == nil { // from Estimate
		return nil
	}
	if said := b.in.Messages(); len(said) > 0 {
		b.Fail(fmt.Errorf("the validation layer says: %s", said[0]))
	}
	return b.core.failure()
}

// Fail marks the device as failed.
func (b *Backend) Fail(err error) {
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	b.core.fail(err)
}

// Room returns an estimate of the bytes of memory that the device still has.
func (b *Backend) Room() int64 {
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	return int64(b.core.memory.room())
}

// Counts returns the work that was done since the device was opened.
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

//go:build gpu

package gpu

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/hippo-ssm/hippo/internal/vulkan"
	"github.com/hippo-ssm/hippo/tensor"
)

// pool takes large blocks of the device's memory and lends parts of them. Parts that come back join their neighbors.
type pool struct {
	dev    *vulkan.Device
	blocks []*block
	held   uint64 // bytes of all blocks
	lent   uint64
	peak   uint64 // most bytes that were lent
	most   uint64 // to be held; 0 for any number
}

// room is how many bytes more can be lent.
func (p *pool) room() uint64 {
	most := p.most
	if d := p.dev.Info; most == 0 {
		most = cmp.Or(d.Free, d.Memory)
	}
	return max(most, p.lent) - p.lent
}

type block struct {
	memory *vulkan.Memory
	free   []span // in order; no two touch
}

// nowhere is the block of memory that is only counted.
var nowhere = &block{memory: &vulkan.Memory{Address: alignment}}

type span struct{ at, size uint64 }

// region is a part of a block that is lent; the zero value is none.
type region struct {
	block    *block
	at, size uint64
}

func (r region) address() uint64 {
	if r.block == nil {
		return 0
	}
	return r.block.memory.Address + r.at
}

const (
	alignment  = 64 // of parts, in bytes
	leastBlock = 8 << 20
	mostBlock  = 256 << 20
)

// take lends a part: the first that fits.
func (p *pool) take(bytes int) (region, error) {
	size := max(alignment, (uint64(bytes)+alignment-1)/alignment*alignment)
	if p.dev == nil {
		p.lent += size
		p.peak = max(p.peak, p.lent)
		return region{nowhere, 0, size}, nil
	}
	for _, b := range p.blocks {
		for i, s := range b.free {
			if s.size < size {
				continue
			}
			if b.free[i] = (span{s.at + size, s.size - size}); s.size == size {
				b.free = slices.Delete(b.free, i, i+1)
			}
			p.lent += size
			p.peak = max(p.peak, p.lent)
			return region{b, s.at, size}, nil
		}
	}
	// As much again as there is, so that blocks stay few.
	want := max(size, min(mostBlock, max(leastBlock, p.held)))
	if p.most > 0 {
		if p.held+size > p.most {
			return region{}, fmt.Errorf("the device %s may give %d KiB (HIPPO_GPU_MEMORY), of which %d are left, "+
				"and %d more are wanted", p.dev.Name, p.most>>10, (p.most-min(p.most, p.held))>>10, size>>10)
		}
		want = max(size, min(want, p.most-p.held))
	}
	m, err := p.dev.Allocate(want, vulkan.OnDevice)
	if err != nil {
		if m, err = p.dev.Allocate(size, vulkan.OnDevice); err != nil {
			return region{}, err
		}
	}
	p.held += m.Size
	p.blocks = append(p.blocks, &block{memory: m, free: []span{{0, m.Size}}})
	return p.take(bytes)
}

// put takes a part back.
func (p *pool) put(r region) {
	if r.block == nil {
		return
	}
	b := r.block
	if p.lent -= r.size; b == nowhere {
		return
	}
	i, _ := slices.BinarySearchFunc(b.free, r.at, func(s span, at uint64) int {
		if s.at < at {
			return -1
		}
		return 1
	})
	b.free = slices.Insert(b.free, i, span{r.at, r.size})
	for _, j := range []int{i, i - 1} { // with the one after it, then with the one before it
		if j >= 0 && j+1 < len(b.free) && b.free[j].at+b.free[j].size == b.free[j+1].at {
			b.free[j].size += b.free[j+1].size
			b.free = slices.Delete(b.free, j+1, j+2)
		}
	}
}

// buffer is storage on the device.
type buffer struct {
	c       *core
	at      region
	n       int // numbers of float32
	cleanup runtime.Cleanup
}

// watch gives the memory back when nobody has the buffer any more.
func (b *buffer) watch() {
	c := b.c
	b.cleanup = runtime.AddCleanup(b, func(r region) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.memory.put(r)
	}, b.at)
}

// Len is the number of elements, Bytes their memory.
func (b *buffer) Len() int   { return b.n }
func (b *buffer) Bytes() int { return int(b.at.size) }

// Like returns memory of the same device for n zeros.
func (b *buffer) Like(n int) tensor.Storage {
	x := b.c.New(n)
	b.c.Fill(flat(x, n), 0)
	return x
}

// Copy copies n elements of from, from element at on, to element to and on. They may overlap.
func (b *buffer) Copy(to int, from tensor.Storage, at, n int) {
	if p, ok := from.(*part); ok {
		from = p.settled()
	}
	source, c := from.(*buffer), b.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || n == 0 {
		return
	}
	if b == source && to < at+n && at < to+n {
		between, err := c.take(4 * n)
		if err != nil {
			c.fail(err)
			return
		}
		c.move(between, 0, source.at, at, n)
		c.move(b.at, to, between, 0, n)
		c.memory.put(between)
		return
	}
	c.move(b.at, to, source.at, at, n)
}

// move copies n numbers on the device.
func (c *core) move(to region, i int, from region, j, n int) {
	c.flush()
	a := new(args).work(8*n, 0) // read and written
	c.counts.add(a, c.limits.seconds(a, n))
	if c.dev == nil {
		return
	}
	c.dev.Copy(to.block.memory, to.at+4*uint64(i), from.block.memory, from.at+4*uint64(j), 4*uint64(n))
	c.recorded()
}

// Read copies the elements out; Write copies as many in.
func (b *buffer) Read(dst []float32) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.read(b.at, dst[:min(b.n, len(dst))])
}

func (b *buffer) Write(src []float32) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.counts.In += len(src)
	b.c.write(b.at, bytesOf(src))
}

// bytesOf are the bytes of numbers in memory. The device has the order of the host's: all of these are little-endian.
func bytesOf[T float32 | int32 | uint16](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

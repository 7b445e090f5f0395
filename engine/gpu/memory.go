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

// pool allocates large blocks of the device's memory and lends parts of them. Freed parts are merged with their free
// neighbors.
type pool struct {
	dev    *vulkan.Device
	blocks []*block
	held   uint64 // bytes of all blocks
	lent   uint64
	peak   uint64 // maximum of lent
	most   uint64 // limit of held; 0 for no limit
}

// room returns the number of bytes that can still be lent.
func (p *pool) room() uint64 {
	most := p.most
	if d := p.dev.Info; most == 0 {
		most = cmp.Or(d.Free, d.Memory)
	}
	return max(most, p.lent) - p.lent
}

type block struct {
	memory *vulkan.Memory
	free   []span // in ascending order; no two are adjacent
}

// nowhere is the block of memory that is counted but not allocated.
var nowhere = &block{memory: &vulkan.Memory{Address: alignment}}

type span struct{ at, size uint64 }

// region is a part of a block that is lent. The zero value is no memory.
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

// take lends the first free part that is large enough. It allocates a new block if there is none.
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
	// A new block is as large as all blocks so far, within the limits, so that there are few blocks.
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

// put frees a part.
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
	for _, j := range []int{i, i - 1} { // merge with the next span, then with the previous one
		if j >= 0 && j+1 < len(b.free) && b.free[j].at+b.free[j].size == b.free[j+1].at {
			b.free[j].size += b.free[j+1].size
			b.free = slices.Delete(b.free, j+1, j+2)
		}
	}
}

// buffer is memory of the device. It implements tensor.Storage.
type buffer struct {
	c       *core
	at      region
	n       int // number of elements
	cleanup runtime.Cleanup
}

// watch frees the memory once the buffer is unreachable.
func (b *buffer) watch() {
	c := b.c
	b.cleanup = runtime.AddCleanup(b, func(r region) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.memory.put(r)
	}, b.at)
}

// Len returns the number of elements. Bytes returns the size of their memory.
func (b *buffer) Len() int   { return b.n }
func (b *buffer) Bytes() int { return int(b.at.size) }

// Like returns memory of the same device for n numbers, all zero.
func (b *buffer) Like(n int) tensor.Storage {
	x := b.c.New(n)
	b.c.Fill(flat(x, n), 0)
	return x
}

// Copy copies n elements of from, starting at element at, to b, starting at element to. The ranges may overlap.
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

// Read copies the elements to dst. Write copies the elements of src to the buffer.
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

// bytesOf returns the bytes of x in memory. The device has the byte order of the host: both are little-endian.
func bytesOf[T float32 | int32 | uint16](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

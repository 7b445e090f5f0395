//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// packed is a matrix of weights on the device, in the precision in which it was packed on the host: integers of 8 or 4
// bits with the factors of their groups, or bfloat16 numbers. Kernels widen them, and do not round the inputs.
type packed struct {
	engine.Rounding // the matrix on the host, for files and fingerprints
	form            engine.Precision
	k               int
	q               *buffer // the integers, then the factors, least numbers and scales
	factors, least  uint64  // offsets in q, in bytes
	scales          uint64
}

// Bytes returns the size of the matrix on the device.
func (p *packed) Bytes() int { return p.q.Bytes() }

// matrix returns the arguments of a kernel that locate the matrix.
func (p *packed) matrix() []uint64 {
	q := p.q.at.address()
	return []uint64{q, q + p.factors, q + p.least, q + p.scales}
}

// Place moves tensors to the device. Packed tensors keep their precision.
func (b *Backend) Place(xs ...*tensor.Tensor) {
	for _, x := range xs {
		switch w := x.Packed().(type) {
		case engine.Rounding:
			if _, there := w.(*packed); !there {
				b.placePacked(x, w)
			}
		default:
			if b.core.dev == nil {
				x.SetStorage(b.core.New(x.Len()))
			}
			b.Backend.Place(x)
		}
	}
}

func (b *Backend) placePacked(x *tensor.Tensor, w engine.Rounding) {
	n, k := x.Dim(0), x.Dim(1)
	if w.Stored() == engine.Float32 {
		buf, row := b.core.New(n*k).(*buffer), make([]float32, k)
		for j := range n {
			w.ReadRow(row, j)
			b.core.writeAt(buf, 4*uint64(j*k), bytesOf(row))
		}
		x.SetStorage(buf)
		return
	}
	p := &packed{Rounding: w, form: w.Stored(), k: k}
	groups := blocks(k, engine.GroupTerms)
	bits := map[engine.Precision]int{engine.Int8: 8, engine.Int4: 4, engine.Int4Min: 4}[p.form]
	if p.form == engine.BF16 {
		p.q = b.core.place(n * k * 2)
		row, rounded := make([]float32, k), make([]uint16, k)
		for j := range n {
			w.ReadRow(row, j)
			for i, v := range row {
				rounded[i] = upper(v)
			}
			b.core.writeAt(p.q, uint64(2*j*k), bytesOf(rounded))
		}
		x.SetPacked(p)
		return
	}
	perGroup := engine.GroupTerms * bits / 8
	aligned := func(n int) uint64 { return (uint64(n) + 15) / 16 * 16 }
	p.factors = aligned(n * groups * perGroup)
	p.least = p.factors + aligned(2*n*groups)
	p.scales = p.least + aligned(2*n*groups)
	p.q = b.core.place(int(p.scales) + 4*n)
	q, bytes := make([]int8, groups*engine.GroupTerms), make([]byte, groups*perGroup)
	factors, least, scales := make([]uint16, n*groups), make([]uint16, n*groups), make([]float32, n)
	for j := range n {
		at := j * groups
		scales[j] = w.ReadGroups(j, q[:k], factors[at:][:groups], least[at:][:groups])
		for i, v := range q {
			switch p.form {
			case engine.Int8:
				bytes[i] = byte(v)
			case engine.Int4:
				v += 8
				fallthrough
			default:
				half := byte(v) & 15
				if bytes[i/2] |= half << 4; i%2 == 0 {
					bytes[i/2] = half
				}
			}
		}
		b.core.writeAt(p.q, uint64(j*len(bytes)), bytes)
	}
	b.core.writeAt(p.q, p.factors, bytesOf(factors))
	if p.form == engine.Int4Min {
		b.core.writeAt(p.q, p.least, bytesOf(least))
	}
	b.core.writeAt(p.q, p.scales, bytesOf(scales))
	x.SetPacked(p)
}

// place returns memory of the given size.
func (c *core) place(bytes int) *buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.make((bytes+3)/4, bytes)
}

// writeAt copies bytes of the host to an offset in a buffer.
func (c *core) writeAt(b *buffer, at uint64, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.counts.In += len(data) / 4
		c.write(region{b.at.block, b.at.at + at, uint64(len(data))}, data)
	}
}

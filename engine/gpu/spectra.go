//go:build gpu

package gpu

import (
	"math"
	"math/bits"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
)

var _ compose.Convolver = (*core)(nil)

// The limits of spectra: leastTaps is the number of taps and positions from which spectra are faster, mostPoints the
// largest transform in the memory of a workgroup, in complex numbers.
const (
	leastTaps      = 32
	mostPoints     = 1 << 12
	leastPoints    = 8
	mostTransforms = 1 << 23 // complex numbers
)

// The bits of MODE of fft.comp.
const (
	fftRealIn = 1 << iota
	fftRealOut
	fftSwapIn
	fftSwapOut
	fftTurn
	fftFilter
	fftColumns
)

// Points returns the number of complex numbers of a spectrum, or 0 if a convolution of these lengths has no spectra.
func (c *core) Points(l, taps int) int {
	if min(l, taps) < leastTaps {
		return 0
	}
	n := max(leastPoints, 1<<bits.Len(uint((l+taps-2)/2)))
	if n > mostTransforms {
		return 0
	}
	return n
}

// factors returns M1 and M2 of a spectrum of M1·M2 points. It returns 1 and M if one transform computes the spectrum.
func (c *core) factors(points int) (m1, m2 int) {
	if points <= c.points {
		return 1, points
	}
	m1 = 1 << (bits.Len(uint(points-1)) / 2)
	return m1, points / m1
}

// roots returns the address of the table of the powers of e^(-2πi/n). mu must be held.
func (c *core) roots(n int) uint64 {
	b := c.root[n]
	if b == nil {
		x := make([]float32, 2*n)
		for i := range n {
			sin, cos := math.Sincos(-2 * math.Pi * float64(i) / float64(n))
			x[2*i], x[2*i+1] = float32(cos), float32(sin)
		}
		b = c.make(2*n, 8*n)
		c.counts.Tables += len(x)
		c.write(b.at, bytesOf(x))
		c.root[n] = b
	}
	return b.at.address()
}

// lines is a copy of a view (b, l, h, q) with adjacent positions: (b, h, q, l).
type lines struct {
	of            *buffer
	b, l, h, q    int
	at            int // index of the first position in the transform
	count, points int // rows, and complex numbers of a spectrum
}

// linesOf returns new lines for a view.
func (c *core) linesOf(x engine.View, at, points int) lines {
	s := x.Shape
	n := lines{b: s[0], l: s[1], h: s[2], q: s[3], at: at, count: s[0] * s[2] * s[3], points: points}
	n.of = c.New(n.count * n.l).(*buffer)
	return n
}

// view returns the lines as a view of their original shape.
func (n *lines) view() engine.View {
	return engine.View{Of: n.of, Shape: []int{n.b, n.l, n.h, n.q}, Stride: []int{n.h * n.q * n.l, 1, n.q * n.l, n.l}}
}

// linesFrom returns a copy of a view as lines.
func (c *core) linesFrom(x engine.View, at, points int) lines {
	n := c.linesOf(x, at, points)
	c.Affine(n.view(), x, 1, 0)
	return n
}

// fft launches transforms of all rows, each of p numbers. A row has inner transforms.
func (c *core) fft(mode, p, inner int, from, to, filters uint64, in, out *lines) {
	c.mu.Lock()
	defer c.mu.Unlock()
	apart, step, n := p, 1, in.count
	if mode&fftColumns != 0 {
		apart, step = 1, inner
	}
	a := new(args).address(from, to, c.roots(in.points), filters).
		int(n*inner, inner, apart, step, in.points, in.l, in.at, out.l, out.at, in.q, in.h)
	moved, flops := 16*in.points, 5*in.points*bits.Len(uint(p-1))
	if mode&fftRealIn != 0 {
		moved += 4*in.l - 8*in.points
	}
	if mode&fftRealOut != 0 {
		moved += 4*out.l - 8*in.points
	}
	if moved *= n; mode&fftFilter != 0 {
		moved, flops = moved+8*in.h*in.points, 2*flops+30*in.points
	}
	threads := max(256, p/8)
	c.launch("fft", a.work(moved, n*flops), blocks(n*inner, threads*8/p), uint32(threads), uint32(p), uint32(mode))
}

// Spectrum returns the spectra of the columns of x (b, l, h, q), whose first position is at index at of the transform.
func (c *core) Spectrum(x engine.View, at, points int) engine.Buffer {
	n := c.linesFrom(x, at, points)
	defer c.Free(n.of)
	z := c.New(2 * n.count * points).(*buffer)
	from, to := n.of.at.address(), z.at.address()
	if m1, m2 := c.factors(points); m1 == 1 {
		c.fft(fftRealIn, points, 1, from, to, 0, &n, &n)
	} else {
		c.fft(fftRealIn|fftTurn|fftColumns, m1, m2, from, to, 0, &n, &n)
		c.fft(0, m2, m1, to, to, 0, &n, &n)
	}
	return z
}

// Inverse sets to (b, l, h, q) to the columns of spectra z from index at on. It frees z.
func (c *core) Inverse(to engine.View, z engine.Buffer, at, points int) {
	n := c.linesOf(to, at, points)
	defer c.Free(n.of)
	defer c.Free(z)
	from, out := z.(*buffer).at.address(), n.of.at.address()
	const last = fftRealOut | fftSwapOut
	if m1, m2 := c.factors(points); m1 == 1 {
		c.fft(fftSwapIn|last, points, 1, from, out, 0, &n, &n)
	} else {
		c.fft(fftSwapIn|fftTurn, m2, m1, from, from, 0, &n, &n)
		c.fft(last|fftColumns, m1, m2, from, out, 0, &n, &n)
	}
	c.Affine(to, n.view(), 1, 0)
}

// Filter sets to (b, l, h, q) to the columns of x convolved with the filters of heads h, from index at on.
func (c *core) Filter(to, x engine.View, filters engine.Buffer, at, points int) {
	if m1, _ := c.factors(points); m1 > 1 {
		z := c.Spectrum(x, 0, points)
		defer c.Free(z)
		c.Inverse(to, c.Products(z, filters, x.Shape, points, false), at, points)
		return
	}
	in, out := c.linesFrom(x, 0, points), c.linesOf(to, at, points)
	defer c.Free(in.of)
	defer c.Free(out.of)
	c.fft(fftRealIn|fftFilter|fftRealOut|fftSwapOut, points, 1, in.of.at.address(), out.of.at.address(),
		filters.(*buffer).at.address(), &in, &out)
	c.Affine(to, out.view(), 1, 0)
}

// Products returns the spectra x of columns of shape (b, l, h, q), each multiplied by the spectrum of the filter of its
// head, which is reversed in time if reversed is set.
func (c *core) Products(x, filters engine.Buffer, shape []int, points int, reversed bool) engine.Buffer {
	return c.products(0, x, filters, shape, shape[0]*shape[2]*shape[3], points, reversed)
}

// SumOfProducts returns h spectra: the sums of x times the reversed y over the other columns of a shape (b, l, h, q).
func (c *core) SumOfProducts(x, y engine.Buffer, shape []int, points int) engine.Buffer {
	return c.products(1, x, y, shape, shape[2], points, true)
}

func (c *core) products(sum uint32, x, y engine.Buffer, shape []int, count, points int, reversed bool) engine.Buffer {
	z := c.New(2 * count * points).(*buffer)
	c.mu.Lock()
	defer c.mu.Unlock()
	m1, m2 := c.factors(points)
	n, turned := shape[0]*shape[2]*shape[3], 0
	if reversed {
		turned = 1
	}
	a := new(args).address(z.at.address(), x.(*buffer).at.address(), y.(*buffer).at.address(), c.roots(points)).
		int(count, m1, m2, shape[0], shape[2], shape[3], turned)
	both := n
	if sum == 0 {
		both = shape[2]
	}
	c.launch("spectrum", a.work(8*points*(n+both+count), 30*n*points), blocks(count*points, 256), sum)
	return z
}

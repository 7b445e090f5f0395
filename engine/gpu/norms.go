//go:build gpu

package gpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

func (e *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	return e.norm("AddLayerNorm", x, r, w, b, groups, eps, 1)
}

func (e *Engine) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	return e.norm("AddRMSNorm", x, r, w, nil, groups, eps, 0)
}

func (e *Engine) norm(name string, x, r, w, b *tensor.Tensor, groups int, eps float64,
	centered int) (s, y *tensor.Tensor) {
	s, y = x, e.like(x, x.Dim(-1))
	made := []*tensor.Tensor{y}
	if r != nil {
		s = e.like(x, x.Dim(-1))
		made = append(made, s)
	}
	open := &openNorm{y: y, from: [6]uint64{e.address(y), e.address(s), e.address(x), e.address(r), e.address(w),
		e.address(b)}, centered: centered, eps: eps, moved: 16 * x.Len()}
	n := x.Rows() * groups
	a := new(args).address(open.from[:]...).int(n, x.Dim(-1)/groups, groups, centered).float(eps).
		work(open.moved, 4*x.Len())
	e.c.mu.Lock()
	if e.Recording || groups > 1 {
		e.launch("norm", a, n)
	} else {
		e.postpone(open, func() { e.c.launch("norm", a, n) })
	}
	e.c.mu.Unlock()
	e.Record(name, made, []*tensor.Tensor{x, r, w, b}, func() { e.normGrad(x, r, w, b, s, y, groups, eps, centered) })
	return s, y
}

// openNorm is a norm that products of few rows may take in.
type openNorm struct {
	y               *tensor.Tensor
	from            [6]uint64 // y, s, x, r, w and b
	centered, moved int
	eps             float64
}

// openRows are products of the same few rows with matrices of one form and shape, to which more may be added.
type openRows struct {
	x            *tensor.Tensor
	from         uint64 // x
	stride       int    // numbers from a row of it to the next
	norm         *openNorm
	form         uint32
	n, k, rows   int
	a            engine.Activation
	matrices     [][]uint64 // of each y, bias, and where it lies
	moved, flops int
}

// mostMatrices are those of a launch, mostNormed the numbers of a row that a workgroup has in its memory.
const (
	mostMatrices = 3
	mostNormed   = 1 << 12
)

// multiplyRows computes y = a(x wᵀ + bias) for few rows, with what was postponed before it if that fits.
func (e *Engine) multiplyRows(y, x, bias *tensor.Tensor, form uint32, w []uint64, moved int, o openRows) {
	o.x, o.form, o.flops = x, form, 2*o.rows*o.n*o.k
	o.from, o.stride = e.strided(x)
	matrix := append([]uint64{e.address(y), e.address(bias)}, w...)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	p := postponed[openRows](e.c)
	if p != nil && p.x == x && p.form == form && p.n == o.n && p.k == o.k && p.a == o.a &&
		len(p.matrices) < mostMatrices {
		p.matrices, p.moved, p.flops = append(p.matrices, matrix), p.moved+moved, p.flops+o.flops
		e.more()
		return
	}
	o.matrices, o.moved = [][]uint64{matrix}, moved+4*o.rows*o.k
	if m := postponed[openNorm](e.c); m != nil && m.y == x && o.k <= mostNormed {
		o.norm, o.moved = m, o.moved+m.moved
		e.live = append(e.live, e.c.later.live...)
		e.c.later = nil
	}
	e.postpone(&o, func() { e.c.multiplyRows(&o) })
}

// multiplyRows launches products of few rows; the caller holds the lock.
func (c *core) multiplyRows(o *openRows) {
	lanes, more, norm, most := 4, uint64(0), [6]uint64{0, 0, o.from}, 128
	count, constant, centered, eps := len(o.matrices), uint32(0), 0, 0.0
	if m := o.norm; m != nil { // which each workgroup computes, so they have more elements
		norm, constant, centered, eps, most = m.from, uint32(o.k), m.centered, m.eps, 64
	}
	for lanes < most && 8*lanes < o.k {
		lanes *= 2
	}
	if count > 1 {
		more = c.table(addresses(nil, slices.Concat(o.matrices[1:]...)...))
	}
	p := new(args).address(o.matrices[0]...).address(more).address(norm[2:]...).address(norm[1], norm[0]).
		int(o.n, o.k, int(o.a)|count<<8|centered<<12|o.rows<<16, o.stride).float(eps)
	c.launch("linear", p.work(o.moved, o.flops), o.rows*count*blocks(o.n, 256/lanes), o.form, uint32(lanes), constant)
}

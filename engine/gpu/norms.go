//go:build gpu

package gpu

import (
	"slices"

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

// openNorm is a postponed norm that a product of few rows may fuse.
type openNorm struct {
	y               *tensor.Tensor
	from            [6]uint64 // y, s, x, r, w and b
	centered, moved int
	eps             float64
}

// openRows is a postponed launch of products of the same few rows with matrices of one form and shape. More matrices
// may be added to it.
type openRows struct {
	product
	x        *tensor.Tensor
	stride   int // numbers from the start of a row of x to the next
	norm     *openNorm
	matrices [][]uint64 // for each, the addresses of y, of the bias and of the matrix
}

// mostMatrices is the largest number of matrices in a launch. mostNormed is the largest number of elements of a row
// that fit into the memory of a workgroup, for a fused norm.
const (
	mostMatrices = 3
	mostNormed   = 1 << 12
)

// multiplyRows computes y = a(x wᵀ + bias) for few rows, fused with the postponed launch before it if possible.
func (e *Engine) multiplyRows(y, x, bias *tensor.Tensor, p *product) {
	o := &openRows{product: *p, x: x}
	o.product.x, o.stride = e.strided(x)
	matrix := append([]uint64{e.address(y), e.address(bias)}, p.w...)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	before := postponed[openRows](e.c)
	if before != nil && before.x == x && before.form == p.form && before.n == p.n && before.k == p.k &&
		before.how == p.how && before.rounds == p.rounds && len(before.matrices) < mostMatrices {
		before.matrices, before.moved = append(before.matrices, matrix), before.moved+p.moved
		e.more()
		return
	}
	o.matrices, o.moved = [][]uint64{matrix}, p.moved+4*p.rows*p.k
	if m := postponed[openNorm](e.c); m != nil && m.y == x && p.k <= mostNormed {
		o.norm, o.moved = m, o.moved+m.moved
		e.live = append(e.live, e.c.later.live...)
		e.c.later = nil
	}
	e.postpone(o, func() { e.c.multiplyRows(o) })
}

// multiplyRows launches products of few rows. c.mu must be held.
func (c *core) multiplyRows(o *openRows) {
	lanes, more, norm, most := 4, uint64(0), [6]uint64{0, 0, o.product.x}, 128
	count, rounds, normed, centered, eps := len(o.matrices), uint32(0), uint32(0), 0, 0.0
	if o.rounds {
		rounds = 1
	}
	if m := o.norm; m != nil { // each workgroup computes the norm, so it gets more elements
		norm, normed, centered, eps, most = m.from, uint32(o.k), m.centered, m.eps, 64
	}
	for lanes < most && 8*lanes < o.k {
		lanes *= 2
	}
	if count > 1 {
		more = c.table(addresses(nil, slices.Concat(o.matrices[1:]...)...))
	}
	p := new(args).address(o.matrices[0]...).address(more).address(norm[2:]...).address(norm[1], norm[0]).
		int(o.n, o.k, o.how|count<<8|centered<<12|o.rows<<16, o.stride).float(eps).int(segment(o.k))
	c.launch("linear", p.work(o.moved, 2*count*o.rows*o.n*o.k), o.rows*count*blocks(o.n, 256/lanes), o.form,
		uint32(lanes), rounds, normed)
}

package action

import (
	"context"
	"errors"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// spread describes how an operation along the sequence spreads its values, y[t] = α[t,r] x[r]. It is more efficient
// than a backward pass for each position.
type spread interface {
	// add adds Σ_c p_c[t] α_c[t,r] x_c[r] to m[t, r-lag], for each part of the values.
	add(w *work) error
	// heads returns the number of heads. channels returns the channels of one head in the results.
	heads() int
	channels(h int) []int
}

// work describes the requested sums.
type work struct {
	ctx   context.Context
	l     int
	p     []float32 // (l, width of the result)
	parts []part
	m     []float32 // (l, l)
}

// part holds the contribution of position r-lag to the values x (l, width) at position r.
type part struct {
	lag   int
	width int
	x     []float32
}

// row returns the part at position r, and whether there is a position r-lag.
func (p *part) row(r int) ([]float32, bool) { return p.x[r*p.width:][:p.width], r >= p.lag }

// rows calls f for every target, on all cores. f must write only to its own row of m.
func (w *work) rows(f func(t int)) error {
	return w.blocks(1, func(t, _ int) { f(t) })
}

// blocks calls f for each block [from, to) of size targets, on all cores. f must write only to the rows of its block in
// m.
func (w *work) blocks(size int, f func(from, to int)) error {
	parallel.For(w.l, size, func(from, to int) {
		if w.ctx.Err() == nil {
			f(from, to)
		}
	})
	return w.ctx.Err()
}

// triple returns Σ a b c. scratch must have room for as many numbers.
func triple(scratch, a, b, c []float32) float32 {
	kernel.MulInto(scratch, a, b)
	return kernel.Dot(scratch, c)
}

// product returns a ⊙ b.
func product(a, b []float32) []float32 {
	out := make([]float32, len(a))
	kernel.MulInto(out, a, b)
	return out
}

// each is the number of channels of an operation whose channels are its heads.
type each int

func (d each) heads() int           { return int(d) }
func (d each) channels(h int) []int { return []int{h} }

// filter is a causal filter with a few taps: α_c[t, t-i] = taps[c, width-1-i].
type filter struct {
	taps  []float32 // (d, width)
	width int
}

func (f *filter) heads() int           { return len(f.taps) / f.width }
func (f *filter) channels(h int) []int { return []int{h} }

// tap returns the weights (d) of the channels for the input i positions ago.
func (f *filter) tap(i int) []float32 {
	out := make([]float32, f.heads())
	for c := range out {
		out[c] = f.taps[c*f.width+f.width-1-i]
	}
	return out
}

func (f *filter) add(w *work) error {
	d := f.heads()
	taps := make([][]float32, f.width)
	for i := range taps {
		taps[i] = f.tap(i)
	}
	return w.rows(func(t int) {
		scratch := make([]float32, d)
		for i, tap := range taps[:min(len(taps), t+1)] {
			for _, p := range w.parts {
				if x, ok := p.row(t - i); ok {
					w.m[t*w.l+t-i-p.lag] += triple(scratch, w.p[t*d:][:d], tap, x)
				}
			}
		}
	})
}

// longConv is a long convolution between gates: α_c[t,r] = q_c[t] K_c[t-r] k_c[r]. With heads of several channels it is
// the sum of q_i[t] K_h[t-r] k_i[r] over the channels of the head.
type longConv struct {
	taps  []float32 // (l, heads), including the skip
	ahead []float32 // (l, heads): contribution of position l-1 to all before it; nil for none
	gates engine.Gates
	n     int
}

func (k *longConv) heads() int { return k.n }

func (k *longConv) channels(h int) []int {
	var out []int
	for j := range k.gates.HeadDim {
		out = append(out, k.gates.OutChannel(h, j, k.n))
	}
	return out
}

// between returns the kernels from position r to position t.
func (k *longConv) between(t, r, l int) []float32 {
	if r <= t {
		return k.taps[(t-r)*k.n:][:k.n]
	}
	return k.ahead[(l-1-(r-t))*k.n:][:k.n]
}

// last returns the last position that affects target t.
func (k *longConv) last(t, l int) int {
	if k.ahead != nil {
		return l - 1
	}
	return t
}

// folded returns p and the parts, multiplied by the gates.
func (k *longConv) folded(w *work) (p []float32, parts []part) {
	p, parts = w.p, append([]part(nil), w.parts...)
	if k.gates.Q != nil {
		p = product(p, k.gates.Q.Floats())
	}
	if k.gates.K != nil {
		gate := k.gates.K.Floats()
		for i := range parts {
			parts[i].x = product(parts[i].x, gate)
		}
	}
	return p, parts
}

func (k *longConv) add(w *work) error {
	if k.gates.HeadDim > 1 {
		return k.addHeads(w)
	}
	p, parts := k.folded(w)
	return w.blocks(kernelBlock, func(from, to int) {
		through := make([]float32, k.n)
		last := k.last(to-1, w.l)
		for first := 0; first <= last; first += kernelBlock {
			for t := from; t < to; t++ {
				for r := first; r <= min(first+kernelBlock-1, k.last(t, w.l)); r++ {
					kernel.MulInto(through, p[t*k.n:][:k.n], k.between(t, r, w.l))
					for i := range parts {
						if x, ok := parts[i].row(r); ok {
							w.m[t*w.l+r-parts[i].lag] += kernel.Dot(through, x)
						}
					}
				}
			}
		}
	})
}

// kernelBlock is the number of targets, and of sources, that are computed together. The kernels between them depend
// only on the distance, and so stay in the cache.
const kernelBlock = 16

// headBlock is the number of targets that are computed together if heads have several channels.
const headBlock = 64

// addHeads is like add, for heads of several channels: the sums over the channels of a head are matrix products.
func (k *longConv) addHeads(w *work) error {
	l, hd, d := w.l, k.gates.HeadDim, k.n*k.gates.HeadDim
	q, key := k.gates.Q.Floats(), k.gates.K.Floats()
	p := make([]float32, len(w.p)) // ordered by head
	for t := range l {
		for h := range k.n {
			for j := range hd {
				p[t*d+h*hd+j] = w.p[t*d+k.gates.OutChannel(h, j, k.n)]
			}
		}
	}
	taps := make([]float32, k.n*l) // for each head, the largest distance first
	for h := range k.n {
		for i := range l {
			taps[h*l+i] = k.taps[(l-1-i)*k.n+h]
		}
	}
	return w.blocks(headBlock, func(from, to int) {
		gates, values := make([]float32, (to-from)*to), make([]float32, (to-from)*to) // for all pairs
		products := func(c, a, b []float32, ldb int) {
			kernel.GemmInline(kernel.Product{Op: kernel.NT, M: to - from, N: to, K: hd, A: a, LDA: d, B: b, LDB: ldb,
				C: c, LDC: to})
		}
		for h := range k.n {
			products(gates, q[from*d+h*hd:], key[h*hd:], d)
			for t := from; t < to; t++ {
				kernel.Mul(gates[(t-from)*to:][:t+1], taps[h*l+l-1-t:])
			}
			for _, part := range w.parts {
				products(values, p[from*d+h*hd:], part.x[h*hd:], part.width)
				for t := max(from, part.lag); t < to; t++ {
					at := (t-from)*to + part.lag
					kernel.MulAdd(w.m[t*l:][:t+1-part.lag], gates[at:], values[at:])
				}
			}
		}
	})
}

// pattern is an operation with heads. Within a head all channels have the same α. α is found by running the operation
// on values that are unit vectors, one position for each channel of a head, so that no operation is defined twice.
type pattern struct {
	engine      engine.Engine
	n, keyHeads int // heads of the results, and of the values
	width       int // channels of a head
	at          int // first column of the values in the operation's input
	affine      bool
	unit        func(v *tensor.Tensor) *tensor.Tensor // computes the operation for the given values
}

func (p *pattern) heads() int { return p.n }

func (p *pattern) channels(h int) []int {
	out := make([]int, p.width)
	for j := range out {
		out[j] = h*p.width + j
	}
	return out
}

func (p *pattern) add(w *work) error {
	return p.weights(w, func(from, n int, y []float32) error {
		return w.rows(func(t int) { p.addRow(w, t, from, n, y) })
	})
}

// weights calls use with the weights of all targets and heads (l, heads·width) for n sources, which are the columns of
// each head. It does so for one block of sources after another.
func (p *pattern) weights(w *work, use func(from, n int, y []float32) error) error {
	d := p.keyHeads * p.width
	var base []float32
	if p.affine {
		base = p.apply(make([]float32, w.l*d), w.l)
	}
	for from := 0; from < w.l; from += p.width {
		n := min(p.width, w.l-from)
		unit := make([]float32, w.l*d)
		for s := range n {
			for h := range p.keyHeads {
				unit[(from+s)*d+h*p.width+s] = 1
			}
		}
		y := p.apply(unit, w.l)
		for i, v := range base {
			y[i] -= v
		}
		if err := errors.Join(w.ctx.Err(), use(from, n, y)); err != nil {
			return err
		}
	}
	return nil
}

// addRow adds the sums of a target for n sources. y holds their weights.
func (p *pattern) addRow(w *work, t, from, n int, y []float32) {
	for h := range p.n {
		own := w.p[(t*p.n+h)*p.width:][:p.width]
		at := p.at + h/(p.n/p.keyHeads)*p.width
		for s, weight := range y[(t*p.n+h)*p.width:][:n] {
			if weight == 0 {
				continue
			}
			for i := range w.parts {
				if x, ok := w.parts[i].row(from + s); ok {
					w.m[t*w.l+from+s-w.parts[i].lag] += weight * kernel.Dot(own, x[at:])
				}
			}
		}
	}
}

// apply runs the operation on values.
func (p *pattern) apply(values []float32, l int) []float32 {
	mark := p.engine.Mark()
	defer p.engine.ReleaseSince(mark)
	v := p.engine.New(l, p.keyHeads*p.width)
	v.CopyFrom(values)
	return p.unit(v).Floats()
}

// fading is h[t] = a[t] h[t-1] + b[t] x[t] for each channel.
type fading struct {
	each
	a, b []float32 // (l, d)
}

// newFading returns the coefficients of RGLRU: see engine.Scans.
func newFading(r, i, lambda []float32) *fading {
	d := len(lambda)
	f := &fading{each: each(d), a: make([]float32, len(r)), b: make([]float32, len(r))}
	for at := range r {
		soft := math.Max(float64(lambda[at%d]), 0) + math.Log1p(math.Exp(-math.Abs(float64(lambda[at%d]))))
		log := -engine.RGLRUPower * float64(r[at]) * soft
		f.a[at], f.b[at] = float32(math.Exp(log)), float32(math.Sqrt(-math.Expm1(2*log)))*i[at]
		if at < d {
			f.b[at] = i[at]
		}
	}
	return f
}

// Numbers below gone are too small to be carried further. This is checked every goneAfter positions.
const (
	gone      = 1e-30
	goneAfter = 16
)

func (f *fading) add(w *work) error {
	d := f.heads()
	parts := append([]part(nil), w.parts...)
	for i := range parts {
		parts[i].x = product(parts[i].x, f.b)
	}
	return w.rows(func(t int) {
		left := append([]float32(nil), w.p[t*d:][:d]...)
		for r := t; r >= 0; r-- {
			for i := range parts {
				if x, ok := parts[i].row(r); ok {
					w.m[t*w.l+r-parts[i].lag] += kernel.Dot(left, x)
				}
			}
			kernel.Mul(left, f.a[r*d:][:d])
			if (t-r)%goneAfter == goneAfter-1 {
				for c, v := range left {
					if v < gone && v > -gone {
						left[c] = 0
					}
				}
			}
		}
	})
}

package autograd

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// convolution is the work of DiagSSM over one long chunk, in tiles of 16 channels (the lanes of the transform). A channel
// is one u_ij = k_i·v_j of one head, numbered head·head_dim² + i·head_dim + j. Heads are shared between cores in groups
// that fill a tile, so that whatever is summed over the channels of a head is summed by one core in one order.
type convolution struct {
	Gates
	sys                        *DiagSystem
	skip, kern, y, state, next *tensor.Tensor
	plan                       *kernel.ConvPlan
}

const lanes = kernel.Lanes

func (c *convolution) headsPerGroup() int { return max(1, lanes/(c.HeadDim*c.HeadDim)) }

// tile is the scratch of one core: 16 channels' spectra and signals (l, 16).
type tile struct {
	kre, kim, ure, uim, gre, gim, sre, sim []float32
	u, z, dz                               []float32
	left, right, product                   []float32 // operands and product, where columns do not lie side by side
	column                                 []float32 // one channel's (l)
	buf                                    []float32

	c0, width  int        // it has channels [c0, c0+width)
	qk, v, out [lanes]int // where q_i = k_i, v_j and y_j of its channels are in a row
	kernel     [lanes]int // where their kernels begin
	skip       [lanes]float32
}

var tilePool = sync.Pool{New: func() any { return new(tile) }}

// newTile lays everything out in one buffer, with a line between, so that not all begins in the same set of the cache.
func (c *convolution) newTile() *tile {
	w := tilePool.Get().(*tile)
	spectrum, l := c.plan.SpectrumSize(), c.V.Dim(1)
	signals := []*[]float32{&w.u, &w.z, &w.dz}
	if c.HeadDim > 1 {
		signals = append(signals, &w.left, &w.right, &w.product)
	}
	w.buf = resize(w.buf, 4*(spectrum+lanes)+len(signals)*(l+1)*lanes+l)
	rest := w.buf
	take := func(n int) (x []float32) {
		x, rest = rest[:n:n], rest[n+lanes:]
		return x
	}
	w.kre, w.kim = c.plan.Spectrum(take(spectrum))
	w.ure, w.uim = c.plan.Spectrum(take(spectrum))
	w.gre, w.gim = c.plan.Spectrum(take(spectrum))
	w.sre, w.sim = c.plan.Spectrum(take(spectrum))
	for _, s := range signals {
		*s = take(l * lanes)
	}
	w.column = rest[:l]
	return w
}

// signal is x (l, 16) as rows.
func signal(x []float32) kernel.Rows { return kernel.Rows{X: x, Step: lanes} }

// lane is channel j of x (l, 16), from the first position on; backwards is the same from the last one on.
func lane(x []float32, j int) kernel.Strided { return kernel.Strided{X: x, At: j, Step: lanes} }

func backwards(x []float32, j int) kernel.Strided {
	return kernel.Strided{X: x, At: len(x) - lanes + j, Step: -lanes}
}

func contiguous(x []float32) kernel.Strided { return kernel.Strided{X: x, Step: 1} }

// each calls f for the tiles of the heads [lo, hi), with the spectra of their kernels.
func (c *convolution) each(lo, hi int, f func(w *tile)) {
	w := c.newTile()
	defer tilePool.Put(w)
	p, l := c.HeadDim, c.V.Dim(1)
	for w.c0 = lo * p * p; w.c0 < hi*p*p; w.c0 += lanes {
		w.width = min(lanes, hi*p*p-w.c0)
		if w.width < lanes {
			clear(w.u)
			clear(w.z)
			clear(w.dz)
		}
		for j := range w.width {
			ch := w.c0 + j
			head, i, k := ch/(p*p), ch%(p*p)/p, ch%p
			w.qk[j], w.v[j], w.out[j] = head*p+i, head*p+k, c.outChannel(head, k, c.sys.H)
			w.skip[j] = c.skip.Data()[head]
			w.kernel[j] = head * l
		}
		kernel.Gather(signal(w.z), w.kernels(c.kern.Data()), l)
		c.plan.Transform(w.kre, w.kim, w.z, l)
		f(w)
	}
}

// kernels are the rows of x (h, l) for the heads of the tile's channels, as columns.
func (w *tile) kernels(x []float32) kernel.Columns {
	return kernel.Columns{X: x, Step: 1, At: w.kernel[:w.width]}
}

// sequence is sequence b of x (b, l, d).
func (c *convolution) sequence(x []float32, b int) []float32 {
	n := c.V.Dim(1) * c.V.Dim(2)
	return x[b*n:][:n]
}

// columns are the columns at of a sequence x (l, d) as rows of a tile: copied to scratch unless they lie side by side.
func (c *convolution) columns(w *tile, x []float32, at *[lanes]int, scratch []float32) kernel.Rows {
	d := c.V.Dim(2)
	if c.HeadDim == 1 {
		return kernel.Rows{X: x[w.c0:], Step: d}
	}
	kernel.Gather(signal(scratch), kernel.Columns{X: x, Step: d, At: at[:w.width]}, c.V.Dim(1))
	return signal(scratch)
}

// addProduct adds a·b to the columns at of a sequence x (l, d), one after the other where several are the same.
func (c *convolution) addProduct(w *tile, x []float32, at *[lanes]int, a, b kernel.Rows) {
	l, d := c.V.Dim(1), c.V.Dim(2)
	if c.HeadDim == 1 {
		kernel.MulAddRows(kernel.Rows{X: x[w.c0:], Step: d}, a, b, l, w.width)
		return
	}
	kernel.MulRows(signal(w.product), a, b, l, w.width)
	kernel.Scatter(kernel.Columns{X: x, Step: d, At: at[:w.width]}, signal(w.product), l)
}

// load fills w.u with the channels' inputs u = k·v of sequence b.
func (c *convolution) load(w *tile, b int) {
	v, k := c.columns(w, c.sequence(c.V.Data(), b), &w.v, w.left), kernel.Ones()
	if c.K != nil {
		k = c.columns(w, c.sequence(c.K.Data(), b), &w.qk, w.right)
	}
	kernel.MulRows(signal(w.u), v, k, c.V.Dim(1), w.width)
}

// respond completes w.z = K∗u, for sequence b, to the systems' outputs before the gate: + D u + what the old state gives.
func (c *convolution) respond(w *tile, b int) {
	kernel.MulAddRows(signal(w.z), signal(w.u), kernel.Rows{X: w.skip[:]}, c.V.Dim(1), w.width)
	if c.state != nil {
		for j := range w.width {
			c.addZeroInput(w, b, w.c0+j, j)
		}
	}
}

func (c *convolution) forward(lo, hi int) {
	batch, l, d := c.V.Dim(0), c.V.Dim(1), c.V.Dim(2)
	c.each(lo, hi, func(w *tile) {
		for b := range batch {
			c.load(w, b)
			c.plan.Convolve(w.z, w.u, w.sre, w.sim, w.kre, w.kim, l)
			c.respond(w, b)
			if c.next != nil {
				for j := range w.width {
					c.carry(w, b, w.c0+j, j)
				}
			}
			y, q := c.sequence(c.y.Data(), b), kernel.Ones()
			if c.Q != nil {
				q = c.columns(w, c.sequence(c.Q.Data(), b), &w.qk, w.left)
			}
			if c.HeadDim == 1 {
				kernel.MulRows(kernel.Rows{X: y[w.c0:], Step: d}, signal(w.z), q, l, w.width)
			} else {
				c.addProduct(w, y, &w.out, q, signal(w.z))
			}
		}
	})
}

// backward recomputes u, its spectrum and z rather than keep them: activations of the inner part cost no memory.
func (c *convolution) backward(lo, hi int) {
	batch, l := c.V.Dim(0), c.V.Dim(1)
	c.each(lo, hi, func(w *tile) {
		clear(w.gre)
		clear(w.gim) // Σ_b of the kernel's gradient, in frequency
		for b := range batch {
			c.load(w, b)
			c.plan.Transform(w.ure, w.uim, w.u, l)
			if c.Q != nil && c.Q.NeedsGrad() {
				c.plan.Mul(w.sre, w.sim, w.ure, w.uim, w.kre, w.kim)
				c.plan.Inverse(w.z, w.sre, w.sim, l)
				c.respond(w, b)
			}
			c.gateGrad(w, b)
			c.skipGrad(w)
			c.plan.Transform(w.sre, w.sim, w.dz, l)
			c.plan.MulConjAdd(w.gre, w.gim, w.sre, w.sim, w.ure, w.uim)
			c.plan.MulConj(w.sre, w.sim, w.sre, w.sim, w.kre, w.kim)
			c.plan.Inverse(w.z, w.sre, w.sim, l) // du from the convolution
			c.inputGrad(w, b)
		}
		if dk := c.kern.Grad(); dk != nil {
			c.plan.Inverse(w.z, w.gre, w.gim, l)
			kernel.Scatter(w.kernels(dk), signal(w.z), l)
		}
	})
}

// gateGrad sets dz = q·dy and adds dq += z·dy.
func (c *convolution) gateGrad(w *tile, b int) {
	dy, q := c.columns(w, c.sequence(c.y.Grad(), b), &w.out, w.left), kernel.Ones()
	if c.Q != nil {
		q = c.columns(w, c.sequence(c.Q.Data(), b), &w.qk, w.right)
	}
	kernel.MulRows(signal(w.dz), q, dy, c.V.Dim(1), w.width)
	if c.Q != nil && c.Q.NeedsGrad() {
		c.addProduct(w, c.sequence(c.Q.Grad(), b), &w.qk, signal(w.z), dy)
	}
}

// skipGrad adds Σ_t dz·u to the gradient of D.
func (c *convolution) skipGrad(w *tile) {
	if !c.skip.NeedsGrad() {
		return
	}
	var sum [lanes]float64
	kernel.DotRows(&sum, signal(w.u), signal(w.dz), c.V.Dim(1), w.width)
	for j := range w.width {
		c.skip.Grad()[(w.c0+j)/(c.HeadDim*c.HeadDim)] += float32(sum[j])
	}
}

// inputGrad completes du (in w.z) with the skip and the state's share and adds dk += v·du, dv += k·du.
func (c *convolution) inputGrad(w *tile, b int) {
	kernel.MulAddRows(signal(w.z), signal(w.dz), kernel.Rows{X: w.skip[:]}, c.V.Dim(1), w.width)
	if c.state != nil {
		for j := range w.width {
			c.carryGrad(w, b, w.c0+j, j)
		}
	}
	if c.K != nil && c.K.NeedsGrad() {
		v := c.columns(w, c.sequence(c.V.Data(), b), &w.v, w.left)
		c.addProduct(w, c.sequence(c.K.Grad(), b), &w.qk, v, signal(w.z))
	}
	if c.V.NeedsGrad() {
		k := kernel.Ones()
		if c.K != nil {
			k = c.columns(w, c.sequence(c.K.Data(), b), &w.qk, w.left)
		}
		c.addProduct(w, c.sequence(c.V.Grad(), b), &w.v, k, signal(w.z))
	}
}

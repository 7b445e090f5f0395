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
	sys                  *DiagSystem
	skip, dskip          []float32
	kern, y, state, next *tensor.Tensor
	plan                 *kernel.ConvPlan
}

const lanes = kernel.Lanes

func (c *convolution) headsPerGroup() int { return max(1, lanes/(c.HeadDim*c.HeadDim)) }

// tile is the scratch of one core: spectra (n, 16) and signals (l, 16).
type tile struct {
	kre, kim, ure, uim, gre, gim, sre, sim []float32
	u, z, dz                               []float32
	column, reversed                       []float32
}

var tilePool = sync.Pool{New: func() any { return new(tile) }}

func (c *convolution) newTile() *tile {
	w := tilePool.Get().(*tile)
	n, l := c.plan.N()*lanes, c.V.Dim(1)
	for _, b := range []*[]float32{&w.kre, &w.kim, &w.ure, &w.uim, &w.gre, &w.gim, &w.sre, &w.sim} {
		*b = resize(*b, n)
	}
	for _, b := range []*[]float32{&w.u, &w.z, &w.dz} {
		*b = resize(*b, l*lanes)
	}
	w.column, w.reversed = resize(w.column, l), resize(w.reversed, l)
	return w
}

// each calls f for the tiles of the heads [lo, hi): channels [c0, c0+width).
func (c *convolution) each(lo, hi int, f func(w *tile, c0, width int)) {
	w := c.newTile()
	defer tilePool.Put(w)
	pp := c.HeadDim * c.HeadDim
	for c0 := lo * pp; c0 < hi*pp; c0 += lanes {
		width := min(lanes, hi*pp-c0)
		for j := range lanes { // the kernels of the tile's channels, transposed to (l, 16)
			if j < width {
				l := c.kern.Dim(1)
				scatterColumn(w.z, c.kern.Data()[(c0+j)/pp*l:][:l], j)
			} else {
				zeroColumn(w.z, j)
				zeroColumn(w.u, j)
				zeroColumn(w.dz, j)
			}
		}
		c.plan.Transform(w.kre, w.kim, w.z, c.V.Dim(1))
		f(w, c0, width)
	}
}

func scatterColumn(tile, x []float32, j int) {
	for t, v := range x {
		tile[t*lanes+j] = v
	}
}

func zeroColumn(tile []float32, j int) {
	for t := j; t < len(tile); t += lanes {
		tile[t] = 0
	}
}

// channels returns, for channel ch, its head and the offsets of q_i = k_i, v_j and y_j inside a row.
func (c *convolution) channels(ch int) (head, qk, v, out int) {
	p := c.HeadDim
	head = ch / (p * p)
	i, j := ch%(p*p)/p, ch%p
	return head, head*p + i, head*p + j, c.outChannel(head, j, c.sys.H)
}

// load fills w.u with the channels' inputs u = k·v of sequence b.
func (c *convolution) load(w *tile, b, c0, width int) {
	l, d := c.V.Dim(1), c.V.Dim(2)
	v := c.V.Data()[b*l*d:][:l*d]
	if c.HeadDim == 1 {
		for t := range l {
			copy(w.u[t*lanes:][:width], v[t*d+c0:][:width])
			if c.K != nil {
				kernel.Mul(w.u[t*lanes:][:width], c.K.Data()[(b*l+t)*d+c0:][:width])
			}
		}
		return
	}
	k := c.K.Data()[b*l*d:][:l*d]
	for j := range width {
		_, qk, vj, _ := c.channels(c0 + j)
		for t := range l {
			w.u[t*lanes+j] = k[t*d+qk] * v[t*d+vj]
		}
	}
}

// respond fills w.z with the systems' outputs before the gate, z = K∗u + D u + (what the old state contributes), from w.u,
// whose spectrum it leaves in ure, uim.
func (c *convolution) respond(w *tile, b, c0, width int) {
	l := c.V.Dim(1)
	c.plan.Transform(w.ure, w.uim, w.u, l)
	c.plan.Mul(w.sre, w.sim, w.ure, w.uim, w.kre, w.kim)
	c.plan.Inverse(w.z, w.sre, w.sim, l)
	var skip [lanes]float32
	for j := range width {
		skip[j] = c.skip[(c0+j)/(c.HeadDim*c.HeadDim)]
	}
	for t := range l {
		kernel.MulAdd(w.z[t*lanes:][:lanes], w.u[t*lanes:][:lanes], skip[:])
	}
	if c.state != nil {
		for j := range width {
			c.addZeroInput(w, b, c0+j, j)
		}
	}
}

func (c *convolution) forward(lo, hi int) {
	batch, l, d := c.V.Dim(0), c.V.Dim(1), c.V.Dim(2)
	c.each(lo, hi, func(w *tile, c0, width int) {
		for b := range batch {
			c.load(w, b, c0, width)
			c.respond(w, b, c0, width)
			if c.next != nil {
				for j := range width {
					c.carry(w, b, c0+j, j)
				}
			}
			y := c.y.Data()[b*l*d:][:l*d]
			if c.HeadDim == 1 {
				for t := range l {
					out := y[t*d+c0:][:width]
					copy(out, w.z[t*lanes:])
					if c.Q != nil {
						kernel.Mul(out, c.Q.Data()[(b*l+t)*d+c0:][:width])
					}
				}
				continue
			}
			q := c.Q.Data()[b*l*d:][:l*d]
			for j := range width {
				_, qk, _, out := c.channels(c0 + j)
				for t := range l {
					y[t*d+out] += q[t*d+qk] * w.z[t*lanes+j]
				}
			}
		}
	})
}

// backward recomputes u, its spectrum and z rather than keep them: activations of the inner part cost no memory.
func (c *convolution) backward(lo, hi int) {
	batch, l := c.V.Dim(0), c.V.Dim(1)
	c.each(lo, hi, func(w *tile, c0, width int) {
		clear(w.gre)
		clear(w.gim) // Σ_b of the kernel's gradient, in frequency
		for b := range batch {
			c.load(w, b, c0, width)
			c.respond(w, b, c0, width)
			c.gateGrad(w, b, c0, width)
			c.skipGrad(w, c0, width)
			c.plan.Transform(w.sre, w.sim, w.dz, l)
			c.plan.MulConjAdd(w.gre, w.gim, w.sre, w.sim, w.ure, w.uim)
			c.plan.MulConj(w.sre, w.sim, w.sre, w.sim, w.kre, w.kim)
			c.plan.Inverse(w.z, w.sre, w.sim, l) // du from the convolution
			c.inputGrad(w, b, c0, width)
		}
		if dk := c.kern.Grad(); dk != nil {
			c.plan.Inverse(w.z, w.gre, w.gim, l)
			for j := range width {
				row := dk[(c0+j)/(c.HeadDim*c.HeadDim)*l:][:l]
				for t := range row {
					row[t] += w.z[t*lanes+j]
				}
			}
		}
	})
}

// gateGrad sets dz = q·dy and adds dq += z·dy.
func (c *convolution) gateGrad(w *tile, b, c0, width int) {
	l, d := c.V.Dim(1), c.V.Dim(2)
	dy := c.y.Grad()[b*l*d:][:l*d]
	for j := range width {
		_, qk, _, out := c.channels(c0 + j)
		if c.Q == nil {
			for t := range l {
				w.dz[t*lanes+j] = dy[t*d+out]
			}
			continue
		}
		q := c.Q.Data()[b*l*d:][:l*d]
		for t := range l {
			w.dz[t*lanes+j] = q[t*d+qk] * dy[t*d+out]
		}
		if c.Q.NeedsGrad() {
			dq := c.Q.Grad()[b*l*d:][:l*d]
			for t := range l {
				dq[t*d+qk] += w.z[t*lanes+j] * dy[t*d+out]
			}
		}
	}
}

// skipGrad adds Σ_t dz·u to the gradient of D.
func (c *convolution) skipGrad(w *tile, c0, width int) {
	if c.dskip == nil {
		return
	}
	var sum [lanes]float64
	for t := 0; t < len(w.u); t += lanes {
		u, dz := w.u[t:][:lanes], w.dz[t:][:lanes]
		for j := range sum {
			sum[j] += float64(u[j]) * float64(dz[j])
		}
	}
	for j := range width {
		c.dskip[(c0+j)/(c.HeadDim*c.HeadDim)] += float32(sum[j])
	}
}

// inputGrad completes du (in w.z) with the skip and the state's share and adds dk += v·du, dv += k·du.
func (c *convolution) inputGrad(w *tile, b, c0, width int) {
	l, d := c.V.Dim(1), c.V.Dim(2)
	v := c.V.Data()[b*l*d:][:l*d]
	for j := range width {
		head, qk, vj, _ := c.channels(c0 + j)
		skip := c.skip[head]
		for t := j; t < l*lanes; t += lanes {
			w.z[t] += skip * w.dz[t]
		}
		if c.state != nil {
			c.carryGrad(w, b, c0+j, j)
		}
		if c.K == nil {
			if c.V.NeedsGrad() {
				dv := c.V.Grad()[b*l*d:][:l*d]
				for t := range l {
					dv[t*d+vj] += w.z[t*lanes+j]
				}
			}
			continue
		}
		k := c.K.Data()[b*l*d:][:l*d]
		if c.K.NeedsGrad() {
			dk := c.K.Grad()[b*l*d:][:l*d]
			for t := range l {
				dk[t*d+qk] += v[t*d+vj] * w.z[t*lanes+j]
			}
		}
		if c.V.NeedsGrad() {
			dv := c.V.Grad()[b*l*d:][:l*d]
			for t := range l {
				dv[t*d+vj] += k[t*d+qk] * w.z[t*lanes+j]
			}
		}
	}
}

package cpu

import (
	"math"
	"math/cmplx"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// cauchyWork is scratch for one channel. Nodes are computed in blocks whose sums stay in the processor's cache.
type cauchyWork struct {
	sys            *dplrSystem
	c              lowRank // of the channel
	ct, w, x, g    []complex128
	sumsOf, gradOf kernel.Cauchy
	nodes          cauchyNodes
	sums           []float64 // X and Y of the sums of a block, or their gradients: (M, 2, cauchyBlock)
	solved         []float32 // results of solve for the channel: a part of cauchyOp.kept, or scratch
	scratch        []float32
	f              []complex128 // F at a block, or the gradients of S_cw
}

// cauchyBlock is the number of nodes of a block.
const cauchyBlock = 512

// cauchyNodes holds the nodes for sequences of length l: the tangents, their squares, and their indices in a spectrum.
type cauchyNodes struct {
	l                   int
	tan, square, weight []float64
	row                 []int
}

// set computes the nodes for length l.
func (x *cauchyNodes) set(l int) {
	if x.l == l {
		return
	}
	n, f := l/2+1, kernel.NewRealDFT(l)
	x.l, x.tan, x.square = l, resize(x.tan, n), resize(x.square, n)
	x.weight, x.row = resize(x.weight, n), resize(x.row, n)
	for k := range x.tan {
		x.tan[k] = math.Tan(math.Pi * float64(k) / float64(l))
		x.square[k] = x.tan[k] * x.tan[k]
		x.weight[k], x.row[k] = f.Weight(k), f.Row(k)
	}
}

var cauchyPool = sync.Pool{New: func() any { return new(cauchyWork) }}

func borrowCauchy(s *dplrSystem) *cauchyWork {
	w := cauchyPool.Get().(*cauchyWork)
	m := (1 + s.Rank) * (1 + s.Rank)
	w.sys = s
	for _, x := range []*[]complex128{&w.w, &w.x, &w.g} {
		*x = resize(*x, s.N)
	}
	w.nodes.set(s.L)
	w.f, w.sums = resize(w.f, cauchyBlock), resize(w.sums, 2*m*cauchyBlock)
	w.sumsOf.Resize(s.N, m)
	w.gradOf.Resize(s.N, m)
	return w
}

// factors returns the x_i and y_i of sum j, numbered x·(1+rank) + y: x is C~, then conj(p_r); y is w, then p_r.
func (w *cauchyWork) factors(j, i int) (x, y complex128) {
	a, b := j/(1+w.sys.Rank), j%(1+w.sys.Rank)
	x, y = w.ct[i], w.w[i]
	if a > 0 {
		x = cmplx.Conj(w.c.p[a-1][i])
	}
	if b > 0 {
		y = w.c.p[b-1][i]
	}
	return x, y
}

// channel prepares w for channel h of vector b.
func (w *cauchyWork) channel(o *cauchyOp, b, h int) {
	s := w.sys
	w.c = s.channel(h, s.N, s.Rank)
	w.ct = s.ct[h*s.N:][:s.N]
	if o.kernels() {
		copy(w.w, w.c.b)
	} else {
		x0 := o.x0[b].Data()[2*h*s.N:]
		for i := range w.x {
			w.x[i] = pair(x0, i) / 2
		}
		w.c.apply(w.w, w.x, s.Rank, false)
	}
	for i, lambda := range w.c.lambda {
		w.sumsOf.Mode(i, lambda)
		for j := range w.sumsOf.M {
			x, y := w.factors(j, i)
			w.sumsOf.Term(i, j, lambda, x*y)
		}
	}
}

// blocks calls f for the nodes [at, at+n) of every block.
func (w *cauchyWork) blocks(f func(at, n int)) {
	for at := 0; at < len(w.nodes.tan); at += cauchyBlock {
		f(at, min(cauchyBlock, len(w.nodes.tan)-at))
	}
}

// at returns sum a·(1+rank)+b at node k of a block of n.
func (w *cauchyWork) at(a, b, k, n int, tan float64) complex128 {
	j := 2 * (a*(1+w.sys.Rank) + b)
	return complex(w.sums[j*n+k], tan*w.sums[(j+1)*n+k])
}

// solve returns (1 + S_pp)⁻¹ S_pw and S_cp (1 + S_pp)⁻¹ at node k of a block of n.
func (w *cauchyWork) solve(k, n int, tan float64) (right, left [engine.MaxRank]complex128) {
	switch w.sys.Rank {
	case 1:
		m := reciprocal(1 + w.at(1, 1, k, n, tan))
		right[0], left[0] = m*w.at(1, 0, k, n, tan), m*w.at(0, 1, k, n, tan)
	case 2:
		a, b, c, d := 1+w.at(1, 1, k, n, tan), w.at(1, 2, k, n, tan), w.at(2, 1, k, n, tan), 1+w.at(2, 2, k, n, tan)
		m := reciprocal(a*d - b*c)
		x, y := w.at(1, 0, k, n, tan), w.at(2, 0, k, n, tan)
		right[0], right[1] = m*(d*x-b*y), m*(a*y-c*x)
		x, y = w.at(0, 1, k, n, tan), w.at(0, 2, k, n, tan)
		left[0], left[1] = m*(d*x-c*y), m*(a*y-b*x)
	}
	return right, left
}

// reciprocal returns 1/z. It is several times as fast as Go's division, which handles infinities and squares that
// overflow.
func reciprocal(z complex128) complex128 {
	n := 1 / (real(z)*real(z) + imag(z)*imag(z))
	return complex(real(z)*n, -imag(z)*n)
}

// evaluate computes F at the nodes [at, at+n), a block, and stores the results of solve.
func (w *cauchyWork) evaluate(at, n int) {
	kernel.CauchySums(w.sums, w.nodes.square[at:at+n], &w.sumsOf)
	if w.sys.Rank == 1 {
		w.evaluateRank1(at, n)
		return
	}
	for k, tan := range w.nodes.tan[at : at+n] {
		v := w.at(0, 0, k, n, tan)
		right, left := w.solve(k, n, tan)
		for r := range w.sys.Rank {
			v -= w.at(0, 1+r, k, n, tan) * right[r]
			w.keep(2*r, at+k, right[r])
			w.keep(2*r+1, at+k, left[r])
		}
		w.f[k] = complex(1, tan) * v
	}
}

// evaluateRank1 does the part of evaluate after the sums for rank 1, which nearly all systems have. It is several times
// as fast because the compiler sees that all slices have the length of the block.
func (w *cauchyWork) evaluateRank1(at, n int) {
	x0, x1, x2, x3 := w.sums[:n], w.sums[2*n:][:n], w.sums[4*n:][:n], w.sums[6*n:][:n] // S_cw, S_cp, S_pw and S_pp
	y0, y1, y2, y3 := w.sums[n:][:n], w.sums[3*n:][:n], w.sums[5*n:][:n], w.sums[7*n:][:n]
	to, nodes := w.solved[at:], len(w.nodes.tan)
	rightRe, rightIm, leftRe, leftIm := to[:n], to[nodes:][:n], to[2*nodes:][:n], to[3*nodes:][:n]
	tan, f := w.nodes.tan[at:][:n], w.f[:n]
	for k := range n {
		t := tan[k]
		cp, m := complex(x1[k], t*y1[k]), reciprocal(complex(1+x3[k], t*y3[k]))
		right, left := m*complex(x2[k], t*y2[k]), m*cp
		f[k] = complex(1, t) * (complex(x0[k], t*y0[k]) - cp*right)
		rightRe[k], rightIm[k] = float32(real(right)), float32(imag(right))
		leftRe[k], leftIm[k] = float32(real(left)), float32(imag(left))
	}
}

// keep stores the i-th result of solve at a node: right[0], left[0], right[1], left[1].
func (w *cauchyWork) keep(i, node int, v complex128) {
	at := 2*i*len(w.nodes.tan) + node
	w.solved[at], w.solved[at+len(w.nodes.tan)] = float32(real(v)), float32(imag(v))
}

func (w *cauchyWork) kept(i, node int) complex128 {
	at := 2*i*len(w.nodes.tan) + node
	return complex(float64(w.solved[at]), float64(w.solved[at+len(w.nodes.tan)]))
}

// keepIn makes solve's results for channel h go to kept, or to scratch if kept is nil.
func (w *cauchyWork) keepIn(kept []float32, h int) {
	n := 4 * w.sys.Rank * len(w.nodes.tan)
	if kept == nil {
		w.solved = resize(w.scratch, n)
		w.scratch = w.solved
		return
	}
	w.solved = kept[h*n:][:n]
}

// respond writes the spectrum of channel h of vector b.
func (w *cauchyWork) respond(o *cauchyOp, spectrum []float32, b, h int) {
	w.channel(o, b, h)
	w.keepIn(o.kept, h)
	w.blocks(func(at, n int) {
		w.evaluate(at, n)
		for k, v := range w.f[:n] {
			to, weight := w.nodes.row[at+k]*w.sys.H+h, w.nodes.weight[at+k]
			spectrum[to], spectrum[to+w.sys.H] = float32(real(v)*weight), float32(imag(v)*weight)
		}
	})
}

// gradient adds to the gradients of the system, and to dx0 unless that is nil, given the gradient of the spectrum.
func (w *cauchyWork) gradient(o *cauchyOp, spectrum, dx0 []float32, b, h int) {
	s := w.sys
	w.channel(o, b, h)
	w.keepIn(o.kept, h)
	w.gradOf.Clear()
	w.blocks(func(at, n int) {
		if o.kept == nil {
			w.evaluate(at, n)
		}
		for k, tan := range w.nodes.tan[at : at+n] {
			from, weight := w.nodes.row[at+k]*s.H+h, w.nodes.weight[at+k]
			w.f[k] = complex(float64(spectrum[from])*weight, float64(spectrum[from+s.H])*weight) * complex(1, -tan)
		}
		w.sumsGrad(at, n)
		kernel.CauchySumsGrad(&w.gradOf, w.sums, w.nodes.square[at:at+n], &w.sumsOf)
	})
	w.chain(o, dx0, h)
}

// sumsGrad replaces the sums at the nodes [at, at+n), a block, by their gradients. f holds the gradients of S_cw.
func (w *cauchyWork) sumsGrad(at, n int) {
	for k, tan := range w.nodes.tan[at : at+n] {
		e := w.f[k]
		w.setGrad(0, 0, k, n, tan, e)
		for r := range w.sys.Rank {
			left := cmplx.Conj(w.kept(2*r+1, at+k))
			w.setGrad(0, 1+r, k, n, tan, -e*cmplx.Conj(w.kept(2*r, at+k)))
			w.setGrad(1+r, 0, k, n, tan, -e*left)
			for q := range w.sys.Rank {
				w.setGrad(1+r, 1+q, k, n, tan, e*left*cmplx.Conj(w.kept(2*q, at+k)))
			}
		}
	}
}

// setGrad sets the gradient of sum a·(1+rank)+b at node k of a block of n.
func (w *cauchyWork) setGrad(a, b, k, n int, tan float64, v complex128) {
	j := 2 * (a*(1+w.sys.Rank) + b)
	w.sums[j*n+k], w.sums[(j+1)*n+k] = real(v), tan*imag(v)
}

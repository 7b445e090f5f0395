package autograd

import (
	"math/cmplx"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// How a chunk of l positions carries the state of one channel, mode by mode:
//
//	what the old state adds to the output:  z[t] += 2 Re Σ_n C Ā^{t+1} x0        (a Vandermonde product with c = C Ā x0)
//	the state after the chunk:              x_l = Ā^l x0 + B̄ S,  S = Σ_t Ā^{l-1-t} u[t]  (its transpose, u reversed)
//
// Lane j of the tile is channel ch of sequence b.

func (c *convolution) stateOf(x []float32, b, ch int) []float32 {
	n := c.sys.N
	return x[2*n*(b*c.sys.H*c.HeadDim*c.HeadDim+ch):][:2*n]
}

func (c *convolution) head(ch int) (at, n int) {
	return ch / (c.HeadDim * c.HeadDim) * c.sys.N, c.sys.N
}

func (c *convolution) addZeroInput(w *tile, b, ch, j int) {
	at, n := c.head(ch)
	x0 := c.stateOf(c.state.Data(), b, ch)
	m := modeScratch(n)
	defer modePool.Put(m)
	for i := range n {
		m.c[i] = c.sys.C[at+i] * c.sys.Abar[at+i] * pair(x0, i)
	}
	kernel.Vandermonde(w.column, m.c, c.sys.Abar[at:][:n], 2, m.work(len(w.column)))
	kernel.AddStrided(lane(w.z, j), contiguous(w.column), len(w.column))
}

func (c *convolution) carry(w *tile, b, ch, j int) {
	at, n := c.head(ch)
	l := c.V.Dim(1)
	x0, x1 := c.stateOf(c.state.Data(), b, ch), c.stateOf(c.next.Data(), b, ch)
	m := modeScratch(n)
	defer modePool.Put(m)
	kernel.CopyStrided(contiguous(w.column), backwards(w.u, j), l)
	clear(m.dc)
	clear(m.c)
	// Σ_l dk[l] Re(c z^l) has the gradient conj(Σ_l dk[l] z^l) with respect to c: with dk = reversed u that is conj(S).
	kernel.VandermondeBackward(m.dc, m.spare(n), w.column, m.c, c.sys.Abar[at:][:n], 1, m.work(l))
	for i := range n {
		setPair(x1, i, kernel.Power(c.sys.Abar[at+i], l)*pair(x0, i)+c.sys.Bbar[at+i]*cmplx.Conj(m.dc[i]))
	}
}

// carryGrad is the backward of addZeroInput and carry: it adds to du (w.z), to the state's gradient and to the system's.
func (c *convolution) carryGrad(w *tile, b, ch, j int) {
	at, n := c.head(ch)
	l, s := c.V.Dim(1), c.sys
	x0 := c.stateOf(c.state.Data(), b, ch)
	m := modeScratch(n)
	defer modePool.Put(m)
	var dx0 []float32
	if c.state.NeedsGrad() {
		dx0 = c.stateOf(c.state.Grad(), b, ch)
	}
	dA := m.spare(n) // the system's own gradients exist only where its parameters want them
	abar := s.Abar[at:][:n]

	kernel.CopyStrided(contiguous(w.column), lane(w.dz, j), l)
	for i := range n {
		m.c[i] = s.C[at+i] * abar[i] * pair(x0, i)
	}
	clear(m.dc)
	kernel.VandermondeBackward(m.dc, dA, w.column, m.c, abar, 2, m.work(l))
	for i, d := range m.dc {
		addPair(dx0, i, d*cmplx.Conj(s.C[at+i]*abar[i]))
		if s.wantGrad {
			s.dC[at+i] += d * cmplx.Conj(abar[i]*pair(x0, i))
			dA[i] += d * cmplx.Conj(s.C[at+i]*pair(x0, i))
		}
	}
	if c.next.Grad() != nil {
		c.nextGrad(w, m, dA, x0, dx0, c.stateOf(c.next.Grad(), b, ch), at, j)
	}
	if s.wantGrad {
		for i, d := range dA {
			s.dA[at+i] += d
		}
	}
}

// nextGrad is the part that comes from the gradient g of the state after the chunk. With dS = g·conj(B̄) the inputs' part
// of the loss is Σ_t u[t] Re(conj(dS) Ā^{l-1-t}), a Vandermonde product again.
func (c *convolution) nextGrad(w *tile, m *modes, dA []complex128, x0, dx0, g []float32, at, j int) {
	l, n, s := c.V.Dim(1), c.sys.N, c.sys
	abar := s.Abar[at:][:n]
	for i := range n {
		gi := pair(g, i)
		m.c[i] = cmplx.Conj(gi) * s.Bbar[at+i]
		addPair(dx0, i, gi*cmplx.Conj(kernel.Power(abar[i], l)))
		dA[i] += gi * cmplx.Conj(complex(float64(l), 0)*kernel.Power(abar[i], l-1)*pair(x0, i))
	}
	kernel.Vandermonde(w.column, m.c, abar, 1, m.work(l))
	kernel.AddStrided(backwards(w.z, j), contiguous(w.column), l)
	kernel.CopyStrided(contiguous(w.column), backwards(w.u, j), l)
	clear(m.dc)
	kernel.VandermondeBackward(m.dc, dA, w.column, m.c, abar, 1, m.work(l))
	if s.wantGrad {
		for i, d := range m.dc { // d = conj(S)
			s.dB[at+i] += pair(g, i) * d
		}
	}
}

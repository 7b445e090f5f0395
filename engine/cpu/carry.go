package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// carrier carries the states of up to 16 channels through a row of l positions, from before the row to after it.
// Signals are (l, 16), with a lane for each channel. For a channel with n modes, state x0 before the row and x1 after
// it:
//
//	the old state's part of the output:  z[t] += 2 Re Σ_n C Ā^{t+1} x0  (a Vandermonde product, c = C Ā x0)
//	the state after the row:             x1 = Ā^l x0 + B̄ S,  S = Σ_t Ā^{l-1-t} u[t]  (its transpose, u reversed)
//
// States are (channels, n, 2); an x0 of nil means zeros. Values that depend only on the systems are computed once for
// all rows.
type carrier struct {
	sys      *diagSystem
	l, width int
	head     [lanes]int                 // the system of each channel
	v        [lanes]*kernel.Vandermonde // powers of its Ā; channels of one system share them
	store    [lanes]kernel.Vandermonde

	last, all          kernel.Modes // Ā^{l-1} and Ā^l of each channel
	x, g, c, s, ds, dA kernel.Modes // of one channel
	rows               []float32    // (16, l)
	signal             []float32    // (l, 16)
}

// set prepares the carrier for width channels from c0 on. Each system has perHead channels.
func (w *carrier) set(sys *diagSystem, c0, width, perHead, l int) {
	w.sys, w.l, w.width = sys, l, width
	w.rows, w.signal = resize(w.rows, lanes*l), resize(w.signal, lanes*l)
	clear(w.rows[width*l:])
	w.last, w.all = resize(w.last, lanes*sys.width), resize(w.all, lanes*sys.width)
	for _, x := range []*kernel.Modes{&w.x, &w.g, &w.c, &w.s, &w.ds, &w.dA} {
		*x = resize(*x, sys.width)
	}
	for j := range width {
		w.head[j] = (c0 + j) / perHead
		last, all := w.of(w.last, j), w.of(w.all, j)
		if j > 0 && w.head[j] == w.head[j-1] {
			w.v[j] = w.v[j-1]
			copy(last, w.of(w.last, j-1))
			copy(all, w.of(w.all, j-1))
			continue
		}
		abar := sys.of(sys.abar, w.head[j])
		w.v[j] = &w.store[j]
		w.v[j].Set(abar, l)
		last.Power(abar, l-1, w.c)
		all.Mul(1, last, abar)
	}
}

// of returns the modes of channel j in an array for all channels.
func (w *carrier) of(x kernel.Modes, j int) kernel.Modes { return x[j*w.sys.width:][:w.sys.width] }

// state returns the state of channel j in x.
func (w *carrier) state(x []float32, j int) []float32 { return x[2*w.sys.N*j:][:2*w.sys.N] }

// load sets w.x to the state of channel j in x0.
func (w *carrier) load(x0 []float32, j int) {
	if x0 == nil {
		clear(w.x)
		return
	}
	unpair(w.x, w.state(x0, j), w.sys.N)
}

// row returns row j of w.rows.
func (w *carrier) row(j int) []float32 { return w.rows[j*w.l:][:w.l] }

// addRows adds w.rows to z (l, 16), in reverse order if back is true.
func (w *carrier) addRows(z []float32, back bool) {
	ld := lanes
	if back {
		ld = -lanes
	}
	kernel.Transpose(lanes, w.l, w.signal, ld, w.rows, w.l)
	kernel.Add(z, w.signal)
}

// setRows sets w.rows to the columns of x (l, 16), in reverse order if back is true.
func (w *carrier) setRows(x []float32, back bool) {
	ld := lanes
	if back {
		ld = -lanes
	}
	kernel.Transpose(w.l, lanes, w.rows, w.l, x, ld)
}

// addZeroInput adds to z (l, 16) the response to the states x0 without inputs.
func (w *carrier) addZeroInput(z, x0 []float32) {
	s := w.sys
	for j := range w.width {
		abar, c := s.of(s.abar, w.head[j]), s.of(s.c, w.head[j])
		unpair(w.x, w.state(x0, j), s.N)
		w.c.Mul(2, c, abar)
		w.c.Mul(1, w.c, w.x)
		w.v[j].Apply(w.row(j), w.c)
	}
	w.addRows(z, false)
}

// carry sets x1, which may be x0, to the states after inputs u (l, 16).
func (w *carrier) carry(x1, x0, u []float32) {
	s := w.sys
	w.setRows(u, true)
	for j := range w.width {
		w.v[j].Sums(w.s, nil, w.row(j))
		w.s.Mul(1, w.s, s.of(s.bbar, w.head[j]))
		w.load(x0, j)
		w.x.Mul(1, w.x, w.of(w.all, j))
		w.s.Add(1, w.x)
		toPairs(w.state(x1, j), w.s, s.N)
	}
}

// zeroInputGrad is the backward pass of addZeroInput, with dz the gradient of z. It adds to dx0, unless that is nil,
// and to the gradients of the system.
func (w *carrier) zeroInputGrad(dx0, x0, dz []float32) {
	s := w.sys
	w.setRows(dz, false)
	for j := range w.width {
		h := w.head[j]
		abar, c := s.of(s.abar, h), s.of(s.c, h)
		unpair(w.x, w.state(x0, j), s.N)
		ds := w.ds
		if !s.wantGrad {
			ds = nil
		}
		w.v[j].Sums(w.s, ds, w.row(j))
		if dx0 != nil {
			w.c.Mul(1, c, abar)
			clear(w.g)
			w.g.AddConjMul(2, w.s, w.c)
			addPairs(w.state(dx0, j), w.g, s.N)
		}
		if s.wantGrad {
			w.c.Mul(1, abar, w.x)
			s.of(s.dC, h).AddConjMul(2, w.s, w.c)
			w.c.Mul(1, c, w.x)
			s.of(s.dA, h).AddConjMul(2, w.s, w.c)
			w.c.Mul(1, w.c, abar)
			s.of(s.dA, h).AddConjMul(2, w.c, ds)
		}
	}
}

// carryGrad is the backward pass of carry, with g the gradient of the states after the row. It adds to dx0, unless that
// is nil, to du (l, 16) and to the gradients of the system. With dS = g·conj(B̄), du[t] is Re(conj(dS) Ā^{l-1-t}),
// which is again a Vandermonde product.
func (w *carrier) carryGrad(dx0, du, x0, u, g []float32) {
	s := w.sys
	w.setRows(u, true)
	for j := range w.width {
		h := w.head[j]
		unpair(w.g, w.state(g, j), s.N)
		if dx0 != nil {
			w.c.MulConj(1, w.g, w.of(w.all, j))
			addPairs(w.state(dx0, j), w.c, s.N)
		}
		w.c.MulConj(1, s.of(s.bbar, h), w.g)
		if s.wantGrad {
			w.load(x0, j)
			w.v[j].Sums(w.s, w.ds, w.row(j))
			dA, dB := s.of(s.dA, h), s.of(s.dB, h)
			dA.AddConjMul(1, w.c, w.ds)
			w.dA.Mul(float64(w.l), w.of(w.last, j), w.x)
			w.dA.MulConj(1, w.g, w.dA)
			dA.Add(1, w.dA)
			w.s.MulConj(1, w.g, w.s)
			dB.Add(1, w.s)
		}
		w.v[j].Apply(w.row(j), w.c)
	}
	w.addRows(du, true)
}

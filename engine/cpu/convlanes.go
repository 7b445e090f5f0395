package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// convLanesPool holds free convLanes for the cores.
var convLanesPool = sync.Pool{New: func() any { return new(convLanes) }}

// convLanes holds the data of one core for 16 channels of a convolution, the lanes of the transform: their spectra, and
// scratch for a few positions. The types below that are defined as convLanes pass inputs to the transform a few
// positions at a time, when it asks for them, and store its results, so that no signal is ever stored whole.
type convLanes struct {
	c                  *convolution
	kernel, u, dz, sum kernel.Spectrum
	rows               [4][]float32 // scratch, each (rowsAtOnce, 16)
	buf                []float32
	states             laneStates

	b         int // index of the row
	c0, width int // its channels are [c0, c0+width)
	inPlace   bool
	head      int        // the first of 16 heads that its channels belong to
	at        [lanes]int // the heads of its channels, from that one on
	qk, v, y  [lanes]int // the columns of q_i and k_i, of v_j and of y_j of its channels in a row
}

// rowsAtOnce is the largest number of positions that a transform asks for at a time.
const rowsAtOnce = kernel.ConvRows

// reserve lays out all parts in one buffer, with a gap of a cache line between them, so that they do not all start in
// the same set of the cache.
func (w *convLanes) reserve() {
	plan := w.c.plan
	spectrum := plan.SpectrumSize()
	w.buf = resize(w.buf, 4*(spectrum+lanes)+len(w.rows)*(rowsAtOnce+1)*lanes)
	rest := w.buf
	take := func(n int) (x []float32) {
		x, rest = rest[:n:n], rest[n+lanes:]
		return x
	}
	for _, s := range []*kernel.Spectrum{&w.kernel, &w.u, &w.dz, &w.sum} {
		*s = plan.Spectrum(take(spectrum))
	}
	for i := range w.rows {
		w.rows[i] = take(rowsAtOnce * lanes)
	}
}

// place moves to the channels [c0, c0+width).
func (w *convLanes) place(c0, width int) {
	c, p := w.c, w.c.HeadDim
	w.c0, w.width, w.inPlace = c0, width, p == 1
	if n := c.plan.SpectrumSize(); c.kept != nil {
		w.kernel = c.plan.Spectrum(c.kept[c0/lanes*n:][:n])
	}
	if c.sys != nil {
		w.states.set(c.sys, c0, width, p*p, c.rows[0].len)
	}
	for j := range width {
		ch := c0 + j
		head, i, k := ch/(p*p), ch%(p*p)/p, ch%p
		if j == 0 {
			w.head = head / lanes * lanes
		}
		w.at[j], w.qk[j], w.v[j], w.y[j] = head-w.head, head*p+i, head*p+k, c.OutChannel(head, k, c.heads)
	}
}

// len returns the length of row b.
func (w *convLanes) len() int { return w.c.rows[w.b].len }

// row returns the elements of row b in x (n, d).
func (w *convLanes) row(x []float32) []float32 {
	at, d := w.c.rows[w.b], w.c.V.Dim(-1)
	return x[at.at*d:][:at.len*d]
}

// rowsOf returns the channels' elements of row b in x, for channels that lie side by side.
func (w *convLanes) rowsOf(x []float32) kernel.Rows {
	return kernel.Rows{X: w.row(x)[w.c0:], Step: w.c.V.Dim(-1)}
}

// columns returns the columns at of positions [t, t+n) of row b in x: in place if they lie side by side, else copied to
// scratch.
func (w *convLanes) columns(x []float32, at *[lanes]int, t, n int, scratch []float32) kernel.Rows {
	d := w.c.V.Dim(-1)
	x = w.row(x)[t*d:]
	if w.inPlace {
		w.ahead(x[w.c0:], t, n)
		return kernel.Rows{X: x[w.c0:], Step: d}
	}
	kernel.Gather(signal(scratch), kernel.Columns{X: x, Step: d, At: at[:w.width]}, n)
	return signal(scratch)
}

// ahead prefetches the positions after [t, t+n), which start at x: the transform reads them next.
func (w *convLanes) ahead(x []float32, t, n int) {
	if more := min(n, w.len()-t-n); more > 0 {
		d := w.c.V.Dim(-1)
		kernel.Prefetch(kernel.Rows{X: x[n*d:], Step: d}, more)
	}
}

// addProduct adds a·b to the columns at of positions [t, t+n) of row b in x, lane by lane if several lanes share a
// column. If add is false, it sets columns that lie side by side.
func (w *convLanes) addProduct(x []float32, add bool, at *[lanes]int, t, n int, a, b kernel.Rows, scratch []float32) {
	d := w.c.V.Dim(-1)
	x = w.row(x)[t*d:]
	if w.inPlace {
		w.ahead(x[w.c0:], t, n)
		mulRows(kernel.Rows{X: x[w.c0:], Step: d}, add, a, b, n, w.width)
		return
	}
	kernel.MulRows(signal(scratch), a, b, n, w.width)
	kernel.Scatter(kernel.Columns{X: x, Step: d, At: at[:w.width]}, signal(scratch), n)
}

// mulRows sets n rows of z to a·b, or adds a·b to them.
func mulRows(z kernel.Rows, add bool, a, b kernel.Rows, n, width int) {
	if add {
		kernel.MulAddRows(z, z, a, b, n, width)
		return
	}
	kernel.MulRows(z, a, b, n, width)
}

// placing returns whether the transform adds to its output or overwrites it.
func placing(add bool) kernel.Placing {
	if add {
		return kernel.Added
	}
	return kernel.Written
}

// signal returns x (l, 16) as rows.
func signal(x []float32) kernel.Rows { return kernel.Rows{X: x, Step: lanes} }

// only clears z if some lanes have no channel.
func (w *convLanes) only(z []float32) {
	if w.width < lanes {
		clear(z)
	}
}

// inputs returns positions [t, t+n) of u = k·v: in place if there is no k, else in z.
func (w *convLanes) inputs(z []float32, t, n int) kernel.Rows {
	v := w.columns(w.c.V.Data(), &w.v, t, n, z)
	if w.c.K == nil {
		return v
	}
	k := w.columns(w.c.K.Data(), &w.qk, t, n, w.rows[3])
	kernel.MulRows(signal(z), v, k, n, w.width)
	return signal(z)
}

// outputGrads returns positions [t, t+n) of dz = q·dy: in place if there is no q, else in z.
func (w *convLanes) outputGrads(z []float32, t, n int) kernel.Rows {
	dy := w.columns(w.c.y.Grad(), &w.y, t, n, z)
	if w.c.Q == nil {
		return dy
	}
	q := w.columns(w.c.Q.Data(), &w.qk, t, n, w.rows[3])
	kernel.MulRows(signal(z), dy, q, n, w.width)
	return signal(z)
}

// taps returns the taps of the heads from w.head on in x, which holds the kernels or their gradients, and the number of
// taps that lie side by side: always 16 if kernels are in lanes.
func (w *convLanes) taps(x []float32) (rows kernel.Rows, width int) {
	if rows = tapRows(x, w.c.kern, w.head); rows.Step == lanes {
		return rows, lanes
	}
	return rows, w.width
}

// tapColumns returns the columns of x with the channels' taps, from tap t on.
func (w *convLanes) tapColumns(x []float32, t int) kernel.Columns {
	rows, _ := w.taps(x)
	return kernel.Columns{X: rows.X[t*rows.Step:], Step: rows.Step, At: w.at[:w.width]}
}

// kernelRows are the kernels with the skip: K∗u + D u is one convolution by K + D δ.
type kernelRows convLanes

func (w *kernelRows) Rows() (kernel.Rows, bool) {
	rows, width := (*convLanes)(w).taps(w.c.kern.Data())
	return rows, w.inPlace && width == lanes
}

func (w *kernelRows) Fill(z []float32, t, n int) {
	(*convLanes)(w).only(z)
	kernel.Gather(signal(z), (*convLanes)(w).tapColumns(w.c.kern.Data(), t), n)
	if t == 0 && w.c.skip != nil {
		for j, head := range w.at[:w.width] {
			z[j] += w.c.skip.Data()[w.head+head]
		}
	}
}

// kernelGradRows receives the gradients of the kernels and the skips.
type kernelGradRows convLanes

func (w *kernelGradRows) Rows() (kernel.Rows, kernel.Placing) {
	if !w.inPlace || w.c.grads.kern == nil {
		return kernel.Rows{}, kernel.ByPut
	}
	rows, width := (*convLanes)(w).taps(w.c.grads.kern)
	if width < lanes {
		return kernel.Rows{}, kernel.ByPut
	}
	return rows, placing(w.c.grads.adds.kern)
}

func (w *kernelGradRows) Put(dk, _ []float32, t, n int) {
	if skip := w.c.grads.skip; t == 0 && skip != nil {
		for j, head := range w.at[:w.width] {
			skip[w.head+head] += dk[j]
		}
	}
	x := w.c.grads.kern
	if x == nil {
		return
	}
	if w.inPlace {
		rows, width := (*convLanes)(w).taps(x)
		rows.X = rows.X[t*rows.Step:]
		mulRows(rows, w.c.grads.adds.kern, signal(dk), kernel.Ones(), n, width)
		return
	}
	kernel.Scatter((*convLanes)(w).tapColumns(x, t), signal(dk), n)
}

// inputRows are the inputs u = k·v.
type inputRows convLanes

func (w *inputRows) Rows() (kernel.Rows, bool) {
	if w.c.K != nil || w.width < lanes {
		return kernel.Rows{}, false
	}
	return (*convLanes)(w).rowsOf(w.c.V.Data()), true
}

func (w *inputRows) Fill(z []float32, t, n int) {
	(*convLanes)(w).fill(z, (*convLanes)(w).inputs, t, n)
}

// outputGradRows are the gradients dz = q·dy of the systems' outputs before the gate.
type outputGradRows convLanes

func (w *outputGradRows) Rows() (kernel.Rows, bool) {
	if w.c.Q != nil || w.width < lanes {
		return kernel.Rows{}, false
	}
	return (*convLanes)(w).rowsOf(w.c.y.Grad()), true
}

func (w *outputGradRows) Fill(z []float32, t, n int) {
	(*convLanes)(w).fill(z, (*convLanes)(w).outputGrads, t, n)
}

// fill sets z to positions [t, t+n) of rows, and lanes without a channel to zero.
func (w *convLanes) fill(z []float32, rows func(z []float32, t, n int) kernel.Rows, t, n int) {
	w.only(z)
	if r := rows(z, t, n); &r.X[0] != &z[0] {
		kernel.MulRows(signal(z), r, kernel.Ones(), n, w.width)
	}
}

// outputRows receives z = K∗u + D u and writes y = q·(z + the response to the state before the row).
type outputRows convLanes

func (w *outputRows) Rows() (kernel.Rows, kernel.Placing) {
	if w.c.Q != nil || w.c.state(w.b) != nil || w.width < lanes {
		return kernel.Rows{}, kernel.ByPut
	}
	return (*convLanes)(w).rowsOf(w.c.y.Data()), kernel.Written
}

func (r *outputRows) Put(z, _ []float32, t, n int) {
	w, c := (*convLanes)(r), r.c
	w.respond(z, t, n)
	q := kernel.Ones()
	if c.Q != nil {
		q = w.columns(c.Q.Data(), &w.qk, t, n, w.rows[0])
	}
	if !w.inPlace {
		w.addProduct(c.y.Data(), true, &w.y, t, n, q, signal(z), w.rows[1])
		return
	}
	kernel.MulRows(w.columns(c.y.Data(), &w.y, t, n, nil), signal(z), q, n, w.width)
}

// respond adds to positions [t, t+n) of z the response to the state before the row.
func (w *convLanes) respond(z []float32, t, n int) {
	if w.c.state(w.b) != nil {
		kernel.MulAddRows(signal(z), signal(z), signal(w.states.z[t*lanes:]), kernel.Ones(), n, w.width)
	}
}

// inputGradRows receives du without the part that comes through states, and z if q wants a gradient. It adds to the
// gradients of q, k and v.
type inputGradRows convLanes

func (w *inputGradRows) Rows() (kernel.Rows, kernel.Placing) {
	if w.c.Q != nil || w.c.K != nil || w.c.carries(w.b) || w.width < lanes || w.c.grads.v == nil {
		return kernel.Rows{}, kernel.ByPut
	}
	return (*convLanes)(w).rowsOf(w.c.grads.v), placing(w.c.grads.adds.v)
}

func (r *inputGradRows) Put(du, z []float32, t, n int) {
	w, c := (*convLanes)(r), r.c
	if z != nil {
		w.respond(z, t, n)
		dy := w.columns(c.y.Grad(), &w.y, t, n, w.rows[1])
		w.addProduct(c.grads.q, c.grads.adds.q, &w.qk, t, n, signal(z), dy, w.rows[2])
	}
	if c.carries(w.b) {
		kernel.MulAddRows(signal(du), signal(du), signal(w.states.du[t*lanes:]), kernel.Ones(), n, w.width)
	}
	if c.grads.k != nil {
		v := w.columns(c.V.Data(), &w.v, t, n, w.rows[0])
		w.addProduct(c.grads.k, c.grads.adds.k, &w.qk, t, n, v, signal(du), w.rows[2])
	}
	if c.grads.v != nil {
		k := kernel.Ones()
		if c.K != nil {
			k = w.columns(c.K.Data(), &w.qk, t, n, w.rows[0])
		}
		w.addProduct(c.grads.v, c.grads.adds.v, &w.v, t, n, k, signal(du), w.rows[2])
	}
}

package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// matrix is a matrix whose rows lie ld floats apart.
type matrix struct {
	x  []float32
	ld int
}

func (m matrix) row(t int) []float32 { return m.x[t*m.ld:] }

// from returns the rows from t on.
func (m matrix) from(t int) matrix { return matrix{m.x[t*m.ld:], m.ld} }

// copyTo copies rows of n floats.
func (m matrix) copyTo(to matrix, rows, n int) {
	for t := range rows {
		copy(to.row(t)[:n], m.row(t))
	}
}

// product sets c = a·b, or adds a·b to c.
func product(op kernel.Op, rows, columns, terms int, a, b, c matrix, add bool) {
	kernel.GemmInline(kernel.Product{Op: op, M: rows, N: columns, K: terms, A: a.x, LDA: a.ld, B: b.x, LDB: b.ld,
		C: c.x, LDC: c.ld, Add: add})
}

// delta is the working memory of a task, and the values that it has prepared for one head of one block.
type delta struct {
	*deltaOp
	memory *[]float32

	q, first int  // number of the block's positions, and the first of them, counted through all rows
	fromZero bool // the state before the block is zero
	again    bool // forward has computed this block, and has kept its scores
	h        int  // the head

	in, out [2][]float32    // readers and writers as given, with k also for -k and β·k (q, dk)
	reads   [2][]float32    // readers, decayed from the border before (q, dk), one after the other
	writes  [2][]float32    // writers, decayed to the border after (q, dk)
	scores  [2][2][]float32 // readers by writers (q, q)
	decay   []float32       // of the state over the block, one number or dk
	beta    []float32       // (q)
	x, v    []float32       // X, if it is not kept, and V, if it is written (q, dv)
	turned  []float32       // writers or their values, transposed (dk or dv, q)
	numberDecays
	rowDecays
}

// floats is memory to be cut into parts.
type floats []float32

func (f *floats) take(n int) []float32 {
	x := (*f)[:n:n]
	*f = (*f)[n:]
	return x
}

func (f *floats) two(n int) [2][]float32 { return [2][]float32{f.take(n), f.take(n)} }

func (f *floats) four(n int) [2][2][]float32 { return [2][2][]float32{f.two(n), f.two(n)} }

// delta allocates working memory.
func (o *deltaOp) delta() *delta {
	q := o.widest()
	k := &delta{deltaOp: o}
	k.memory = getFloats(8*q*o.dk + 4*q*q + o.dk + q + 2*q*o.dv + q*max(o.dk, o.dv) + k.sizeNumbers(q) + k.sizeRows(q))
	f := floats(*k.memory)
	k.in, k.out = f.two(q*o.dk), f.two(q*o.dk)
	k.reads[byQ], k.writes, k.scores, k.decay = f.take(2*q*o.dk), f.two(q*o.dk), f.four(q*q), f.take(o.dk)
	k.beta, k.x, k.v, k.turned = f.take(q), f.take(q*o.dv), f.take(q*o.dv), f.take(q*max(o.dk, o.dv))
	if !o.free() {
		k.in[byP], k.out[byA] = k.out[byK], k.out[byK]
	}
	if o.ByRow() {
		k.makeRows(&f, q)
	} else {
		k.decay = k.decay[:1]
		k.makeNumbers(&f, q)
	}
	return k
}

// at returns the rows of a block in x, of width floats each, from column c on.
func (k *delta) at(x []float32, width, c int) matrix {
	if x == nil {
		return matrix{}
	}
	return matrix{x[k.first*width+c:], width}
}

// gather copies a head's rows of a block out of x, which has n floats for each of the heads, so that they lie one after
// the other. Rows that are some KB apart compete for few places in the cache.
func (k *delta) gather(to, x []float32, heads, h, n int) {
	k.at(x, heads*n, h*n).copyTo(matrix{to, n}, k.q, n)
}

// values returns the values (q, dv) that writer w writes.
func (k *delta) values(w int) []float32 {
	switch {
	case w == byK:
		return k.v
	case k.deltaOp.x != nil:
		return k.kept(k.h, k.first)
	}
	return k.x
}

func (k *delta) outputs() matrix { return k.at(k.y.Data(), k.Heads*k.dv, k.h*k.dv) }

// start begins block i, counted through all rows, for the heads from h on, which share keys.
func (k *delta) start(i, h int) {
	row, lo, hi := k.cuts.at(i)
	k.q, k.first = hi-lo, k.rows.From(row)+lo
	k.fromZero = lo == 0 && !k.has(row)
	n := k.q * k.dk
	k.reads[byP] = k.reads[byQ][n : 2*n : 2*n]
	k.h = h
	k.gather(k.out[byK], k.K.Data(), k.KeyHeads, k.KeyHead(h), k.dk)
}

// queries loads the queries of the heads that share keys, and computes the products that they share.
func (k *delta) queries() {
	k.gather(k.in[byQ], k.Q.Data(), k.KeyHeads, k.KeyHead(k.h), k.dk)
	if !k.ByRow() {
		readers, writers := k.shared()
		if !k.keep(&k.products, readers, writers, k.KeyHead(k.h)) {
			k.compareKeys(readers, writers[0])
		}
	}
}

// keep makes scores point to the kept scores of readers and writers, if they are kept, and reports whether these have
// been computed already. head is a head or a key head.
func (k *delta) keep(scores *[2][2][]float32, readers, writers []int, head int) bool {
	if k.deltaOp.scores == nil {
		return false
	}
	i := head * len(readers) * len(writers)
	for _, r := range readers {
		for _, w := range writers {
			at := (i*k.rows.Total() + k.first) * k.widest()
			scores[r][w] = k.deltaOp.scores[at:][:k.q*k.q]
			i++
		}
	}
	return k.again
}

// headEnds computes the values at the border after the block: the writers of head h, decayed to it, and the decay of
// its state.
func (k *delta) headEnds(h int) {
	k.h = h
	if k.free() {
		k.gather(k.out[byA], k.A.Data(), k.Heads, h, k.dk)
	}
	if k.Beta != nil {
		k.gather(k.beta, k.Beta.Data(), k.Heads, h, 1)
	}
	if k.writers[len(k.writers)-1] == byK {
		k.gather(k.v, k.V.Data(), k.Heads, h, k.dv)
	}
	if k.ByRow() {
		k.rowEnds()
	} else {
		k.numberEnds()
	}
}

// head computes all decayed values of head h.
func (k *delta) head(h int) {
	k.headEnds(h)
	if k.free() {
		k.gather(k.in[byP], k.B.Data(), k.Heads, h, k.dk)
	}
	if k.ByRow() {
		k.rowScores()
	} else {
		k.numberScores()
	}
}

// parts calls f for the parts [t0, t1) of the block.
func (k *delta) parts(f func(t0, t1 int)) {
	for t := 0; t < k.q; t += deltaPart {
		f(t, min(k.q, t+deltaPart))
	}
}

// lower sets y = m·x, or adds m·x to y. m (q, q) is zero above the diagonal; x is (q, columns).
func (k *delta) lower(m, x []float32, y matrix, columns int, add bool) {
	k.parts(func(t0, t1 int) {
		product(kernel.NN, t1-t0, columns, t1, matrix{m, k.q}.from(t0), matrix{x, columns}, y.from(t0), add)
	})
}

// upper adds mᵀ·x to y (q, columns).
func (k *delta) upper(m, x, y []float32, columns int) {
	k.parts(func(t0, t1 int) {
		product(kernel.TN, t1-t0, columns, k.q-t0, matrix{m[t0*k.q+t0:], k.q}, matrix{x, columns}.from(t0),
			matrix{y, columns}.from(t0), true)
	})
}

// turn transposes x (q, n), for compare.
func (k *delta) turn(x []float32, n int) { kernel.Transpose(k.q, n, k.turned, k.q, x, n) }

// compare computes the products of the rows of x (q, n) and of the rows passed to turn, up to the ends of parts. The
// rest of y is zero.
func (k *delta) compare(x []float32, n int, y []float32) {
	clear(y[:k.q*k.q])
	k.parts(func(t0, t1 int) {
		product(kernel.NN, t1-t0, t1, n, matrix{x, n}.from(t0), matrix{k.turned, k.q}, matrix{y, k.q}.from(t0), false)
	})
}

// read adds to y what reader r reads from s, the state before the block.
func (k *delta) read(r int, s []float32, y matrix) {
	if !k.fromZero {
		product(kernel.NN, k.q, k.dv, k.dk, matrix{k.reads[r], k.dk}, matrix{s, k.dv}, y, true)
	}
}

// advance sets next to the state after the block, where s is the state before it. They may be the same.
func (k *delta) advance(next, s []float32) {
	k.fade(next, s)
	for _, w := range k.writers {
		product(kernel.TN, k.dk, k.dv, k.q, matrix{k.writes[w], k.dk}, matrix{k.values(w), k.dv},
			matrix{next, k.dv}, true)
	}
}

// fade sets y to s times its decay over the block.
func (k *delta) fade(y, s []float32) {
	rows, n, step := k.dk, k.dv, 1
	if !k.ByRow() {
		rows, n, step = 1, k.dk*k.dv, 0
	}
	kernel.ScaleRows(y, n, s, n, k.decay, step, rows, n)
}

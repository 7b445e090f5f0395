package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// matrix is rows of floats that lie ld apart.
type matrix struct {
	x  []float32
	ld int
}

func (m matrix) row(t int) []float32 { return m.x[t*m.ld:] }

// from are the rows from t on.
func (m matrix) from(t int) matrix { return matrix{m.x[t*m.ld:], m.ld} }

// copyTo copies rows of n floats.
func (m matrix) copyTo(to matrix, rows, n int) {
	for t := range rows {
		copy(to.row(t)[:n], m.row(t))
	}
}

// product sets c = a·b, or adds it to c.
func product(op kernel.Op, rows, columns, terms int, a, b, c matrix, add bool) {
	kernel.GemmInline(kernel.Product{Op: op, M: rows, N: columns, K: terms, A: a.x, LDA: a.ld, B: b.x, LDB: b.ld,
		C: c.x, LDC: c.ld, Add: add})
}

// delta is a task's working memory, and what it has prepared for one head of one block.
type delta struct {
	*deltaOp
	memory *[]float32
	states [][]float32 // of the heads that go together

	q, first int  // the block's positions, and the first of them in all
	fromZero bool // the state before it is zero
	h        int  // the head

	in, out [2]matrix       // readers and writers as they are given (q, dk)
	reads   [2][]float32    // readers, decayed from the border before (q, dk)
	writes  [2][]float32    // writers, decayed to the border after (q, dk)
	scores  [2][2][]float32 // readers by writers (q, q)
	decay   []float32       // of the state over the block, one number or dk

	x       []float32 // X, where it is not kept (q, dv)
	inverse []float32 // of the triangles of I - (pa), a part each
	part    []float32 // scratch (deltaPart, dv)
	raw     [2][2][]float32
	numberDecays
	rowDecays
}

// floats cuts memory into parts.
type floats []float32

func (f *floats) take(n int) []float32 {
	x := (*f)[:n:n]
	*f = (*f)[n:]
	return x
}

// delta makes working memory for heads that go together.
func (o *deltaOp) delta(each int) *delta {
	q := min(deltaBlock, o.rows.Longest())
	parts := (q + deltaPart - 1) / deltaPart
	k := &delta{deltaOp: o, states: make([][]float32, each)}
	n := each*o.dk*o.dv + 4*q*o.dk + 8*q*q + o.dk + q*o.dv + parts*deltaPart*deltaPart + deltaPart*o.dv
	k.memory = getFloats(n + k.sizeNumbers(q) + k.sizeRows(q))
	f := floats(*k.memory)
	for j := range k.states {
		k.states[j] = f.take(o.dk * o.dv)
	}
	for i := range 2 {
		k.reads[i], k.writes[i] = f.take(q*o.dk), f.take(q*o.dk)
		for j := range 2 {
			k.scores[i][j], k.raw[i][j] = f.take(q*q), f.take(q*q)
		}
	}
	k.decay, k.x = f.take(o.dk), f.take(q*o.dv)
	k.inverse, k.part = f.take(parts*deltaPart*deltaPart), f.take(deltaPart*o.dv)
	if o.ByRow() {
		k.makeRows(&f, q)
	} else {
		k.decay = k.decay[:1]
		k.makeNumbers(&f, q)
	}
	return k
}

// at are the rows of a block in x, of width floats each, from column c on.
func (k *delta) at(x []float32, width, c int) matrix {
	if x == nil {
		return matrix{}
	}
	return matrix{x[k.first*width+c:], width}
}

// values are what a writer carries (q, dv).
func (k *delta) values(w int) matrix {
	switch {
	case w == byK:
		return k.at(k.V.Data(), k.Heads*k.dv, k.h*k.dv)
	case k.deltaOp.x != nil:
		return k.at(k.deltaOp.x, k.Heads*k.dv, k.h*k.dv)
	}
	return matrix{k.x, k.dv}
}

func (k *delta) outputs() matrix { return k.at(k.y.Data(), k.Heads*k.dv, k.h*k.dv) }

// start begins block i, counted in all rows, with the heads from h on.
func (k *delta) start(i, h int) {
	row, lo, hi := k.cuts.at(i)
	k.q, k.first = hi-lo, k.rows.From(row)+lo
	k.fromZero = lo == 0 && !k.has(row)
	k.h = h
	keys := k.KeyHeads * k.dk
	k.in[byQ] = k.at(k.Q.Data(), keys, k.KeyHead(h)*k.dk)
	k.out[byK] = k.at(k.K.Data(), keys, k.KeyHead(h)*k.dk)
	if !k.free() {
		k.in[byP], k.out[byA] = k.out[byK], k.out[byK]
	}
	if !k.ByRow() {
		k.sharedScores()
	}
}

// begin makes h the head.
func (k *delta) begin(h int) {
	k.h = h
	if k.free() {
		k.in[byP] = k.at(k.B.Data(), k.Heads*k.dk, h*k.dk)
		k.out[byA] = k.at(k.A.Data(), k.Heads*k.dk, h*k.dk)
	}
}

// ends computes what is decayed to the border after the block: writers and the state's decay.
func (k *delta) ends(h int) {
	k.begin(h)
	if k.ByRow() {
		k.rowEnds()
	} else {
		k.numberEnds()
	}
}

// head computes all that is decayed for head h.
func (k *delta) head(h int) {
	k.ends(h)
	if k.ByRow() {
		k.rowScores()
	} else {
		k.numberScores()
	}
	if k.solves() {
		k.invert()
	}
}

// lower sets y = m·x, or adds it, with m (q, q), of which what is above the diagonal is zero.
func (k *delta) lower(m []float32, x, y matrix, add bool) {
	for t := 0; t < k.q; t += deltaPart {
		rows := min(deltaPart, k.q-t)
		product(kernel.NN, rows, k.dv, t+rows, matrix{m[t*k.q:], k.q}, x, y.from(t), add)
	}
}

// upper adds mᵀ·x to y.
func (k *delta) upper(m []float32, x, y matrix) {
	for t := 0; t < k.q; t += deltaPart {
		rows := min(deltaPart, k.q-t)
		product(kernel.TN, rows, k.dv, k.q-t, matrix{m[t*k.q+t:], k.q}, x.from(t), y.from(t), true)
	}
}

// read adds what a reader finds in the state before the block to y.
func (k *delta) read(r int, s []float32, y matrix) {
	if !k.fromZero {
		product(kernel.NN, k.q, k.dv, k.dk, matrix{k.reads[r], k.dk}, matrix{s, k.dv}, y, true)
	}
}

// advance makes s, the state before the block, the one after it.
func (k *delta) advance(s []float32) {
	k.fade(s)
	for _, w := range k.writers() {
		product(kernel.TN, k.dk, k.dv, k.q, matrix{k.writes[w], k.dk}, k.values(w), matrix{s, k.dv}, true)
	}
}

// fade multiplies s by its decay over the block.
func (k *delta) fade(s []float32) {
	if k.ByRow() {
		kernel.ScaleRows(s, k.dv, s, k.dv, k.decay, 1, k.dk, k.dv)
	} else {
		kernel.Scale(s, k.decay[0])
	}
}

// invert computes the inverses of the triangles of I - (pa): row t is that of I, plus Σ_s (pa)[t, s] times row s.
func (k *delta) invert() {
	for t0 := 0; t0 < k.q; t0 += deltaPart {
		inverse := k.triangle(t0)
		clear(inverse)
		for t := range min(deltaPart, k.q-t0) {
			row := inverse[t*deltaPart:][:deltaPart]
			for s, m := range k.scores[byP][byA][(t0+t)*k.q+t0:][:t] {
				kernel.Axpy(m, inverse[s*deltaPart:][:deltaPart], row)
			}
			row[t] = 1
		}
	}
}

// triangle is the inverse of the triangle of the part from t on.
func (k *delta) triangle(t int) []float32 { return k.inverse[t*deltaPart:][:deltaPart*deltaPart] }

// solve replaces x by the solution of X = x + (pa)·X.
func (k *delta) solve(x matrix) {
	part, pa := matrix{k.part, k.dv}, k.scores[byP][byA]
	for t := 0; t < k.q; t += deltaPart {
		rows := min(deltaPart, k.q-t)
		if t > 0 {
			product(kernel.NN, rows, k.dv, t, matrix{pa[t*k.q:], k.q}, x, x.from(t), true)
		}
		x.from(t).copyTo(part, rows, k.dv)
		product(kernel.NN, rows, k.dv, rows, matrix{k.triangle(t), deltaPart}, part, x.from(t), false)
	}
}

// solveBack is solve with (pa)ᵀ.
func (k *delta) solveBack(x matrix) {
	part, pa := matrix{k.part, k.dv}, k.scores[byP][byA]
	for t := (k.q - 1) / deltaPart * deltaPart; t >= 0; t -= deltaPart {
		rows, next := min(deltaPart, k.q-t), t+deltaPart
		if next < k.q {
			product(kernel.TN, rows, k.dv, k.q-next, matrix{pa[next*k.q+t:], k.q}, x.from(next), x.from(t), true)
		}
		x.from(t).copyTo(part, rows, k.dv)
		product(kernel.TN, rows, k.dv, rows, matrix{k.triangle(t), deltaPart}, part, x.from(t), false)
	}
}

package kernel

import (
	"math"
	"slices"
)

// TileRows is the number of rows of a RowTile.
const TileRows = 64

// RowTile holds up to 64 rows of k integers of RoundedRows, keys or values, in the order in which products with many
// vectors read them, so that the vectors share the cost of reordering them. All sums over integers are exact, so a
// product has the same bits at every level and beside any others. The zero value is ready for use.
type RowTile struct {
	n, k  int // number of rows, and of numbers in a row, rounded up to a multiple of 16
	terms int // number of numbers in a row
	at    []uint8
	own   []int8 // copies of rows that are not in place as products need them
	scale [TileRows]float32

	weights []uint8 // two digits for each weight: see roundWeights
	factor  []float32
	scores  []float32 // results of products or sums whose destination has no room for 64 columns

	work  []int32 // scratch for products of many vectors
	ahead []int8  // half of the next run, which the next such product prefetches

	floats, x []float32 // for portable products: the rows, and vectors or digits
	exact     []int32
}

// fewestTiles is the smallest number of vectors for which products by tiles of 16 vectors are faster, and tileWork the
// size of their scratch.
const (
	fewestTiles = 8
	tileWork    = 2 * 16 * TileRows
)

// inTiles reports whether m vectors are multiplied by code that takes 64 columns or terms at a time.
func (t *RowTile) inTiles(m int, code level) bool {
	if m < fewestTiles || t.k%TileRows != 0 || !cpu.has(code) {
		return false
	}
	t.work = grown(t.work, tileWork)
	return true
}

// How weights are rounded.
const (
	digitBits = 7
	digits    = 1<<digitBits - 1
	topWeight = 1<<(2*digitBits) - 1
)

// wide reports whether integers are multiplied in vectors of 512 bits, and flips whether one factor is unsigned.
func (l level) wide() bool  { return l.has(avx512vnni) }
func (l level) flips() bool { return l&(avx512vnni|avx512vnnivl|avxvnni) != 0 }

// Run is rows i to i+n of R, in int8: at least one and at most 64.
type Run struct {
	R    *RoundedRows
	I, N int
}

// integers returns the integers of the rows.
func (r *Run) integers() []int8 { return r.R.int8[r.I*r.R.k:][:r.N*r.R.k] }

// set loads the rows of a run into the tile, in the order of order, which gets whole groups of rows and the address to
// prefetch. If a product by tiles of m vectors will follow, it leaves half of the prefetching to that product, so that
// memory is never idle.
func (t *RowTile) set(run, next Run, m int, code level, group int,
	order func(first, groups int, rows []int8, ahead *int8, half bool)) {
	r, i, n := run.R, run.I, run.N
	t.n, t.terms, t.k = n, r.k, roundUp(r.k, 16)
	clear(t.scale[copy(t.scale[:], r.scale[i:][:n]):])
	rows := run.integers()
	if !cpu.has(tileKeysCode) {
		t.floats = appendFloats(t.floats[:0], rows)
		return
	}
	half := t.inTiles(m, code)
	ahead := &next.integers()[0]
	if t.ahead = nil; half {
		t.ahead = next.integers()[next.N*next.R.k/2:]
	}
	t.at = grown(t.at, TileRows*roundUp(t.k, TileRows))
	whole := 0
	if t.k == t.terms {
		if whole = n / group; whole > 0 {
			order(0, whole, rows, ahead, half)
		}
	}
	if rest := roundUp(n, group) - whole*group; rest > 0 {
		t.own = grown(t.own, rest*t.k)
		clear(t.own)
		for j := range n - whole*group {
			copy(t.own[j*t.k:], rows[(whole*group+j)*t.terms:][:t.terms])
		}
		order(whole, rest/group, t.own, ahead, half)
	}
}

// fetch returns the address that a product by tiles prefetches from in each of the given number of steps, and the
// number of lines.
func (t *RowTile) fetch(steps int) (ahead *int8, lines int) {
	const line = 64
	if len(t.ahead) > 0 {
		ahead, lines = &t.ahead[0], ceil(len(t.ahead), steps*line)
	}
	t.ahead = nil
	return ahead, lines
}

// Keys loads the rows of a run into the tile, for Dots of m vectors, while prefetching those of next.
func (t *RowTile) Keys(run, next Run, m int) {
	flip := uint32(0)
	if cpu.flips() {
		flip = 0x80808080
	}
	t.set(run, next, m, manyDotsCode, 16, func(first, groups int, rows []int8, ahead *int8, half bool) {
		vecTileKeys(groups, t.k, &rows[0], flip, &t.at[64*first], ahead, half)
	})
}

// Values loads the rows of a run into the tile, for Sums of m vectors, while prefetching those of next.
func (t *RowTile) Values(run, next Run, m int) {
	step := 128 // number of bytes of 4 rows
	switch {
	case cpu.wide():
		step = 256
	case cpu.has(neon):
		step = 64
	}
	t.set(run, next, m, manySumsCode, 4, func(first, groups int, rows []int8, ahead *int8, half bool) {
		vecTileValues(groups, t.k, &rows[0], &t.at[step*first], ahead, half)
	})
}

// Dots sets y[i·ldy + j] = (factor·scale)·Σ_p q[i,p]·r[j,p] for the m vectors i of q and the rows j of the tile.
func (t *RowTile) Dots(q *RoundedVectors, first, m int, y []float32, ldy int) {
	if !cpu.has(tileDotsCode) {
		t.dotsPortable(q, first, m, y, ldy)
		return
	}
	if t.n < TileRows {
		t.scores = grown(t.scores, m*TileRows)
		t.dots(q, first, m, t.scores, TileRows)
		for i := range m {
			copy(y[i*ldy:][:t.n], t.scores[i*TileRows:])
		}
		return
	}
	t.dots(q, first, m, y, ldy)
}

// dots is Dots for 64 columns.
func (t *RowTile) dots(q *RoundedVectors, first, m int, y []float32, ldy int) {
	_ = y[(m-1)*ldy+TileRows-1]
	if t.inTiles(m, manyDotsCode) {
		ahead, lines := t.fetch(ceil(m, 16) * t.k / TileRows)
		vecManyDots(m, t.k, &q.q[first*t.k], t.k, &t.at[0], &q.start[first], &q.factor[first], &t.scale[0], &y[0], ldy,
			&t.work[0], ahead, lines)
		return
	}
	rows := 4
	if cpu.wide() {
		rows = 6
	}
	for i := 0; i < m; i += rows {
		j := first + i
		vecTileDots(min(rows, m-i), t.k/4, &q.q[j*t.k], t.k, &t.at[0], &q.start[j], &q.factor[j], &t.scale[0],
			&y[i*ldy], ldy)
	}
}

// exactTerms is the number of products of two 8-bit integers whose sum is always exact in float32.
const exactTerms = 1024

// product sets exact (m, n) to the exact A·B of integers as float32, where A is (m, k), by float products, which are
// faster than portable products of integers.
func (t *RowTile) product(p Product) {
	t.scores, t.exact = grown(t.scores, p.M*p.N), grown(t.exact, p.M*p.N)
	clear(t.exact)
	p.A, p.LDA, p.C, p.LDC = t.x, p.K, t.scores, p.N
	for k := p.K; k > 0; k -= exactTerms {
		p.K = min(k, exactTerms)
		GemmInline(p)
		for i, v := range t.scores {
			t.exact[i] += int32(v)
		}
		if k > exactTerms {
			p.A, p.B = p.A[exactTerms:], p.B[exactTerms:]
		}
	}
}

// dotsPortable is the portable Dots, which defines its results.
func (t *RowTile) dotsPortable(q *RoundedVectors, first, m int, y []float32, ldy int) {
	t.x = t.x[:0]
	for i := range m {
		t.x = appendFloats(t.x, q.q[(first+i)*t.k:][:t.terms])
	}
	t.product(Product{Op: NT, M: m, N: t.n, K: t.terms, B: t.floats, LDB: t.terms})
	for i := range m {
		factor := q.factor[first+i]
		for j, sum := range t.exact[i*t.n:][:t.n] {
			y[i*ldy+j] = float32(sum) * float32(factor*t.scale[j])
		}
	}
}

// appendFloats appends integers as floats.
func appendFloats[T int8 | uint8](to []float32, from []T) []float32 {
	for _, v := range from {
		to = append(to, float32(v))
	}
	return to
}

// Sums sets y[i·ldy + j] = Σ_t p[i·ldp + t]·r[t,j] for i < m, rows t of the tile and j < k, or adds that to y. The
// weights, p times the factors of rows, are rounded to 14 bits relative to the largest of each i. They must not be
// negative. Columns may be in another order until InOrder is called with the same m.
func (t *RowTile) Sums(m int, p []float32, ldp int, y []float32, ldy int, add bool) {
	if t.n < TileRows && cpu.has(tileSumsCode) {
		t.scores = grown(t.scores, m*TileRows)
		clear(t.scores)
		for i := range m {
			copy(t.scores[i*TileRows:], p[i*ldp:][:t.n])
		}
		p, ldp = t.scores, TileRows
	}
	t.weights, t.factor = grown(t.weights, m*2*TileRows), grown(t.factor, m)
	t.roundWeights(m, p, ldp)
	if !cpu.has(tileSumsCode) {
		t.sumsPortable(m, y, ldy, add)
		return
	}
	if t.k > t.terms {
		t.scores = grown(t.scores, m*t.k)
		t.sums(m, t.scores, t.k, false)
		for i := range m {
			sum := t.scores[i*t.k:][:t.terms]
			if to := y[i*ldy:][:t.terms]; add {
				Add(to, sum)
			} else {
				copy(to, sum)
			}
		}
		return
	}
	t.sums(m, y, ldy, add)
}

// sums is Sums with the rounded weights for a multiple of 16 columns.
func (t *RowTile) sums(m int, y []float32, ldy int, add bool) {
	_ = y[(m-1)*ldy+t.k-1]
	if t.inTiles(m, manySumsCode) {
		ahead, lines := t.fetch(ceil(m, 16) * t.k / 16)
		vecManySums(m, t.k, &t.weights[0], &t.at[0], &t.factor[0], &y[0], ldy, add, &t.work[0], ahead, lines)
		return
	}
	rows := 2
	if cpu.wide() {
		rows = 6
	}
	for i := 0; i < m; i += rows {
		vecTileSums(min(rows, m-i), ceil(t.n, 4), t.k, &t.weights[i*2*TileRows], &t.at[0], &t.factor[i], &y[i*ldy], ldy,
			add)
	}
}

// InOrder reorders the columns of y, which Sums has set and perhaps added to, and multiplies row i by factor[i].
func (t *RowTile) InOrder(m int, y []float32, ldy int, factor []float32) {
	for i, f := range factor[:m] {
		row := y[i*ldy:][:t.terms]
		if Scale(row, f); t.inTiles(m, manySumsCode) {
			for ; len(row) > 0; row = row[TileRows:] {
				columnsInOrder((*[TileRows]float32)(row))
			}
		}
	}
}

// columnsInOrder reorders columns that are in the order of vecManySums: seen as 4 times 4 groups of 4, they are
// transposed.
func columnsInOrder(x *[TileRows]float32) {
	group := func(i, j int) *[4]float32 { return (*[4]float32)(x[16*i+4*j:]) }
	for i := range 4 {
		for j := range i {
			a, b := group(i, j), group(j, i)
			*a, *b = *b, *a
		}
	}
}

// sumsPortable is the portable Sums with the rounded weights, which defines its results.
func (t *RowTile) sumsPortable(m int, y []float32, ldy int, add bool) {
	t.x = t.x[:0]
	for place := range 2 * m { // rows of upper and of lower digits alternate
		t.x = appendFloats(t.x, t.weights[place*TileRows:][:t.n])
	}
	t.product(Product{Op: NN, M: 2 * m, N: t.terms, K: t.n, B: t.floats, LDB: t.terms})
	for i := range m {
		upper, lower := t.exact[2*i*t.terms:][:t.terms], t.exact[(2*i+1)*t.terms:]
		to := y[i*ldy:][:t.terms]
		for j, sum := range upper {
			v := float32(float32(sum<<digitBits+lower[j]) * t.factor[i])
			if add {
				v += to[j]
			}
			to[j] = v
		}
	}
}

// roundWeights rounds p times the factors of rows to integers w of two digits of 7 bits: w·(16383/top) to the nearest,
// ties to even, where top is the largest for each i. weights holds the upper digits for 64 rows of the tile and then
// the lower ones, and factor is top/16383. If w contains a NaN or an infinity, the factor is NaN and the integers are
// zero. If top is so small that 16383/top is infinite, all are zero.
func (t *RowTile) roundWeights(m int, p []float32, ldp int) {
	if cpu.has(tileWeightsCode) {
		_ = p[(m-1)*ldp+TileRows-1]
		vecTileWeights(m, &p[0], ldp, &t.scale[0], &t.weights[0], &t.factor[0])
		return
	}
	clear(t.weights)
	for i := range m {
		var w [TileRows]float32
		most := uint32(0)
		for r, v := range p[i*ldp:][:t.n] {
			w[r] = v * t.scale[r]
			most = max(most, math.Float32bits(w[r]))
		}
		inverse, factor := fit(topWeight, math.Float32frombits(most))
		if t.factor[i] = factor; inverse == 0 {
			continue
		}
		to := t.weights[i*2*TileRows:][:2*TileRows]
		for r, v := range w {
			n := int32(math.RoundToEven(float64(v * inverse)))
			to[r], to[TileRows+r] = uint8(n>>digitBits), uint8(n&digits)
		}
	}
}

// RoundedVectors holds vectors of k numbers as integers from -127 to 127 times a factor each, for example the queries
// of attention. The zero value is ready for use.
type RoundedVectors struct {
	k      int
	q      []int8 // padded to a multiple of 16
	factor []float32
	start  []int32 // minus the excess of sums if 128 is added to the other factors
}

// Reset makes room for m vectors of k numbers.
func (v *RoundedVectors) Reset(m, k int) {
	v.k = k
	v.q, v.factor, v.start = grown(v.q, m*roundUp(k, 16)), grown(v.factor, m), grown(v.start, m)
}

// Set rounds x into vector i: x·(127/top) to the nearest integer, ties to even, where top is the largest |x|, and the
// factor top/127. If x contains a NaN or an infinity, the factor is NaN.
func (v *RoundedVectors) Set(i int, x []float32) {
	q := v.q[i*roundUp(v.k, 16):][:roundUp(v.k, 16)]
	clear(q[v.k:])
	inverse, factor := fit(127, largest(x[:v.k]))
	v.start[i], v.factor[i] = 0, factor
	if inverse == 0 {
		clear(q)
		return
	}
	v.start[i] = -128 * roundInto(q[:v.k], x[:v.k], inverse)
}

// grown returns a slice of n elements in the memory of s, or in new memory.
func grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

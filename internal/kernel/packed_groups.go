package kernel

import (
	"encoding/binary"
	"math"
	"sync"
	"unsafe"

	"github.com/hippo-ssm/hippo/internal/hugepage"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// groupTerms is the number of terms of a row that share a factor, in weights and in x.
const groupTerms = 32

// groupWidth is the number of rows of a panel of integers: few enough that sums over groups of 8 rows of x, and those
// of a group, fit in registers.
const groupWidth = 16

// grouped holds weights as integers. A panel has 16 rows and is a sequence of blocks, each of two groups of terms:
// first the factors of both as float16, for each row, each group's factors followed by its least numbers if there are
// any; then the integers of both. A group has 8 steps of 4 terms, 32-bit words, which lie side by side, step by step.
// In int4 a word of a row holds 4 terms in its low nibbles and the next 4 in its high ones. So everything is read in
// sequence, line by line.
type grouped struct {
	blocks []uint8
	row    []float32 // a power of two for each row of a panel, which multiplies its factors
}

// groupForm is the form in which a precision stores integers.
type groupForm struct {
	bits  int   // number of bits of an integer
	zero  int32 // minus the integer that represents 0
	least bool  // a group has a least number, which the integer 0 represents
}

var groupForms = [...]groupForm{Int8: {8, -128, false}, Int4: {4, -8, false}, Int4Min: {4, 0, true}}

// bytes returns the size of the memory that a product reads.
func (g *grouped) bytes() int { return len(g.blocks) + 4*len(g.row) }

// inGroups reports whether the weights are integers.
func (w *Packed) inGroups() bool { return w.precision >= Int8 }

// form returns the form in which the integers are stored.
func (w *Packed) form() groupForm { return groupForms[w.precision] }

// intBytes returns the number of bytes of the integers of a group of a panel.
func (f groupForm) intBytes() int { return groupTerms * groupWidth * f.bits / 8 }

// factorBytes returns the number of bytes of the factors and least numbers of a group of a panel.
func (f groupForm) factorBytes() int {
	if f.least {
		return 4 * groupWidth
	}
	return 2 * groupWidth
}

// blockBytes returns the number of bytes of a block of a panel.
func (f groupForm) blockBytes() int { return 2 * (f.factorBytes() + f.intBytes()) }

// groupStep is the number of bytes of the words of a step.
const groupStep = 4 * groupWidth

// rowBlocks returns the number of blocks of a row, whose last group may consist of zeros.
func (w *Packed) rowBlocks() int { return ceil(w.k, 2*groupTerms) }

// makeGroups makes room for matrices of integers, side by side.
func makeGroups(ms []*Packed) {
	size := func(w *Packed) int { return w.panels() * w.rowBlocks() * w.form().blockBytes() }
	total := 0
	for _, w := range ms {
		total += size(w)
	}
	all := hugepage.Make[uint8](total)
	for _, w := range ms {
		n := size(w)
		w.groups.blocks, all = all[:n:n], all[n:]
		w.groups.row = make([]float32, w.panels()*groupWidth)
	}
}

// block returns block b of a panel.
func (w *Packed) block(panel, b int) []uint8 {
	n := w.form().blockBytes()
	return w.groups.blocks[(panel*w.rowBlocks()+b)*n:][:n]
}

// factors and ints return those of one of the groups of a block.
func (f groupForm) factors(block []uint8, half int) []uint8 {
	return block[half*f.factorBytes():][:f.factorBytes()]
}
func (f groupForm) ints(block []uint8, half int) []uint8 {
	return block[2*f.factorBytes()+half*f.intBytes():][:f.intBytes()]
}

// setGroups rounds and stores row j.
func (w *Packed) setGroups(j int, row []float32) {
	exponent := rowExponent(largest(row))
	w.groups.row[j] = float32(math.Ldexp(1, exponent))
	if w.precision == Int4 {
		w.setInt4(j, row, exponent)
		return
	}
	var u [groupTerms]uint8
	for g := range ceil(w.k, groupTerms) {
		part := row[g*groupTerms : min((g+1)*groupTerms, w.k)]
		factor, least := w.precision.roundGroup(&u, part, exponent)
		w.setGroup(j, g, &u, factor, least)
	}
}

// setGroup stores group g of row j: unsigned integers, and factors.
func (w *Packed) setGroup(j, g int, u *[groupTerms]uint8, factor, least uint16) {
	form, block := w.form(), w.block(j/groupWidth, g/2)
	factors, ints := form.factors(block, g%2)[2*(j%groupWidth):], form.ints(block, g%2)
	binary.LittleEndian.PutUint16(factors, factor)
	if form.least {
		binary.LittleEndian.PutUint16(factors[2*groupWidth:], least)
	}
	at := j % groupWidth * 4
	if form.bits == 8 {
		for i, v := range u {
			ints[at+i/4*groupStep+i%4] = v
		}
		return
	}
	for i := 0; i < groupTerms; i += 8 {
		for b := range 4 {
			ints[at+i/8*groupStep+b] = u[i+b] | u[i+b+4]<<4
		}
	}
}

// group returns group g of row j: unsigned integers, and factors.
func (w *Packed) group(j, g int, u *[groupTerms]uint8) (factor, least uint16) {
	form, block := w.form(), w.block(j/groupWidth, g/2)
	factors, ints := form.factors(block, g%2)[2*(j%groupWidth):], form.ints(block, g%2)
	if form.least {
		least = binary.LittleEndian.Uint16(factors[2*groupWidth:])
	}
	at := j % groupWidth * 4
	for i := range u {
		if form.bits == 8 {
			u[i] = ints[at+i/4*groupStep+i%4]
		} else {
			u[i] = ints[at+i/8*groupStep+i%4] >> (i / 4 % 2 * 4) & 15
		}
	}
	return binary.LittleEndian.Uint16(factors), least
}

// groupsRow sets dst (k) to row j.
func (w *Packed) groupsRow(dst []float32, j int) {
	var u [groupTerms]uint8
	zero, c := w.form().zero, w.groups.row[j]
	for g := range ceil(w.k, groupTerms) {
		factor, least := w.group(j, g, &u)
		f, m := widen16(factor)*c, widen16(least)*c
		for i := range dst[g*groupTerms : min((g+1)*groupTerms, w.k)] {
			dst[g*groupTerms+i] = float32(float32(int32(u[i])+zero)*f) + m
		}
	}
}

// groupsRows sets dst (n, k) to n rows from row j on, which are in one panel: group by group, in the order in which
// they lie in memory. It gives the bits of groupsRow.
func (w *Packed) groupsRows(dst []float32, j, n int) {
	form, first := w.form(), j%groupWidth
	var factors, leasts [groupWidth]float32
	for g := range ceil(w.k, groupTerms) {
		block := w.block(j/groupWidth, g/2)
		stored, ints := form.factors(block, g%2), form.ints(block, g%2)
		for r := range n {
			c := w.groups.row[j+r]
			factors[r] = widen16(binary.LittleEndian.Uint16(stored[2*(first+r):])) * c
			if form.least {
				leasts[r] = widen16(binary.LittleEndian.Uint16(stored[2*groupWidth+2*(first+r):])) * c
			}
		}
		terms := min(groupTerms, w.k-g*groupTerms)
		for r := range n {
			row := dst[r*w.k+g*groupTerms:][:terms]
			if form.bits == 8 && terms == groupTerms {
				bytesRow((*[groupTerms]float32)(row), ints[4*(first+r):], factors[r], leasts[r])
				continue
			}
			f, m := factors[r], leasts[r]
			for i := range row {
				at := 4*(first+r) + i%4
				u := uint8(0)
				if form.bits == 8 {
					u = ints[at+i/4*groupStep]
				} else {
					u = ints[at+i/8*groupStep] >> (i / 4 % 2 * 4) & 15
				}
				row[i] = float32(float32(int32(u)+form.zero)*f) + m
			}
		}
	}
}

// bytesRow sets row to the 8-bit integers of a group, times f, plus m.
func bytesRow(row *[groupTerms]float32, ints []uint8, f, m float32) {
	const zero = -128
	for s := range groupTerms / 4 {
		word := binary.LittleEndian.Uint32(ints[s*groupStep:])
		row[4*s] = float32(float32(int32(word&255)+zero)*f) + m
		row[4*s+1] = float32(float32(int32(word>>8&255)+zero)*f) + m
		row[4*s+2] = float32(float32(int32(word>>16&255)+zero)*f) + m
		row[4*s+3] = float32(float32(int32(word>>24)+zero)*f) + m
	}
}

// quantized is x as integers: the groups of each row. Without VNNI, weights in int8 are multiplied by joined rows: see
// joins. A joined row has integers of 16 bits, 64 bytes for each group. It is stored after the first of the two rows
// from which vecJoinRows makes it.
type quantized struct {
	records []record
	groups  int // number of groups of a row
	ld      int // distance between rows, in records
	joins   bool
}

// joins reports whether products of bytes join rows of x, 4 to 3.
func (l level) joins() bool { return l.has(avx2) && !l.flips() }

var quantizedPool = sync.Pool{New: func() any { return new(quantized) }}

// quantizeGrain is the number of floats that are quantized on one core: some µs of work.
const quantizeGrain = 1 << 15

// set quantizes m rows of k floats.
func (q *quantized) set(m, k int, x []float32, ldx int, form groupForm) {
	q.groups = 2 * ceil(k, 2*groupTerms)
	q.ld, q.joins = q.groups, form.bits == 8 && cpu.joins()
	if q.joins {
		q.ld += ceil(2*groupTerms*q.groups, recordBytes)
	}
	q.records = grown(q.records, m*q.ld)
	zero := form.zero
	if m*k <= quantizeGrain || parallel.Workers() == 1 {
		q.rows(0, m, k, x, ldx, zero)
		return
	}
	q.shared(m, k, x, ldx, zero)
}

// shared quantizes on all cores. It is its own function so that a single core makes no garbage.
func (q *quantized) shared(m, k int, x []float32, ldx int, zero int32) {
	parallel.For(ceil(m, joinedSet), max(1, quantizeGrain/(joinedSet*k)), func(lo, hi int) {
		q.rows(lo*joinedSet, min(m, hi*joinedSet), k, x, ldx, zero)
	})
}

// rows quantizes the rows lo to hi.
func (q *quantized) rows(lo, hi, k int, x []float32, ldx int, zero int32) {
	for i := lo; i < hi; i++ {
		quantizeGroups(q.row(i), x[i*ldx:][:k], zero)
	}
	if !q.joins || k == 0 {
		return
	}
	for i := lo; i < hi; i++ {
		next, base := i+1, joinedBase
		switch {
		case hi-i+i%joinedSet < joinedSet: // not one of 4 rows
			next, base = i, 0
		case i%joinedSet == joinedSet-1:
			continue
		}
		vecJoinRows(q.groups, &q.row(i)[0].q[0], &q.row(next)[0].q[0], base,
			(*int16)(unsafe.Pointer(&q.records[i*q.ld+q.groups])))
	}
}

// joinedSet is the number of rows that are joined into one fewer, each times joinedBase to the one before it.
const joinedSet, joinedBase = 4, 256

// row returns row i.
func (q *quantized) row(i int) []record { return q.records[i*q.ld:][:q.groups] }

// groupRows is the largest number of rows of x in a call for a panel.
const groupRows = 8

// groupRows returns the same for a level: in vectors of 256 bits sums of more rows do not fit in registers, unless rows
// are joined.
func (l level) groupRows(p Precision) int {
	if l.narrow() && (p != Int8 || !l.joins()) {
		return 4
	}
	return groupRows
}

// With more than mostFetched rows, as many panels as fit into cachedGroups bytes, a part of the second-level cache, are
// read for a few rows after the other, so that data that is read again is in the cache, and so is data that is written.
const cachedGroups = 384 << 10

// panelsOfGroups computes the columns of panels lo to hi.
func (p *packedProduct) panelsOfGroups(lo, hi int) {
	rows, several := cpu.groupRows(p.precision), 1
	if p.m > mostFetched {
		several = max(1, cachedGroups/(p.rowBlocks()*p.form().blockBytes()+1))
	}
	for ; lo < hi; lo += several {
		for i := 0; i < p.m; i += rows {
			for panel := lo; panel < min(hi, lo+several); panel++ {
				p.tileOfGroups(i, min(rows, p.m-i), panel*groupWidth)
			}
		}
	}
}

// tileOfGroups computes m rows from i on of the columns of the panel that begins with column j.
func (p *packedProduct) tileOfGroups(i, m, j int) {
	if j+groupWidth <= p.n {
		p.rowsOfGroups(i, m, j, p.y[i*p.ldy+j:], p.ldy, p.biasFrom(j))
		return
	}
	var tile [groupRows * groupWidth]float32 // columns past the last one of y go here, without bias
	p.rowsOfGroups(i, m, j, tile[:], groupWidth, nil)
	for r := range m {
		row := p.y[(i+r)*p.ldy+j:][:p.n-j]
		copy(row, tile[r*groupWidth:])
		if p.bias != nil {
			for t, b := range p.bias[j:][:len(row)] {
				row[t] += b
			}
		}
	}
}

// rowsOfGroups computes 16 columns of m rows of y from row i of x on, as many rows as the code for the level takes.
func (p *packedProduct) rowsOfGroups(i, m, j int, y []float32, ldy int, bias []float32) {
	blocks := p.rowBlocks()
	if !cpu.has(packedInt8Code) || blocks == 0 {
		p.rowsOfGroupsPortable(i, m, j, y, ldy, bias)
		return
	}
	var b *float32
	if bias != nil {
		b = &bias[0]
	}
	x, ldx := &p.q.row(i)[0].q[0], p.q.ld*recordBytes
	w, row := &p.Packed.block(j/groupWidth, 0)[0], &p.groups.row[j]
	ahead, fetch := (*uint8)(nil), 0
	if p.m >= fewFetched && p.m <= mostFetched {
		ahead, fetch = p.fetch(i, j)
	}
	switch p.precision {
	case Int8:
		vecPackedInt8(m, blocks, x, ldx, w, &y[0], ldy, row, b, ahead, fetch)
	case Int4:
		vecPackedInt4(m, blocks, x, ldx, w, &y[0], ldy, row, b, ahead, fetch)
	default:
		vecPackedInt4Min(m, blocks, x, ldx, w, &y[0], ldy, row, b, ahead, fetch)
	}
}

// With fewFetched to mostFetched rows of x, products prefetch weights. With fewer rows they run at the speed of memory
// anyway, with more they do not wait for it.
const fewFetched, mostFetched = 3, 64

// fetch returns the part of the next panel that a call for the rows from i on prefetches: where it begins, and the
// number of bytes for each block. All calls of a panel together prefetch the next.
func (p *packedProduct) fetch(i, j int) (ahead *uint8, step int) {
	const line = 64
	size := p.form().blockBytes()
	step = roundUp(size/ceil(p.m, 8), line)
	next := min(j/groupWidth+1, p.panels()-1)
	at := (next*p.rowBlocks())*size + i/8*p.rowBlocks()*step
	return &p.groups.blocks[min(at, len(p.groups.blocks)-1)], step
}

// rowsOfGroupsPortable is the portable rowsOfGroups, which defines its results.
func (p *packedProduct) rowsOfGroupsPortable(i, m, j int, y []float32, ldy int, bias []float32) {
	form := p.form()
	for r := range m {
		clear(y[r*ldy:][:groupWidth])
	}
	var unpacked [groupTerms * groupWidth]uint8
	for g := range 2 * p.rowBlocks() {
		block := p.Packed.block(j/groupWidth, g/2)
		ints, factors := form.ints(block, g%2), form.factors(block, g%2)
		if form.bits == 4 {
			unpackNibbles(&unpacked, ints)
			ints = unpacked[:]
		}
		factor := func(t int) float32 { return widen16(binary.LittleEndian.Uint16(factors[2*t:])) }
		for r := range m {
			x := &p.q.row(i + r)[g]
			var sums [groupWidth]int32
			for t := range sums {
				sums[t] = x.start
			}
			for s := 0; s < groupTerms; s += 4 {
				x0, x1, x2, x3 := int32(x.q[s]), int32(x.q[s+1]), int32(x.q[s+2]), int32(x.q[s+3])
				for t := range sums {
					v := ints[s*groupWidth+4*t:][:4]
					sums[t] += x0*int32(v[0]) + x1*int32(v[1]) + x2*int32(v[2]) + x3*int32(v[3])
				}
			}
			row := y[r*ldy:][:groupWidth]
			for t, sum := range sums {
				row[t] = addProduct(row[t], float32(sum), x.factor*factor(t))
				if form.least {
					row[t] = addProduct(row[t], x.sum, factor(groupWidth+t))
				}
			}
		}
	}
	for r := range m {
		row := y[r*ldy:][:groupWidth]
		for t, c := range p.groups.row[j:][:groupWidth] {
			row[t] *= c
			if bias != nil {
				row[t] += bias[t]
			}
		}
	}
}

// unpackNibbles copies the integers of a group of a panel in the order of int8.
func unpackNibbles(to *[groupTerms * groupWidth]uint8, from []uint8) {
	for i, v := range from {
		at := i/groupStep*2*groupStep + i%groupStep
		to[at], to[at+groupStep] = v&15, v>>4
	}
}

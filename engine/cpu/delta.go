package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The delta rule is computed in blocks of positions (arXiv:2406.06484, §3; arXiv:2412.06464, §3.3), each head from
// block to block. All forms are made one, with D = Diag(e^g):
//
//	S[t] = D·S[t-1] + a·x[t]ᵀ + k·v[t]ᵀ,   y[t] = S[t]ᵀ·q
//
// where x is read from the state: S[t-1]ᵀ·b with free a and b. With β, x is v - (D·S[t-1])ᵀ·k, a is β·k, and nothing
// else is written. So q and p, which is b or -k, are readers of the state; a and k are its writers, which carry x and v
// there. (pa) are the products of readers and writers, decayed from one to the other, of those before the reader, and
// with q of the same position, too. With S the state before a block, and all decayed from or to its borders,
//
//	X = P·S + (pk)·V + (pa)·X, or P·S + V + (pa)·X with β,   Y = Q·S + (qa)·X + (qk)·V,   S ← D·S + Aᵀ·X + Kᵀ·V
const (
	// deltaBlock is the number of positions of a block. A head of d components takes 3·d² multiply-adds a position for
	// what is read and written of its state, and some 2·d·deltaBlock inside a block; shorter blocks have products that
	// are too small.
	deltaBlock = 32
	// deltaPart is the number of positions of a part of a block. Of scores between parts none is computed above the
	// diagonal; decays by row are multiplied together between parts.
	deltaPart = kernel.DeltaPart
	// deltaShort is the length below which a row is stepped position by position where the tape does not record. Drafts
	// of up to 8 tokens are checked at once, and have to give the bits of one at a time.
	deltaShort = 9
)

// deltaLeast is the least decay that is not 0, 2⁻⁶⁰. Products with less would be denormal numbers, of which a processor
// computes some hundred times fewer, and what they add to a sum is far below the rounding of it.
const deltaLeast = 0x1p-60

// dropLeast sets decays below deltaLeast to 0.
func dropLeast(decays []float32) {
	for i, d := range decays {
		if d < deltaLeast {
			decays[i] = 0
		}
	}
}

// The readers and the writers of a state.
const (
	byQ, byP = 0, 1
	byA, byK = 0, 1
)

var deltaBoth = [2]int{0, 1}

// DeltaRule steps short rows, and computes others in blocks, which start at the first position of the row.
func (eng *Engine) DeltaRule(x engine.Delta, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	o := take[deltaOp](eng)
	record := eng.wantsRows(slots, x.Q, x.K, x.V, x.G, x.Beta, x.A, x.B)
	*o = deltaOp{Delta: x, y: eng.like(x.V), dk: x.KeyDim(), dv: x.ValueDim(),
		scanRows: eng.scanRows(o.scanRows, r, slots, deltaBlock, deltaShort)}
	switch {
	case o.free():
		o.readers, o.writers = deltaBoth[:], deltaBoth[:]
	case o.solves():
		o.readers, o.writers = deltaBoth[:], deltaBoth[byA:byA+1]
	default:
		o.readers, o.writers = deltaBoth[byQ:byQ+1], deltaBoth[byK:]
	}
	if record && o.solves() {
		o.x = eng.arena.Floats(x.V.Len())
	}
	if record {
		o.borders = eng.arena.Floats(o.count() / deltaSegment * x.Heads * o.dk * o.dv)
		o.scores = eng.arena.Floats(o.keptScores() * o.rows.Total() * o.widest())
	}
	if len(o.steps) > 0 {
		o.step()
	}
	if len(o.whole) > 0 {
		o.forward()
	}
	if record {
		eng.push("DeltaRule", o, o.y).add(o.after...)
	}
	return o.y
}

type deltaOp struct {
	engine.Delta
	y      *tensor.Tensor
	dk, dv int
	scanRows
	readers, writers []int     // those that the form has
	x                []float32 // X (h, l, dv), for the backward
	borders          []float32 // the states before some blocks (h, dk, dv), for the backward
	scores           []float32 // keptScores matrices (l, widest), for the backward, nil where it computes them again
}

// deltaSegment is the number of blocks from one state that is kept for the backward to the next: from each, the
// backward computes again those before the blocks up to the next one. These and all else that the blocks take stay in
// the second-level cache, some 1 MB for heads of 128 components. What is kept takes as much as X. To keep all states
// would take four times as much memory, and no less time: they would come from farther away than a product takes.
const deltaSegment = 4

// border is where the states before block i, counted in all rows, are kept, of the heads from h on. Some block of the
// same row is deltaSegment blocks before it, so that no two share a place.
func (o *deltaOp) border(i, h int) []float32 {
	return o.borders[((i/deltaSegment-1)*o.Heads+h)*o.dk*o.dv:]
}

// widest is the most positions of a block.
func (o *deltaOp) widest() int { return min(deltaBlock, o.rows.Longest()) }

// shared are the readers and the writers of which heads of one key head share products.
func (o *deltaOp) shared() (readers, writers []int) {
	if o.free() {
		return deltaBoth[:1], deltaBoth[byK:]
	}
	return o.readers, o.writers
}

// keptScores is the number of matrices of a block that are kept for the backward, of all heads: with decays by row the
// scores, otherwise the products that heads share. A position takes 128 bytes of each: 256 for a head or a key head
// with β, 512 with decays by row and free a and b, beside 512 of X for values of 128 components.
func (o *deltaOp) keptScores() int {
	if o.ByRow() {
		return o.Heads * len(o.readers) * len(o.writers)
	}
	readers, writers := o.shared()
	return o.KeyHeads * len(readers) * len(writers)
}

// free tells whether the form has a and b of its own, solves whether x is read from the state.
func (o *deltaOp) free() bool   { return o.A != nil }
func (o *deltaOp) solves() bool { return o.A != nil || o.Beta != nil }

// kept are the rows of x of head h from position t on, counted in all rows.
func (o *deltaOp) kept(h, t int) []float32 { return o.x[(h*o.rows.Total()+t)*o.dv:] }

// stateOf is the state of head h in x (h, dk, dv).
func (o *deltaOp) stateOf(x []float32, h int) []float32 { return x[h*o.dk*o.dv:][:o.dk*o.dv] }

// eachHeads calls f on all cores for the rows that are not stepped, with some heads at a time, from h on.
func (o *deltaOp) eachHeads(heads int, f func(k *delta, row, h int)) {
	parts := o.Heads / heads
	parallel.For(len(o.whole)*parts, 1, func(lo, hi int) {
		k := o.delta()
		defer putFloats(k.memory)
		for i := lo; i < hi; i++ {
			f(k, o.whole[i/parts], i%parts*heads)
		}
	})
}

// forward computes the rows that are not stepped. Heads that share a key head go through a row together, so that what
// they share is computed once, unless there are fewer tasks than cores. No bit depends on it.
//
// What is not finite never leaves a state here, because 0 times it is NaN. By the definition a decay of 0 forgets it,
// so such a row is stepped from its start.
func (o *deltaOp) forward() {
	heads := o.Heads / o.KeyHeads
	if heads > 1 && len(o.whole)*o.KeyHeads < parallel.Workers() {
		heads, o.scores = 1, nil // tasks would write the same scores
	}
	n := heads * o.dk * o.dv
	o.eachHeads(heads, func(k *delta, row, h int) {
		before, after := o.carried.at(row)
		buf := getFloats(n)
		defer putFloats(buf)
		var first []float32 // the states before the row, nil for zeros
		states := *buf
		switch {
		case before == nil:
			clear(states)
		case &before[0] == &after[0]: // they are updated in place
			first, states = states, o.stateOf(after, h)[:n:n]
			copy(first, states)
		default:
			first, states = o.stateOf(before, h)[:n:n], o.stateOf(after, h)[:n:n]
			copy(states, first)
		}
		for i := o.first[row]; i < o.first[row+1]; i++ {
			if b := i - o.first[row]; o.borders != nil && b > 0 && b%deltaSegment == 0 {
				copy(o.border(i, h), states)
			}
			k.start(i, h)
			k.queries()
			for j := range heads {
				k.head(h + j)
				k.through(o.stateOf(states, j))
			}
		}
		for j := range heads {
			if s := o.stateOf(states, j); !kernel.AllFinite(s) {
				copyOrClear(s, first, j)
				o.stepRow(row, h+j, s)
			}
		}
	})
}

// through computes X and Y of a head, and the state after the block from that before it.
func (k *delta) through(s []float32) {
	if k.solves() {
		x := k.values(byA)
		if k.free() {
			k.lower(k.scores[byP][byK], k.values(byK), matrix{x, k.dv}, k.dv, false)
		} else {
			k.gather(x, k.V.Data(), k.Heads, k.h, k.dv)
		}
		k.read(byP, s, matrix{x, k.dv})
		kernel.SolveLower(x, k.dv, k.scores[byP][byA], k.q, k.q, k.dv)
	}
	for i, w := range k.writers {
		k.lower(k.scores[byQ][w], k.values(w), k.outputs(), k.dv, i > 0)
	}
	k.read(byQ, s, k.outputs())
	k.advance(s, s)
}

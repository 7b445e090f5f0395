package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// The delta rule is computed in blocks of positions (arXiv:2406.06484, §3; arXiv:2412.06464, §3.3), each head from
// block to block. All forms are brought to one, with D = Diag(e^g):
//
//	S[t] = D·S[t-1] + a·x[t]ᵀ + k·v[t]ᵀ,   y[t] = S[t]ᵀ·q
//
// where x is read from the state: it is S[t-1]ᵀ·b with free a and b. With β, x is v - (D·S[t-1])ᵀ·k, a is β·k, and
// nothing else is written. So q and p, where p is b or -k, are readers of the state; a and k are its writers, which
// write x and v. (pa) are the products of readers p and writers a, decayed from the writer to the reader, for writers
// before the reader; with q, also for the writer at the same position. With S the state before a block, and all vectors
// decayed from or to its borders,
//
//	X = P·S + (pk)·V + (pa)·X, or P·S + V + (pa)·X with β,   Y = Q·S + (qa)·X + (qk)·V,   S ← D·S + Aᵀ·X + Kᵀ·V
const (
	// deltaBlock is the number of positions of a block. For each position, a head of d components takes 3·d²
	// multiply-adds to read and write its state, and some 2·d·deltaBlock inside a block. In shorter blocks the products
	// would be too small to be fast.
	deltaBlock = 32
	// deltaPart is the number of positions of a part of a block. Scores between parts are not computed above the
	// diagonal; decays by row are multiplied together between parts.
	deltaPart = kernel.DeltaPart
	// deltaShort is the length below which a row is stepped position by position if the tape does not record. Drafts of
	// up to 8 tokens are checked at once, and must give the same bits as one token at a time.
	deltaShort = 9
)

// deltaLeast is the smallest decay that is not rounded to 0, 2⁻⁶⁰. Products with smaller ones would be denormal
// numbers, which take a processor about a hundred times as long, and would contribute to a sum far less than its
// rounding error.
const deltaLeast = 0x1p-60

// dropLeast sets decays below deltaLeast to 0.
func dropLeast(decays []float32) {
	for i, d := range decays {
		if d < deltaLeast {
			decays[i] = 0
		}
	}
}

// Indices of the readers and the writers of a state.
const (
	byQ, byP = 0, 1
	byA, byK = 0, 1
)

var deltaBoth = [2]int{0, 1}

// DeltaRule steps short rows. It computes others in blocks, which start at the first position of the row.
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
	readers, writers []int     // the ones that the form has
	x                []float32 // X (h, l, dv), for backward
	borders          []float32 // the states before some blocks (h, dk, dv), for backward
	scores           []float32 // keptScores matrices (l, widest), for backward; nil to compute them again
}

// deltaSegment is the distance in blocks between states that are kept for backward. From each kept state, backward
// computes again the states before the following blocks, up to the next kept state. All data of these blocks stays in
// the second-level cache: some 1 MB for heads of 128 components. The kept states take as much memory as X. Keeping all
// states would take four times as much, and no less time, because reading them from memory takes longer than computing
// them by a product.
const deltaSegment = 4

// border returns the memory for the states before block i, counted through all rows, of the heads from h on. A block
// whose states are kept has deltaSegment blocks of its row before it, so no two such blocks share memory.
func (o *deltaOp) border(i, h int) []float32 {
	return o.borders[((i/deltaSegment-1)*o.Heads+h)*o.dk*o.dv:]
}

// widest returns the largest number of positions of a block.
func (o *deltaOp) widest() int { return min(deltaBlock, o.rows.Longest()) }

// shared returns the readers and the writers whose products are the same for all heads of a key head.
func (o *deltaOp) shared() (readers, writers []int) {
	if o.free() {
		return deltaBoth[:1], deltaBoth[byK:]
	}
	return o.readers, o.writers
}

// keptScores returns the number of matrices of a block that are kept for backward, over all heads: with decays by row
// the scores, otherwise the products that heads share. Each matrix takes 128 bytes for a position: 256 in all for a
// head or a key head with β, 512 with decays by row and free a and b, in addition to 512 for X with values of 128
// components.
func (o *deltaOp) keptScores() int {
	if o.ByRow() {
		return o.Heads * len(o.readers) * len(o.writers)
	}
	readers, writers := o.shared()
	return o.KeyHeads * len(readers) * len(writers)
}

// free reports whether the form has its own a and b, solves whether x is read from the state.
func (o *deltaOp) free() bool   { return o.A != nil }
func (o *deltaOp) solves() bool { return o.A != nil || o.Beta != nil }

// kept returns the rows of x of head h from position t on, counted through all rows.
func (o *deltaOp) kept(h, t int) []float32 { return o.x[(h*o.rows.Total()+t)*o.dv:] }

// stateOf returns the state of head h in x (h, dk, dv).
func (o *deltaOp) stateOf(x []float32, h int) []float32 { return x[h*o.dk*o.dv:][:o.dk*o.dv] }

// eachHeads calls f on all cores for the rows that are not stepped, with the given number of heads at a time, from h
// on.
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

// forward computes the rows that are not stepped. Heads that share a key head go through a row together, so that their
// shared products are computed once, unless there are fewer tasks than cores. The results do not depend on this choice.
//
// In block form, a value that is not finite never leaves a state, because 0 times it is NaN. By definition a decay of 0
// removes it, so such a row is stepped from its start.
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
		var first []float32 // the states before the row, nil if they are zero
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

// through computes X and Y of a head, and the state after the block from the state before it.
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

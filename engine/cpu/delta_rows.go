package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// rowDecays holds separate decays for each row of a head's state. A decay between positions of two parts is the product
// of a decay from the start of the reader's part and one to that start, neither above 1. Readers and writers are
// multiplied by these factors, and then by each other. Inside a part, writers are decayed position by position. Here
// all p read before the decay of their position: with β, p is -e^g ⊙ k.
type rowDecays struct {
	each      []float32    // the decay of each position (q, dk)
	since     []float32    // from the start of the part to each position, including its own (q, dk)
	upTo      []float32    // from each position to the end of its part (q, dk)
	total     []float32    // of each part (parts, dk)
	passed    []float32    // over the parts so far (dk)
	readIn    [2][]float32 // readers, as given or -e^g ⊙ k (q, dk)
	writeIn   [2][]float32 // writers, as given or β·k (q, dk)
	readPart  [2][]float32 // readers, decayed from the start of their part (q, dk)
	writePart [2][]float32 // for each part but the first, the writers before it, decayed to its start
	lanes     []float32    // writers of a part, transposed (dk, deltaPart)
}

func (k *delta) sizeRows(q int) int {
	if !k.ByRow() {
		return 0
	}
	return (7*q + 2*earlierRows(q) + partsOf(q) + 1 + deltaPart) * k.dk
}

// partsOf returns the number of parts of q positions, earlierRows the sum over the parts of the number of positions
// before each.
func partsOf(q int) int     { return (q + deltaPart - 1) / deltaPart }
func earlierRows(q int) int { return deltaPart * partsOf(q) * (partsOf(q) - 1) / 2 }

func (k *delta) makeRows(f *floats, q int) {
	n := q * k.dk
	k.rowDecays = rowDecays{each: f.take(n), since: f.take(n), upTo: f.take(n), total: f.take(partsOf(q) * k.dk),
		passed: f.take(k.dk), readIn: k.in, writeIn: k.out, readPart: f.two(n),
		writePart: f.two(earlierRows(q) * k.dk), lanes: f.take(deltaPart * k.dk)}
	if k.Beta != nil {
		k.readIn[byP], k.writeIn[byA] = f.take(n), f.take(n)
	}
}

// earlier returns the writers before t0, decayed to t0, where a part starts or the block ends.
func (k *delta) earlier(w, t0 int) []float32 {
	if t0 >= k.q {
		return k.writes[w]
	}
	return k.writePart[w][earlierRows(t0)*k.dk:]
}

// over returns the decays over the part from t0 on.
func (k *delta) over(t0 int) []float32 { return k.total[t0/deltaPart*k.dk:][:k.dk] }

// rowEnds computes the decays, and the writers decayed to the ends of parts and of the block.
func (k *delta) rowEnds() {
	q, dk := k.q, k.dk
	g := k.at(k.G.Data(), k.Heads*dk, k.h*dk)
	fill(k.decay, 1)
	k.parts(func(t0, t1 int) {
		at := t0 * dk
		kernel.DecayPart(k.each[at:], k.since[at:], k.upTo[at:], k.over(t0), g.row(t0), g.ld, t1-t0, dk)
		k.dropPart(t0, t1)
		k.pass(k.decay, t0)
	})
	for _, w := range k.writers {
		in := k.writeIn[w]
		if k.Beta != nil {
			kernel.ScaleRows(in, dk, k.out[w], dk, k.beta, 1, q, dk)
		}
		k.parts(func(t0, t1 int) {
			to, at := k.earlier(w, t1), t0*dk
			kernel.MulMatrix(to, dk, k.earlier(w, t0), dk, k.over(t0), 0, t0, dk)
			kernel.MulMatrix(to[at:], dk, k.upTo[at:], dk, in[at:], dk, t1-t0, dk)
		})
	}
}

// rowScores computes the readers decayed from the border before the block, and the scores.
func (k *delta) rowScores() {
	q, dk := k.q, k.dk
	p := byQ // replaces p in the form that has none
	if k.solves() {
		p = byP
	}
	if k.Beta != nil {
		kernel.MulInto(k.readIn[byP][:q*dk], k.each[:q*dk], k.out[byK][:q*dk])
		kernel.Scale(k.readIn[byP][:q*dk], -1)
	}
	done := k.keep(&k.scores, k.readers, k.writers, k.h)
	fill(k.passed, 1)
	k.parts(func(t0, t1 int) {
		at, rows := t0*dk, t1-t0
		for _, r := range k.readers {
			to, in := k.readPart[r], k.readIn[r]
			if r == byQ {
				kernel.MulMatrix(to[at:], dk, k.since[at:], dk, in[at:], dk, rows, dk)
			} else {
				copy(to[at:at+dk], in[at:])
				kernel.MulMatrix(to[at+dk:], dk, k.since[at:], dk, in[at+dk:], dk, rows-1, dk)
			}
			kernel.MulMatrix(k.reads[r][at:], dk, to[at:], dk, k.passed, 0, rows, dk)
		}
		k.pass(k.passed, t0)
		if done {
			return
		}
		for _, w := range k.writers {
			k.crossScores(w, t0, t1)
			clear(k.lanes)
			kernel.Transpose(rows, dk, k.lanes, deltaPart, k.writeIn[w][at:], dk)
			diagonal := t0*q + t0
			kernel.DecayedScores(k.scores[byQ][w][diagonal:], k.scores[byP][w][diagonal:], q, k.lanes, k.each[at:],
				k.readIn[byQ][at:], k.readIn[p][at:], rows, dk)
		}
	})
}

// dropPart drops the smallest decays of a part, in the rows that have decayed to nothing at its end.
func (k *delta) dropPart(t0, t1 int) {
	for i, d := range k.over(t0) {
		if d >= deltaLeast {
			continue
		}
		k.over(t0)[i] = 0
		for at := t0*k.dk + i; at < t1*k.dk; at += k.dk {
			dropLeast(k.each[at : at+1])
			dropLeast(k.since[at : at+1])
			dropLeast(k.upTo[at : at+1])
		}
	}
}

// pass multiplies decays, those over the parts before t0, by those of the part from t0 on.
func (k *delta) pass(decays []float32, t0 int) {
	kernel.Mul(decays, k.over(t0))
	dropLeast(decays)
}

// crossScores computes the scores of the readers of a part and the writers of the parts before it.
func (k *delta) crossScores(w, t0, t1 int) {
	if t0 == 0 {
		return
	}
	kernel.Transpose(t0, k.dk, k.turned, t0, k.earlier(w, t0), k.dk)
	for _, r := range k.readers {
		product(kernel.NN, t1-t0, t0, k.dk, matrix{k.readPart[r], k.dk}.from(t0), matrix{k.turned, t0},
			matrix{k.scores[r][w], k.q}.from(t0), false)
	}
}

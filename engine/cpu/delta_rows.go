package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// rowDecays are decays of each row of a head's state. A decay between positions of two parts is the product of one from
// the start of the reader's part and one to it, none above 1: readers and writers times these are multiplied. Inside a
// part writers are decayed position by position.
type rowDecays struct {
	each   []float32    // the decay of each position (q, dk)
	since  []float32    // from the start of the part to each position, with its own (q, dk)
	upTo   []float32    // from each position to the end of its part (q, dk)
	own    [2][]float32 // scratch: readers with a sign, writers times β (q, dk)
	reader [2][]float32 // readers, decayed from the start of their part (q, dk)
	writer [2][]float32 // for each part but the first writers before it, decayed to its start
	run    []float32    // scratch: writers decayed position by position (deltaPart, dk)
	passed []float32    // decays over the parts before (dk)
}

func (k *delta) sizeRows(q int) int {
	if !k.ByRow() {
		return 0
	}
	return 7*q*k.dk + 2*k.writerRows(q)*k.dk + (deltaPart+1)*k.dk
}

// writerRows are the rows of writer.
func (k *delta) writerRows(q int) int {
	n := (q + deltaPart - 1) / deltaPart
	return deltaPart * n * (n - 1) / 2
}

func (k *delta) makeRows(f *floats, q int) {
	n, w := q*k.dk, k.writerRows(q)*k.dk
	k.rowDecays = rowDecays{each: f.take(n), since: f.take(n), upTo: f.take(n), own: [2][]float32{f.take(n), f.take(n)},
		reader: [2][]float32{f.take(n), f.take(n)}, writer: [2][]float32{f.take(w), f.take(w)},
		run: f.take(deltaPart * k.dk), passed: f.take(k.dk)}
}

// of is row t of a buffer (q, dk).
func (k *delta) of(x []float32, t int) []float32 { return x[t*k.dk:][:k.dk] }

// partEnd is the end of the part that starts at t0.
func (k *delta) partEnd(t0 int) int { return min(k.q, t0+deltaPart) }

// decayed are the writers before t0, where a part starts or the block ends, decayed to it.
func (k *delta) decayed(w, t0 int) []float32 {
	if t0 >= k.q {
		return k.writes[w]
	}
	i := t0 / deltaPart
	return k.writer[w][deltaPart*i*(i-1)/2*k.dk:]
}

// total are the decays over the part that ends before t1.
func (k *delta) total(t1 int) []float32 { return k.of(k.since, t1-1) }

// rowEnds computes the decays, and the writers decayed to the ends of parts and of the block.
func (k *delta) rowEnds() {
	q, dk := k.q, k.dk
	g := k.at(k.G.Data(), k.Heads*dk, k.h*dk)
	for t0 := 0; t0 < q; t0 += deltaPart {
		t1 := k.partEnd(t0)
		for t := t0; t < t1; t++ {
			copy(k.of(k.since, t), g.row(t))
			copy(k.of(k.each, t), g.row(t))
			if t > t0 {
				kernel.Add(k.of(k.since, t), k.of(k.since, t-1))
			}
		}
		clear(k.of(k.upTo, t1-1))
		for t := t1 - 2; t >= t0; t-- {
			to := k.of(k.upTo, t)
			copy(to, g.row(t+1))
			kernel.Add(to, k.of(k.upTo, t+1))
		}
	}
	for _, x := range [][]float32{k.each, k.since, k.upTo} {
		kernel.ExpShift(x[:q*dk], 0, 1)
	}
	for i := range k.decay {
		k.decay[i] = 1
	}
	if k.Beta != nil {
		beta := k.at(k.Beta.Data(), k.Heads, k.h)
		kernel.ScaleRows(k.own[byA], dk, k.out[byK].x, k.out[byK].ld, beta.x, beta.ld, q, dk)
		k.out[byA] = matrix{k.own[byA], dk}
	}
	for t0 := 0; t0 < q; t0 += deltaPart {
		t1 := k.partEnd(t0)
		total := k.total(t1)
		kernel.Mul(k.decay, total)
		for _, w := range k.writers {
			from, to := k.decayed(w, t0), k.decayed(w, t1)
			for s := range t0 {
				kernel.MulInto(k.of(to, s), k.of(from, s), total)
			}
			for s := t0; s < t1; s++ {
				kernel.MulInto(k.of(to, s), k.of(k.upTo, s), k.out[w].row(s)[:dk])
			}
		}
	}
}

// rowScores computes what is decayed from the border before the block, and the scores.
func (k *delta) rowScores() {
	q, dk := k.q, k.dk
	if k.Beta != nil {
		kernel.ScaleRows(k.own[byP], dk, k.out[byK].x, k.out[byK].ld, []float32{-1}, 0, q, dk)
		k.in[byP] = matrix{k.own[byP], dk}
	}
	for i := range k.passed {
		k.passed[i] = 1
	}
	for t0 := 0; t0 < q; t0 += deltaPart {
		t1 := k.partEnd(t0)
		for _, r := range k.readers {
			for t := t0; t < t1; t++ {
				to := k.of(k.reader[r], t)
				switch {
				case r == byQ || !k.free():
					kernel.MulInto(to, k.of(k.since, t), k.in[r].row(t)[:dk])
				case t == t0: // p reads before the decay
					copy(to, k.in[r].row(t))
				default:
					kernel.MulInto(to, k.of(k.since, t-1), k.in[r].row(t)[:dk])
				}
				kernel.MulInto(k.of(k.reads[r], t), to, k.passed)
			}
			for _, w := range k.writers {
				for t := t0; t < t1; t++ {
					clear(k.scores[r][w][t*q:][:q])
				}
				if t0 > 0 {
					product(kernel.NT, t1-t0, t0, dk, matrix{k.reader[r], dk}.from(t0), matrix{k.decayed(w, t0), dk},
						matrix{k.scores[r][w][t0*q:], q}, false)
				}
			}
		}
		for _, w := range k.writers {
			k.partScores(w, t0, t1)
		}
		kernel.Mul(k.passed, k.total(t1))
	}
}

// partScores computes the scores between the positions of a part.
func (k *delta) partScores(w, t0, t1 int) {
	p := func(t int) {
		for s := t0; s < t; s++ {
			k.scores[byP][w][t*k.q+s] = kernel.Dot(k.of(k.run, s-t0), k.in[byP].row(t)[:k.dk])
		}
	}
	for t := t0; t < t1; t++ {
		if k.free() {
			p(t)
		}
		for s := t0; s < t; s++ {
			kernel.Mul(k.of(k.run, s-t0), k.of(k.each, t))
		}
		copy(k.of(k.run, t-t0), k.out[w].row(t))
		for s := t0; s <= t; s++ {
			k.scores[byQ][w][t*k.q+s] = kernel.Dot(k.of(k.run, s-t0), k.in[byQ].row(t)[:k.dk])
		}
		if k.solves() && !k.free() {
			p(t)
		}
	}
}

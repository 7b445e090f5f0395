package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// numberDecays are decays of one number for all rows of a head's state. Scores are then products of readers and writers
// times a decay: the products are the same for all heads that share a key head.
type numberDecays struct {
	between []float32    // the decays from one position to a later one (q, q), zero above the diagonal
	weights []float32    // those times β of the writer
	starts  [2][]float32 // the decays from the border before to what each reader reads, times its sign (q)
	to      []float32    // the decays to the border after times β (q)
	g, beta []float32    // (q)
	toEnd   []float32    // the decays to the border after (q)
}

func (k *delta) sizeNumbers(q int) int { return 2*q*q + 6*q }

func (k *delta) makeNumbers(f *floats, q int) {
	k.numberDecays = numberDecays{between: f.take(q * q), weights: f.take(q * q), starts: [2][]float32{f.take(q), f.take(q)}, to: f.take(q),
		g: f.take(q), beta: f.take(q), toEnd: f.take(q)}
}

// sharedScores computes the products that heads of one key head share.
func (k *delta) sharedScores() {
	w := byK
	if !k.free() && k.solves() {
		w = byA
		k.products(byP, byA)
	}
	k.products(byQ, w)
}

// products computes products of readers and writers before decays.
func (k *delta) products(r, w int) {
	product(kernel.NT, k.q, k.q, k.dk, k.in[r], k.out[w], matrix{k.raw[r][w], k.q}, false)
}

// numberEnds computes the decays, and what is decayed to the border after the block.
func (k *delta) numberEnds() {
	q := k.q
	for t := range q {
		at := (k.first+t)*k.Heads + k.h
		k.g[t] = k.G.Data()[at]
		if k.Beta != nil {
			k.beta[t] = k.Beta.Data()[at]
		}
	}
	sum := float32(0)
	for t := q - 1; t >= 0; t-- {
		k.toEnd[t] = sum
		sum += k.g[t]
	}
	kernel.ExpShift(k.toEnd[:q], 0, 1)
	k.decay[0] = sum
	kernel.ExpShift(k.decay, 0, 1)
	for _, w := range k.writers() {
		factors := k.toEnd
		if k.Beta != nil {
			kernel.MulInto(k.to[:q], k.toEnd[:q], k.beta[:q])
			factors = k.to
		}
		kernel.ScaleRows(k.writes[w], k.dk, k.out[w].x, k.out[w].ld, factors, 1, q, k.dk)
	}
}

// numberScores computes what is decayed from the border before the block, and the scores.
func (k *delta) numberScores() {
	q, sum := k.q, float32(0)
	for t, g := range k.g[:q] {
		if k.free() {
			k.starts[byP][t] = sum // p reads before the decay
		}
		sum += g
		k.starts[byQ][t] = sum
		if !k.free() {
			k.starts[byP][t] = sum
		}
	}
	kernel.ExpShift(k.starts[byQ][:q], 0, 1)
	kernel.ExpShift(k.starts[byP][:q], 0, k.sign())
	for _, r := range k.readers() {
		kernel.ScaleRows(k.reads[r], k.dk, k.in[r].x, k.in[r].ld, k.starts[r], 1, q, k.dk)
	}
	kernel.Decays(k.between[:q*q], k.g[:q])
	weights := k.between
	if k.Beta != nil {
		weights = k.weights
		for t := range q {
			kernel.MulInto(weights[t*q:][:q], k.between[t*q:][:q], k.beta[:q])
		}
	}
	if k.free() {
		k.products(byQ, byA)
		k.products(byP, byA)
		k.products(byP, byK)
	}
	for _, w := range k.writers() {
		kernel.MulInto(k.scores[byQ][w][:q*q], weights[:q*q], k.raw[byQ][w][:q*q])
		if !k.solves() {
			continue
		}
		p := k.scores[byP][w]
		if k.free() { // of the position before
			clear(p[:q])
			kernel.MulInto(p[q:q*q], weights[:q*q-q], k.raw[byP][w][q:q*q])
			continue
		}
		kernel.MulInto(p[:q*q], weights[:q*q], k.raw[byP][w][:q*q])
		kernel.Scale(p[:q*q], k.sign())
		clearDiagonal(p, q)
	}
}

// sign is that of p: -k with β.
func (k *delta) sign() float32 {
	if k.Beta != nil {
		return -1
	}
	return 1
}

func clearDiagonal(x []float32, q int) {
	for t := range q {
		x[t*q+t] = 0
	}
}

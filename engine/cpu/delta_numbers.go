package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// numberDecays holds decays that are one number for all rows of a head's state. Scores are then products of readers and
// writers times a decay, and products of queries and keys are the same for all heads that share a key head.
type numberDecays struct {
	g        []float32       // (q)
	drops    bool            // whether some decays may be below deltaLeast
	starts   [2][]float32    // factors of readers: decays from the border before, for p with its sign (q)
	toEnd    []float32       // the decays to the border after (q)
	ends     []float32       // factors of writers: toEnd, times β if there is one (q)
	between  []float32       // the decays from one position to a later one, zero above the diagonal (q, q)
	weights  []float32       // factors of products: between, times the writer's β if there is one (q, q)
	products [2][2][]float32 // of readers and writers, up to the ends of parts (q, q)
}

func (k *delta) sizeNumbers(q int) int { return 6*q*q + 5*q }

func (k *delta) makeNumbers(f *floats, q int) {
	k.numberDecays = numberDecays{g: f.take(q), starts: f.two(q), toEnd: f.take(q), ends: f.take(q),
		between: f.take(q * q), weights: f.take(q * q), products: f.four(q * q)}
	if k.Beta == nil {
		k.ends, k.weights = k.toEnd, k.between
	}
}

// compareKeys computes the products that heads of one key head share.
func (k *delta) compareKeys(readers []int, w int) {
	k.turn(k.out[byK], k.dk)
	for _, r := range readers {
		k.compare(k.in[r], k.dk, k.products[r][w])
	}
}

// numberEnds computes the decays and the writers decayed to the border after the block.
func (k *delta) numberEnds() {
	q, at := k.q, k.first*k.Heads+k.h
	for t := range q {
		k.g[t] = k.G.Data()[at+t*k.Heads]
	}
	sum := float32(0)
	for t := q - 1; t >= 0; t-- {
		k.toEnd[t] = sum
		sum += k.g[t]
	}
	kernel.ExpShift(k.toEnd[:q], 0, 1)
	k.decay[0] = kernel.Exp(sum)
	if k.drops = k.decay[0] < deltaLeast; k.drops {
		dropLeast(k.toEnd[:q])
		dropLeast(k.decay)
	}
	if k.Beta != nil {
		kernel.MulInto(k.ends[:q], k.toEnd[:q], k.beta[:q])
	}
	for _, w := range k.writers {
		kernel.ScaleRows(k.writes[w], k.dk, k.out[w], k.dk, k.ends, 1, q, k.dk)
	}
}

// numberScores computes the readers decayed from the border before the block, and the scores.
func (k *delta) numberScores() {
	q := k.q
	k.startDecays()
	for _, r := range k.readers {
		kernel.ScaleRows(k.reads[r], k.dk, k.in[r], k.dk, k.starts[r], 1, q, k.dk)
	}
	kernel.Decays(k.between[:q*q], k.g[:q])
	if k.drops {
		dropLeast(k.between[:q*q])
	}
	if k.Beta != nil {
		kernel.MulMatrix(k.weights, q, k.between, q, k.beta, 0, q, q)
	}
	if k.free() {
		k.turn(k.out[byK], k.dk)
		k.compare(k.in[byP], k.dk, k.products[byP][byK])
		k.turn(k.out[byA], k.dk)
		k.compare(k.in[byP], k.dk, k.products[byP][byA])
		k.compare(k.in[byQ], k.dk, k.products[byQ][byA])
	}
	for _, w := range k.writers {
		weights := k.weights[:q*q]
		kernel.MulInto(k.scores[byQ][w][:q*q], weights, k.products[byQ][w][:q*q])
		switch p := k.scores[byP][w]; {
		case k.free(): // p reads before the decay
			clear(p[:q])
			kernel.MulInto(p[q:q*q], weights[:q*q-q], k.products[byP][w][q:q*q])
		case k.solves():
			kernel.MulInto(p[:q*q], weights, k.products[byP][w][:q*q])
			kernel.Scale(p[:q*q], -1)
		}
	}
}

// startDecays computes the factors of readers.
func (k *delta) startDecays() {
	q, sum, sign := k.q, float32(0), float32(1)
	for t, g := range k.g[:q] {
		k.starts[byP][t] = sum
		sum += g
		k.starts[byQ][t] = sum
	}
	if !k.free() {
		copy(k.starts[byP], k.starts[byQ][:q])
		sign = -1
	}
	for _, r := range deltaBoth {
		kernel.ExpShift(k.starts[r][:q], 0, 1)
		if k.drops {
			dropLeast(k.starts[r][:q])
		}
	}
	kernel.Scale(k.starts[byP][:q], sign)
}

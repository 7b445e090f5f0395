package task

import (
	"fmt"
	"math"
	"slices"
)

// markovOrders lists the numbers of past bases that the Markov models use.
var markovOrders = []int{0, 1, 2, 3, 4, 6, 8}

// markov counts the bases that follow the last k bases. Element k is the table of order k. The index in the table is
// (the last k bases as digits of base 4)·4 + the next base.
type markov [][]uint32

// newMarkov returns the counts for parts, for models up to the given order.
func newMarkov(parts [][]byte, order int) markov {
	m := make(markov, order+1)
	for k := range m {
		m[k] = make([]uint32, 4<<(2*k))
	}
	for _, part := range parts {
		eachBase(part, func(past, known int, base int) {
			for k := 0; k <= min(known, order); k++ {
				m[k][(past&(1<<(2*k)-1))*4+base]++
			}
		})
	}
	return m
}

// eachBase calls fn for every base of a part, 0 to 3. past holds the previous bases as digits of base 4. Only the last
// known of them are valid: earlier ones are unknown, or before the beginning.
func eachBase(part []byte, fn func(past, known, base int)) {
	past, known := 0, 0
	for _, b := range part {
		var base int
		switch b {
		case 'A':
			base = 0
		case 'C':
			base = 1
		case 'G':
			base = 2
		case 'T':
			base = 3
		default:
			past, known = 0, 0
			continue
		}
		fn(past, known, base)
		past, known = (past*4+base)&(1<<40-1), known+1
	}
}

// chances returns the probabilities of the four bases after past in the model of the given order. The model of order k
// adds to its counts 4 more, distributed by the probabilities of order k - 1. The model of order -1 is uniform.
func (m markov) chances(past, order int) [4]float64 {
	p := [4]float64{0.25, 0.25, 0.25, 0.25}
	for k := 0; k <= order; k++ {
		at := (past & (1<<(2*k) - 1)) * 4
		seen := m[k][at : at+4]
		total := float64(seen[0]) + float64(seen[1]) + float64(seen[2]) + float64(seen[3])
		for b := range p {
			p[b] = (float64(seen[b]) + 4*p[b]) / (total + 4)
		}
	}
	return p
}

// markovBaseline returns the score on the test part of a Markov model with the counts of the training part, with the
// order that is best on the validation part. It returns nil if a part has no bases.
func markovBaseline(train, valid, test [][]byte) []Simple {
	m := newMarkov(train, slices.Max(markovOrders))
	least, order := math.Inf(1), 0
	for _, k := range markovOrders {
		if loss, _ := m.score(valid, k); loss < least {
			least, order = loss, k
		}
	}
	loss, accuracy := m.score(test, order)
	if math.IsInf(least, 1) || math.IsNaN(loss) {
		return nil
	}
	return []Simple{{Name: fmt.Sprintf("a Markov model of order %d", order), Loss: loss, Accuracy: accuracy}}
}

// score returns the loss of the model of an order, in nats a base, and the percentage of bases for which the model's
// likeliest base is right. Both are NaN if the parts have no bases.
func (m markov) score(parts [][]byte, order int) (loss, accuracy float64) {
	n := 0.0
	for _, part := range parts {
		eachBase(part, func(past, known, base int) {
			p := m.chances(past, min(order, known))
			if base == slices.Index(p[:], slices.Max(p[:])) {
				accuracy++
			}
			loss -= math.Log(p[base])
			n++
		})
	}
	return loss / n, 100 * accuracy / n
}

package data

import (
	"context"
	"fmt"
	"math"
	"math/bits"
)

// Baseline is the cross-entropy of n-gram models in nats per token. A language model should be well below Bigram.
type Baseline struct {
	Unigram float64 `json:"unigram"`
	Bigram  float64 `json:"bigram"`
	Targets int     `json:"targets"` // predicted tokens of valid: all but the first
}

// maxHeldOut is the most tokens used to choose the smoothing. More would not improve it.
const maxHeldOut = 1 << 20

// pairLimit is the most distinct pairs counted at a time, about 64 MB. It is a variable so that tests can count a small
// text in many parts.
var pairLimit = 1 << 21

// NGramBaseline trains a unigram and a bigram model on train and measures them on valid. vocab is the number of ids
// that share the probability: that of the tokenizer, or the padded one of a model.
//
//	p(w)   = (c(w) + k) / (n + k·vocab)                  add-k
//	p(w|v) = λ·c(v,w)/c(v) + (1−λ)·p(w), λ = λ[c(v)]     interpolated, Jelinek and Mercer 1980
//
// k, and a λ for each power of two of c(v), are chosen to minimize the loss on the last tenth of train, with the counts
// of the rest. Then all of train is counted. The formulas are from Chen and Goodman, "An Empirical Study of Smoothing
// Techniques for Language Modeling" (1998), §2.1 and §2.3.
//
// Memory is bounded for any vocabulary: only pairs in valid are counted, at most pairLimit in one pass over train. The
// last id of a document and the first of the next count as a pair, as for a model.
func NGramBaseline(ctx context.Context, train, valid *Tokens, vocab int) (Baseline, error) {
	const least = 20
	switch {
	case train.Len() < least || valid.Len() < 2:
		return Baseline{}, fmt.Errorf("data: baseline: found %d tokens for training and %d for validation, "+
			"want at least %d and 2", train.Len(), valid.Len(), least)
	case vocab < train.VocabSize() || vocab < valid.VocabSize():
		return Baseline{}, fmt.Errorf("data: baseline: found a vocabulary of %d, want at least %d", vocab,
			max(train.VocabSize(), valid.VocabSize()))
	}
	cut := train.Len() - min(train.Len()/10, maxHeldOut)
	rest, heldOut := train.Slice(0, cut), train.Slice(cut-1, train.Len()) // cut−1: the context of the first target

	var k smoothK
	m, err := newNGram(ctx, rest, vocab)
	if err != nil {
		return Baseline{}, err
	}
	if err := m.score(ctx, rest, heldOut, func(c counts) { k.add(m, c) }); err != nil {
		return Baseline{}, err
	}
	m.k = k.best()
	var lambdas smoothLambda
	if err := m.score(ctx, rest, heldOut, func(c counts) { lambdas.add(m, c) }); err != nil {
		return Baseline{}, err
	}

	if m, err = newNGram(ctx, train, vocab); err != nil {
		return Baseline{}, err
	}
	m.k, m.lambda = k.best(), lambdas.best()
	var b Baseline
	err = m.score(ctx, train, valid, func(c counts) {
		b.Targets++
		b.Unigram -= math.Log(m.unigram(c))
		b.Bigram -= math.Log(m.bigram(c))
	})
	if err != nil {
		return Baseline{}, err
	}
	b.Unigram /= float64(b.Targets)
	b.Bigram /= float64(b.Targets)
	return b, nil
}

// ngram holds the unigram and the bigram model.
type ngram struct {
	vocab    float64
	n        float64
	single   []int64 // c(w), by id
	contexts []int64 // c(v) = Σ_w c(v,w): c(w) without the last token
	k        float64
	lambda   [64]float64 // by bits.Len of c(v)
}

// counts holds the counts for a target w after v.
type counts struct {
	single  int64 // c(w)
	context int64 // c(v)
	pair    int64 // c(v,w)
}

func newNGram(ctx context.Context, train *Tokens, vocab int) (*ngram, error) {
	m := &ngram{vocab: float64(vocab), n: float64(train.Len()), single: make([]int64, vocab),
		contexts: make([]int64, vocab)}
	first := make([]int32, 1)
	if _, err := train.Read(first, 0); err != nil {
		return nil, err
	}
	m.single[first[0]]++
	return m, eachPair(ctx, train, 0, func(v, w int32) bool {
		m.contexts[v]++
		m.single[w]++
		return true
	})
}

func (m *ngram) unigram(c counts) float64 {
	return (float64(c.single) + m.k) / (m.n + m.k*m.vocab)
}

func (m *ngram) bigram(c counts) float64 {
	return interpolate(m.lambda[bits.Len64(uint64(c.context))], c, m.unigram(c))
}

func interpolate(lambda float64, c counts, unigram float64) float64 {
	p := (1 - lambda) * unigram
	if c.pair > 0 {
		p += lambda * float64(c.pair) / float64(c.context)
	}
	return p
}

// score calls visit with the counts in train of every target of part, in order.
func (m *ngram) score(ctx context.Context, train, part *Tokens, visit func(counts)) error {
	pairs := map[uint64]int64{}
	for from := 0; from < part.Len()-1; {
		clear(pairs)
		to := from
		err := eachPair(ctx, part, from, func(v, w int32) bool {
			key := pairKey(v, w)
			if _, ok := pairs[key]; !ok {
				if len(pairs) == pairLimit {
					return false
				}
				pairs[key] = 0
			}
			to++
			return true
		})
		if err != nil {
			return err
		}
		err = eachPair(ctx, train, 0, func(v, w int32) bool {
			key := pairKey(v, w)
			if n, ok := pairs[key]; ok {
				pairs[key] = n + 1
			}
			return true
		})
		if err != nil {
			return err
		}
		err = eachPair(ctx, part.Slice(0, to+1), from, func(v, w int32) bool {
			visit(counts{m.single[w], m.contexts[v], pairs[pairKey(v, w)]})
			return true
		})
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

func pairKey(v, w int32) uint64 { return uint64(v)<<32 | uint64(w) }

// eachPair calls fn with the tokens at i and i+1, for i from from on, until fn returns false.
func eachPair(ctx context.Context, t *Tokens, from int, fn func(v, w int32) bool) error {
	buf := make([]int32, 1<<14)
	for from < t.Len()-1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := t.Read(buf, from)
		if err != nil {
			return err
		}
		for i := 1; i < n; i++ {
			if !fn(buf[i-1], buf[i]) {
				return nil
			}
		}
		from += n - 1
	}
	return nil
}

// smoothK sums the loss for each candidate k.
type smoothK struct{ loss [5]float64 }

func (s *smoothK) value(i int) float64 { return math.Pow(10, float64(-i)) } // 1 to 0.0001

func (s *smoothK) add(m *ngram, c counts) {
	for i := range s.loss {
		m.k = s.value(i)
		s.loss[i] -= math.Log(m.unigram(c))
	}
}

func (s *smoothK) best() float64 { return s.value(argmin(s.loss[:])) }

// smoothLambda sums the loss for each candidate λ, for each bucket of contexts. λ < 1, so that no probability is 0.
type smoothLambda struct {
	loss [64][32]float64
	seen [64]bool
}

func (s *smoothLambda) value(i int) float64 { return float64(i) / 32 }

func (s *smoothLambda) add(m *ngram, c counts) {
	bucket := bits.Len64(uint64(c.context))
	s.seen[bucket] = true
	p := m.unigram(c)
	for i := range s.loss[bucket] {
		s.loss[bucket][i] -= math.Log(interpolate(s.value(i), c, p))
	}
}

// best returns the best λ of each bucket. A bucket without data gets the λ of the one below. Bucket 0, for contexts
// never seen, has λ = 0, which leaves only p(w).
func (s *smoothLambda) best() (lambda [64]float64) {
	for b := 1; b < len(lambda); b++ {
		lambda[b] = lambda[b-1]
		if s.seen[b] {
			lambda[b] = s.value(argmin(s.loss[b][:]))
		}
	}
	return lambda
}

func argmin(v []float64) int {
	best := 0
	for i, x := range v {
		if x < v[best] {
			best = i
		}
	}
	return best
}

package data

import (
	"context"
	"math"
)

// enoughTokens is the most tokens that UnigramLoss reads of each text. More would not change the result noticeably.
const enoughTokens = 1 << 22

// UnigramLoss returns the cross-entropy, in nats per token, of predicting the tokens of valid by their frequency in
// train, with one added to each count. It is a quick alternative to NGramBaseline: a model that has learned anything
// has a lower loss. vocab is the number of ids. The error is a *LostError.
func UnigramLoss(train, valid *Tokens, vocab int) (float64, error) {
	ctx := context.Background() // not cancelable, as there is little to count
	m, err := newNGram(ctx, train.Slice(0, min(train.Len(), enoughTokens)), vocab)
	if err != nil {
		return 0, err
	}
	m.k = 1
	valid = valid.Slice(0, min(valid.Len(), enoughTokens))
	sum := 0.0
	err = eachPair(ctx, valid, 0, func(_, w int32) bool {
		sum -= math.Log(m.unigram(counts{single: m.single[w]}))
		return true
	})
	return sum / float64(valid.Len()-1), err
}

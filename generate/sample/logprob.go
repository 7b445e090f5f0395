package sample

import "math"

// LogProbs are the natural logarithms of the probabilities that a model's logits stand for: log softmax. They are
// computed in float64 from the logits, by a sum in the order of the tokens, so that the same logits have the same bits
// everywhere. Larger logits have larger ones, and equal logits equal ones: the token that a greedy choice takes has
// exactly the largest.
type LogProbs struct {
	logits []float32
	norm   float64 // log of the sum of exp(logit)
}

// TokenProb is a token with its log-probability.
type TokenProb struct {
	ID      int32
	LogProb float64
}

// LogProbsOf takes logits, which must not change while they are used.
func LogProbsOf(logits []float32) (LogProbs, error) {
	best, err := largestLogit(logits)
	if err != nil {
		return LogProbs{}, err
	}
	if best < 0 {
		return LogProbs{}, errNoToken
	}
	// What is so far below the largest is less than the rounding of the sum.
	const negligible = -60
	top, sum := float64(logits[best]), 0.0
	for _, x := range logits {
		if d := float64(x) - top; d > negligible {
			sum += math.Exp(d)
		}
	}
	return LogProbs{logits, top + math.Log(sum)}, nil
}

// Of is the log-probability of a token: -Inf for one that is excluded, or outside of the vocabulary.
func (p LogProbs) Of(id int32) float64 {
	if id < 0 || int(id) >= len(p.logits) {
		return math.Inf(-1)
	}
	return float64(p.logits[id]) - p.norm
}

// Top returns the k most probable tokens, the most probable first, among equals the lower token. Excluded ones are left
// out.
func (p LogProbs) Top(k int) []TokenProb {
	if k < 1 {
		return nil
	}
	top := largestLogits(make([]candidate, 0, min(k, len(p.logits))), p.logits, k)
	sortLargestFirst(top)
	out := make([]TokenProb, len(top))
	for i, c := range top {
		out[i] = TokenProb{c.token, p.Of(c.token)}
	}
	return out
}

package sample

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// LogProbs holds the natural logarithms of the probabilities for a model's logits: log softmax. Exponentials are
// computed in float32 and summed in float64, so that the largest error is below 1e-6. The same logits give the same
// bits, whatever the number of cores, at one level of the CPU (see internal/kernel). A larger logit has a larger
// log-probability, and equal logits have equal ones: the token that a greedy choice takes has exactly the largest. None
// is above 0.
type LogProbs struct {
	logits  []float32
	Largest float32 // largest logit
	Norm    float64 // log of the sum of exp(logit)
}

// TokenProb is a token with its log-probability.
type TokenProb struct {
	ID      int32
	LogProb float64
}

// LogProbsOf returns the log-probabilities of logits, which must not change while these are used.
func LogProbsOf(logits []float32) (LogProbs, error) {
	if len(logits) == 0 {
		return LogProbs{}, errNoToken
	}
	top, sum := kernel.SumExp(logits)
	if sum != sum {
		if _, err := largestLogit(logits); err != nil {
			return LogProbs{}, err
		}
		return LogProbs{}, errNoToken
	}
	return LogProbs{logits, top, float64(top) + math.Log(sum)}, nil
}

// LogProb returns the log-probability of one token as LogProbs.Of does, or NaN if the logits have no probabilities.
func LogProb(logits []float32, id int32) float64 {
	p, err := LogProbsOf(logits)
	if err != nil {
		return math.NaN()
	}
	return p.Of(id)
}

// Of returns the log-probability of a token: -Inf for one that is excluded or outside the vocabulary.
func (p LogProbs) Of(id int32) float64 {
	if id < 0 || int(id) >= len(p.logits) {
		return math.Inf(-1)
	}
	return float64(p.logits[id]) - p.Norm
}

// Top returns the k most probable tokens in descending order of probability; of equal ones, the lower token comes
// first. Excluded tokens are omitted.
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

// atOnce is the number of logits in a block of Entropy. Sums of a block are computed in float32, and added up in
// float64.
const atOnce = 1024

var ones = slices.Repeat([]float32{1}, atOnce)

// Entropy returns the mean of -log p over all tokens, -Σ p log p, in nats.
func (p LogProbs) Entropy() float64 {
	var below, e [atOnce]float32
	sum := 0.0 // of e^(z - largest) (z - largest)
	for part := range slices.Chunk(p.logits, atOnce) {
		x, y := below[:len(part)], e[:len(part)]
		copy(x, part)
		kernel.Axpy(-p.Largest, ones[:len(x)], x)
		copy(y, x)
		kernel.ExpShift(y, 0, 1)
		sum += float64(kernel.Dot(x, y))
	}
	if sum != sum { // some logit is so far below the largest that float32 cannot hold the distance
		sum = 0
		for _, z := range p.logits {
			if x := float64(z) - float64(p.Largest); math.Exp(x) > 0 {
				sum += math.Exp(x) * x
			}
		}
	}
	log := p.Norm - float64(p.Largest)
	return log - sum/math.Exp(log)
}

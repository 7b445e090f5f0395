package sample

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// LogProbs are the natural logarithms of the probabilities that a model's logits stand for: log softmax. Exponentials
// are computed in float32 and added up in float64, so that the largest error is below 1e-6. The same logits have the
// same bits, whatever the number of cores, at one level of the CPU (see internal/kernel). Larger logits have larger
// ones, and equal logits equal ones: the token that a greedy choice takes has exactly the largest. None is above 0.
type LogProbs struct {
	logits  []float32
	Largest float32 // of the logits
	Norm    float64 // log of the sum of exp(logit)
}

// TokenProb is a token with its log-probability.
type TokenProb struct {
	ID      int32
	LogProb float64
}

// LogProbsOf takes logits, which must not change while they are used.
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

// LogProb is the log-probability of one token: LogProbs.Of, or NaN where logits have no probabilities.
func LogProb(logits []float32, id int32) float64 {
	p, err := LogProbsOf(logits)
	if err != nil {
		return math.NaN()
	}
	return p.Of(id)
}

// Of is the log-probability of a token: -Inf for one that is excluded, or outside of the vocabulary.
func (p LogProbs) Of(id int32) float64 {
	if id < 0 || int(id) >= len(p.logits) {
		return math.Inf(-1)
	}
	return float64(p.logits[id]) - p.Norm
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

// atOnce is how many logits Entropy looks at together: their sums are made in float32, and added up in float64.
const atOnce = 1024

var ones = slices.Repeat([]float32{1}, atOnce)

// Entropy is the mean of -log p over all tokens, -Σ p log p, in nats.
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
	if sum != sum { // there is a logit so far below that the distance has no float32
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

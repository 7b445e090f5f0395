package watch

import (
	"encoding/json"
	"fmt"
	"math"
)

// Scores are counted in bins whose width is at most 2 % of the score, and 0.02 bits near 0.
const (
	binWidth = 0.02 // of asinh(score)
	lastBin  = 1500 // of a score of 5e12 bits; further ones are counted in it
	// leastLines is how many lines have to be above a quantile that is read from the counts.
	leastLines = 10
	bodyTail   = 0.1 // the part of the lines above the first of the two quantiles that a tail is drawn through
	heaviest   = 1e100
)

// Quantiles are the quantiles of a stream of scores, the recent ones with more weight: a line that is h lines old, h
// the half-life, counts half as much as the last one. A score x is counted in bin
//
//	b = round(asinh(x)/0.02),
//
// which bounds its relative error by 1 %, as in DDSketch (Masson et al., arXiv:1908.10693, §2.1), but for scores of
// both signs. The memory is that of the bins, 24 KB, however many lines there are. A score counts once however large it
// is, so that no single line moves a quantile much.
type Quantiles struct {
	halfLife int
	growth   float64 // of the weight, from line to line
	weight   float64 // of the next score
	total    float64 // of all
	top      int     // index of the highest bin with a weight
	bins     []float64
}

// NewQuantiles returns quantiles of no scores yet.
func NewQuantiles(halfLife int) *Quantiles {
	return &Quantiles{
		halfLife: halfLife, growth: math.Exp2(1 / float64(halfLife)), weight: 1, bins: make([]float64, 2*lastBin+1),
	}
}

// copy returns a copy with another half-life.
func (q *Quantiles) copy(halfLife int) *Quantiles {
	c := NewQuantiles(halfLife)
	c.weight, c.total, c.top = q.weight, q.total, q.top
	copy(c.bins, q.bins)
	return c
}

// Add counts a score. One that is not finite counts nothing.
func (q *Quantiles) Add(score float64) {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return
	}
	i := lastBin + min(max(int(math.Round(math.Asinh(score)/binWidth)), -lastBin), lastBin)
	q.bins[i] += q.weight
	q.total += q.weight
	q.top = max(q.top, i)
	if q.weight *= q.growth; q.weight > heaviest {
		for i := range q.bins {
			q.bins[i] /= heaviest
		}
		q.total, q.weight = q.total/heaviest, q.weight/heaviest
	}
}

// Lines is the number of lines that the quantiles are of: the sum of the weights, where that of the last line is 1. It
// is at most 1.44 half-lives.
func (q *Quantiles) Lines() float64 { return q.total / q.weight * q.growth }

// above returns the score that a part of the weights lies above.
func (q *Quantiles) above(part float64) float64 {
	left, i := part*q.total, q.top
	for ; i > 0; i-- {
		if left -= q.bins[i]; left < 0 {
			break
		}
	}
	return math.Sinh(float64(i-lastBin) * binWidth)
}

// Threshold returns the score that a part r of the lines exceeds, +Inf while there are fewer than 100 lines. Where
// fewer than 10 of the lines that are remembered would lie above it, the tail is taken to be exponential, and drawn
// through two quantiles of the counts, those that 0.1 and p = 10/Lines of the lines exceed:
//
//	z(r) = z(p) + (z(p) - z(0.1))/ln(0.1/p) · ln(p/r),
//
// which is the threshold of SPOT (Siffer et al., KDD 2017, doi 10.1145/3097983.3098144, equation 1) for γ = 0, with the
// scale by two quantiles in place of the mean excess: a fault that is far out moves it no more than one that is near.
func (q *Quantiles) Threshold(r float64) float64 {
	p := leastLines / q.Lines()
	if !(p < bodyTail) {
		return math.Inf(1)
	}
	if r >= p {
		return upperEnd(q.above(r))
	}
	near, far := q.above(bodyTail), q.above(p)
	return upperEnd(far + (far-near)/math.Log(bodyTail/p)*math.Log(p/r))
}

// upperEnd returns the end of the bin of a score: no score of the same bin is above it.
func upperEnd(x float64) float64 { return math.Sinh(math.Asinh(x) + binWidth/2) }

// savedQuantiles is the form of Quantiles in files.
type savedQuantiles struct {
	HalfLife int       `json:"half_life"`
	Weight   float64   `json:"weight"` // of the next score
	Total    float64   `json:"total"`
	Bins     []int     `json:"bins"` // those that have a weight
	Weights  []float64 `json:"weights"`
}

// MarshalJSON writes the quantiles so that UnmarshalJSON reads the same bits.
func (q *Quantiles) MarshalJSON() ([]byte, error) {
	s := savedQuantiles{HalfLife: q.halfLife, Weight: q.weight, Total: q.total}
	for i, w := range q.bins {
		if w > 0 {
			s.Bins, s.Weights = append(s.Bins, i-lastBin), append(s.Weights, w)
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (q *Quantiles) UnmarshalJSON(text []byte) error {
	var s savedQuantiles
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	const most = heaviest * 1e12
	switch {
	case s.HalfLife < 1:
		return fmt.Errorf("half_life: found %d, want 1 or more", s.HalfLife)
	case len(s.Weights) != len(s.Bins):
		return fmt.Errorf("weights: found %d for %d bins, want as many", len(s.Weights), len(s.Bins))
	case !(s.Weight > 0 && s.Weight <= heaviest):
		return fmt.Errorf("weight: found %g, want a number above 0, at most %g", s.Weight, heaviest)
	case !(s.Total >= 0 && s.Total <= most):
		return fmt.Errorf("total: found %g, want a number from 0 to %g", s.Total, most)
	}
	read := NewQuantiles(s.HalfLife)
	read.weight, read.total = s.Weight, s.Total
	for i, b := range s.Bins {
		w := s.Weights[i]
		if b < -lastBin || b > lastBin || !(w >= 0 && w <= most) {
			return fmt.Errorf("bins: found weight %g in bin %d, want a number from 0 to %g, in bins from %d to %d", w,
				b, most, -lastBin, lastBin)
		}
		read.bins[lastBin+b] = w
		read.top = max(read.top, lastBin+b)
	}
	*q = *read
	return nil
}

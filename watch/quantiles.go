package watch

import (
	"encoding/json"
	"fmt"
	"math"
)

// Scores are counted in bins whose width is about 2 % of the score, or 0.02 bits near 0.
const (
	binWidth = 0.02 // of asinh(score)
	lastBin  = 1500 // bin of a score of 5e12 bits; higher scores are counted in it, too
	// leastLines is the minimum number of lines above a quantile that is taken from the counts.
	leastLines = 10
	bodyTail   = 0.1 // fraction of the lines above the first of the two quantiles that define the tail
	heaviest   = 1e100
)

// Quantiles estimates the quantiles of a stream of scores. Recent scores have more weight: with a half-life of h lines,
// a score that is h lines old counts half as much as the last one. A score x is counted in bin
//
//	b = round(asinh(x)/0.02),
//
// which bounds its relative error by 1 %, as in DDSketch (Masson et al., arXiv:1908.10693, §2.1), but for scores of
// both signs. The bins take 24 KB, however many lines there are. A score counts once however large it is, so no single
// line moves a quantile much.
type Quantiles struct {
	halfLife int
	growth   float64 // factor of the weight from line to line
	weight   float64 // of the next score
	total    float64 // of all
	top      int     // index of the highest bin with a weight
	bins     []float64
}

// NewQuantiles returns quantiles without scores.
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

// Add counts a score. It ignores scores that are not finite.
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

// Lines returns the effective number of lines: the sum of the weights, scaled so that the last line has weight 1. It is
// at most 1.44 half-lives.
func (q *Quantiles) Lines() float64 { return q.total / q.weight * q.growth }

// above returns the score that the given fraction of the weights exceeds.
func (q *Quantiles) above(part float64) float64 {
	left, i := part*q.total, q.top
	for ; i > 0; i-- {
		if left -= q.bins[i]; left < 0 {
			break
		}
	}
	return math.Sinh(float64(i-lastBin) * binWidth)
}

// Threshold returns the score that a fraction r of the lines exceeds, or +Inf while Lines is at most 100. If fewer than
// 10 lines would exceed the threshold, the tail is assumed to be exponential. It is extrapolated from two quantiles of
// the counts, those that the fractions 0.1 and p = 10/Lines of the lines exceed:
//
//	z(r) = z(p) + (z(p) - z(0.1))/ln(0.1/p) · ln(p/r),
//
// which is the threshold of SPOT (Siffer et al., KDD 2017, doi 10.1145/3097983.3098144, equation 1) for γ = 0, except
// that two quantiles and not the mean excess determine the scale. So an extreme outlier moves it no more than a mild
// one.
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

// upperEnd returns the upper end of the bin of a score, so that no score of the same bin exceeds it.
func upperEnd(x float64) float64 { return math.Sinh(math.Asinh(x) + binWidth/2) }

// savedQuantiles is the JSON form of Quantiles.
type savedQuantiles struct {
	HalfLife int       `json:"half_life"`
	Weight   float64   `json:"weight"` // of the next score
	Total    float64   `json:"total"`
	Bins     []int     `json:"bins"` // bins with a weight
	Weights  []float64 `json:"weights"`
}

// MarshalJSON encodes the quantiles so that UnmarshalJSON restores the same bits.
func (q *Quantiles) MarshalJSON() ([]byte, error) {
	s := savedQuantiles{HalfLife: q.halfLife, Weight: q.weight, Total: q.total}
	for i, w := range q.bins {
		if w > 0 {
			s.Bins, s.Weights = append(s.Bins, i-lastBin), append(s.Weights, w)
		}
	}
	return json.Marshal(s)
}

// UnmarshalJSON decodes the output of MarshalJSON.
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

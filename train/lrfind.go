package train

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// The learning rates that FindLR tries, where it stops, and how it smooths.
const (
	leastLR, mostLR = 1e-6, 1.
	lrSmoothing     = 0.9
	lrExplodes      = 2.   // stops above this multiple of the least loss
	lrBelow         = 1e-1 // suggested rate, times the rate of the least loss
)

// LRPoint is the training loss at one learning rate of FindLR.
type LRPoint struct {
	LR       float64 `json:"lr"`
	Loss     float64 `json:"loss"`     // of one update
	Smoothed float64 `json:"smoothed"` // exponential moving average
}

// LRRange is the result of FindLR.
type LRRange struct {
	Points []LRPoint `json:"points"`
	Best   LRPoint   `json:"best"` // the point with the least smoothed loss
	// Suggested is a tenth of the rate of the least loss, or 0 if the loss did not fall.
	Suggested float64 `json:"suggested_lr"`
	Exploded  bool    `json:"exploded"` // the loss rose far or was not finite before the largest rate
}

// FindLR runs the learning-rate range test (Smith, arXiv:1506.01186, §3.3): it makes n updates of w by plan p while the
// learning rate grows by a constant factor from 1e-6 to 1. It stops when the smoothed loss is twice the least. It calls
// told after each update. It writes no files.
func FindLR(ctx context.Context, n int, p Plan, w Work, told func(LRPoint)) (*LRRange, error) {
	if n < 10 {
		return nil, fmt.Errorf("learning-rate range test: found %d updates, want at least 10", n)
	}
	if p.Optim.SSMLR > 0 {
		p.Optim.SSMLR *= mostLR / p.Optim.LR
	}
	rate := func(step int) float64 { return math.Pow(leastLR/mostLR, 1-float64(step)/float64(n-1)) }
	p.Optim.LR, p.Steps, p.Time, p.Rate, p.Islands = mostLR, n, 0, rate, Islands{}
	loop, err := New(p, w)
	if err != nil {
		return nil, err
	}
	r, mean := &LRRange{}, 0.
	for step := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		loss, _, err := loop.Step()
		var broke *NonFiniteError
		if errors.As(err, &broke) {
			r.Exploded = true
			break
		}
		if err != nil {
			return nil, err
		}
		mean = lrSmoothing*mean + (1-lrSmoothing)*loss
		p := LRPoint{mostLR * rate(step), loss, mean / (1 - math.Pow(lrSmoothing, float64(step+1)))}
		if r.Points = append(r.Points, p); told != nil {
			told(p)
		}
		if step == 0 || p.Smoothed < r.Best.Smoothed {
			r.Best = p
		}
		if p.Smoothed > lrExplodes*r.Best.Smoothed {
			r.Exploded = true
			break
		}
	}
	if len(r.Points) > 0 && r.Best.Smoothed < r.Points[0].Smoothed {
		r.Suggested = lrBelow * r.Best.LR
	}
	return r, nil
}

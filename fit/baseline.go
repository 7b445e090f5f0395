package fit

import (
	"context"
	"fmt"
	"math"
)

// fixed is embedded in rivals that have nothing to fit.
type fixed struct{}

func (fixed) fit(context.Context, *frame, *windows, *windows) (bool, error) { return true, nil }
func (fixed) check(*Plan) error                                             { return nil }
func (fixed) memory(p *Plan) int                                            { return p.Lookback }
func (fixed) guess(*encoder, []float32, int, []float64)                     {}

// mean predicts the mean of the training set, which is 0 on the network's scale.
type mean struct{ fixed }

func (mean) title(*Plan) string { return "mean of the training part" }

// lastValue repeats the last value. For the next row, this is 0 on the network's scale.
type lastValue struct{ fixed }

func (lastValue) title(*Plan) string { return "last value repeated" }

func (lastValue) guess(e *encoder, rows []float32, n int, dst []float64) {
	if e.p.Task == Forecast {
		e.p.repeat(e, rows, n, 1, dst)
	}
}

// lastSeason is the seasonal-naive forecast: the same row of the last season.
type lastSeason struct{ fixed }

func (lastSeason) title(p *Plan) string { return "seasonal-naive (" + rowsText(p.Season) + ")" }

func (lastSeason) fit(_ context.Context, f *frame, _, _ *windows) (bool, error) {
	return f.plan.Season > 1 && f.plan.Season <= f.plan.Lookback, nil
}

func (lastSeason) check(p *Plan) error {
	if p.Season < 1 || p.Season > p.Lookback {
		return fmt.Errorf("found a season of %d rows, want 1 to %d", p.Season, p.Lookback)
	}
	return nil
}

func (lastSeason) guess(e *encoder, rows []float32, n int, dst []float64) {
	e.p.repeat(e, rows, n, e.p.Season, dst)
}

// repeat forecasts the same row of the last season. If the season is 1, this is the last value.
func (p *Plan) repeat(e *encoder, rows []float32, n, season int, dst []float64) {
	targets := p.targets()
	for k, i := range targets {
		seen := p.seen(rows, n, i)
		for h := range n {
			dst[h*len(targets)+k] = e.target(i, seen[len(seen)-season+h%season], e.ahead[k][h])
		}
	}
}

// seen returns the numbers of column i in the rows before the last n. A missing number is replaced by the previous one,
// or by the mean.
func (p *Plan) seen(rows []float32, n, i int) []float64 {
	width := p.width()
	x, last := make([]float64, len(rows)/width-n), p.Columns[i].Mean
	for r := range x {
		if y := float64(rows[r*width+i]); y == y {
			last = y
		}
		x[r] = last
	}
	return x
}

// seen returns the numbers of each target that a forecast sees.
func (f *frame) seen(at window) (all [][]float64) {
	for _, i := range f.plan.targets() {
		all = append(all, f.plan.seen(f.rows.rows(at.lo, at.hi), f.plan.Horizon, i))
	}
	return all
}

// majority predicts the frequencies of the classes in the training set.
type majority struct {
	fixed
	Logits []float64 `json:"logits"`
}

func (*majority) title(*Plan) string { return "frequency of the classes" }

func (b *majority) fit(_ context.Context, f *frame, train, _ *windows) (bool, error) {
	b.Logits = nil
	for _, n := range f.counts(train) {
		b.Logits = append(b.Logits, math.Log(float64(n)+0.5))
	}
	return true, nil
}

func (b *majority) check(p *Plan) error {
	if names, _ := p.classes(); len(b.Logits) != len(names) {
		return fmt.Errorf("found the frequencies of %d classes, want %d", len(b.Logits), len(names))
	}
	return nil
}

func (b *majority) guess(_ *encoder, _ []float32, _ int, dst []float64) {
	for i := range dst {
		dst[i] = b.Logits[i%len(b.Logits)]
	}
}

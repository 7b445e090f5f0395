package fit

import (
	"context"
	"slices"

	"github.com/hippo-ssm/hippo/task"
)

// guesser is a baseline forecast. It sees of a window what the network sees.
type guesser struct {
	name string
	// guess fills dst (asked rows, targets) with numbers as they are kept.
	guess func(at window, dst []float64)
	// errors are those of the validation part, sorted: of each target and step. The quantiles of a guess are those of
	// its errors.
	errors [][][]float64
}

// baselines returns the simple forecasts that a network is compared with.
func (f *frame) baselines(train, valid *windows) []*guesser {
	p := f.plan
	switch p.Task {
	case Forecast:
		all := []*guesser{{name: "last value repeated", guess: f.repeat(1)}}
		if p.Season > 1 && p.Season <= p.Lookback {
			all = append(all, &guesser{name: "seasonal-naive (" + rowsText(p.Season) + ")", guess: f.repeat(p.Season)})
		}
		if l := f.fitLinear(train, valid); l != nil {
			all = append(all, &guesser{name: "linear (NLinear, least squares)", guess: f.guessLinear(l)})
		}
		return all
	case Next, Anomaly:
		return []*guesser{{name: "last value repeated", guess: f.persist}}
	case Fill, Steps, Regress:
		return []*guesser{{name: "mean of the training part", guess: f.means}}
	}
	return nil
}

// means guesses the mean of the training part.
func (f *frame) means(_ window, dst []float64) {
	targets := f.plan.targets()
	for j := range dst {
		dst[j] = f.plan.Columns[targets[j%len(targets)]].Mean
	}
}

// persist guesses for each row that the next one is the same.
func (f *frame) persist(at window, dst []float64) {
	targets := f.plan.targets()
	for k, i := range targets {
		last := f.plan.Columns[i].Mean
		for r := range len(dst) / len(targets) {
			if x := float64(f.rows.row(at.lo + r)[i]); x == x {
				last = x
			}
			dst[r*len(targets)+k] = last
		}
	}
}

// repeat is the seasonal-naive forecast: the same row of the last season. For a season of 1 it is the last value.
func (f *frame) repeat(season int) func(at window, dst []float64) {
	return func(at window, dst []float64) {
		p := f.plan
		targets := p.targets()
		seen := f.seen(at)
		for k := range targets {
			for h := range p.Horizon {
				dst[h*len(targets)+k] = seen[k][p.Lookback-season+h%season]
			}
		}
	}
}

// seen are the numbers of each target that a forecast sees. One that is missing is that before it, or the mean.
func (f *frame) seen(at window) [][]float64 {
	p := f.plan
	var all [][]float64
	for _, i := range p.targets() {
		x, last := make([]float64, p.Lookback), p.Columns[i].Mean
		for r := range x {
			if y := float64(f.rows.row(at.lo + r)[i]); y == y {
				last = y
			}
			x[r] = last
		}
		all = append(all, x)
	}
	return all
}

// fit finds the quantiles of the errors of a guesser on the validation part.
func (g *guesser) fit(ctx context.Context, f *frame, valid *windows) error {
	p := f.plan
	targets, steps := p.targets(), max(1, p.Horizon)
	g.errors = make([][][]float64, len(targets))
	for k := range g.errors {
		g.errors[k] = make([][]float64, steps)
	}
	e, err := newEncoder(p)
	if err != nil {
		return err
	}
	var dst []float64
	for _, index := range some(valid.Len(), calibrationWindows) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var ex task.Example
		valid.Example(index, &ex)
		at := valid.at(index)
		dst = append(dst[:0], make([]float64, len(ex.Numbers))...)
		g.guess(at, dst)
		f.truths(e, at, &ex, func(r, k int, truth, _ float64) {
			to := &g.errors[k][min(r, steps-1)]
			off := truth - f.plan.Columns[targets[k]].Base - dst[r*len(targets)+k]
			*to = append(*to, off/e.unit(targets[k]))
		})
	}
	for k := range g.errors {
		for step := range g.errors[k] {
			slices.Sort(g.errors[k][step])
		}
	}
	return nil
}

// quantiles are those of a guess: x, as it is kept, and the quantiles of errors like its own, which are measured by
// unit.
func (g *guesser) quantiles(p *Plan, x, unit float64, k, step int) []float64 {
	off := g.errors[k][min(step, len(g.errors[k])-1)]
	q := make([]float64, len(p.Levels))
	base := p.Columns[p.targets()[k]].Base
	for j, level := range p.Levels {
		q[j] = x + base
		if len(off) > 0 && j != p.middle() { // the guess itself is its median
			q[j] += unit * off[min(len(off)-1, int(level*float64(len(off))))]
		}
	}
	slices.Sort(q)
	return q
}

// truths calls visit with every number that is asked in a window, in the units of the data, and what was known when it
// was asked: see encoder.back.
func (f *frame) truths(e *encoder, at window, ex *task.Example, visit func(r, k int, truth, now float64)) {
	p := f.plan
	targets := p.targets()
	if p.Task == Forecast {
		e.from(f.rows.rows(at.lo, at.hi-p.Horizon))
	}
	now := make([]float64, len(targets))
	for k, i := range targets {
		now[k] = p.Columns[i].Mean
	}
	for r := range len(ex.Numbers) / len(targets) {
		for k, i := range targets {
			if p.Task == Forecast {
				now[k] = e.ahead[k][r]
			}
			if p.predictsNext() {
				if x := float64(f.rows.row(at.lo + r)[i]); x == x {
					now[k] = x
				}
			}
			if y := float64(ex.Numbers[r*len(targets)+k]); y == y {
				visit(r, k, e.back(i, y, now[k]), now[k])
			}
		}
	}
}

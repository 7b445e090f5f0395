package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/task"
)

// Limits of calibration: the number of windows of the validation part, and how many numbers a step of a forecast needs
// to have its own interval.
const (
	calibrationWindows = 3000
	leastForStep       = 100
)

// Kinds of intervals.
const (
	recentIntervals = "recent" // calibrated on the validation part and, for forecasts, on the most recent forecasts
	learntIntervals = "learnt" // the learnt quantiles, not calibrated
)

// doubt weighs calibration against the learnt quantiles: with this many windows without common rows, both have equal
// weight.
const doubt = 2

// Calibration reports how often the intervals of a target, between the outermost levels, contain the truth: in percent,
// which should be Nominal.
type Calibration struct {
	Target  string  `json:"target"`
	Nominal float64 `json:"nominal"`
	Windows int     `json:"windows"` // number of windows of the validation part
	// Apart is the number of these windows that predict no row in common. For tasks that predict each row, it is the
	// number of rows.
	Apart int `json:"apart"`
	// Learnt and Calibrated are measured on the validation part, on which intervals are calibrated. Checked is measured
	// there, too, with each half calibrated on the other. It is -1 if the part is too short.
	Learnt     float64 `json:"learnt"`
	Calibrated float64 `json:"calibrated"`
	Checked    float64 `json:"checked"`
	// TestLearnt and TestCalibrated are measured on the test part, where recent forecasts are used for calibration,
	// too.
	TestLearnt     float64 `json:"test_learnt"`
	TestCalibrated float64 `json:"test_calibrated"`
}

// Sentence returns the calibration as a sentence.
func (c *Calibration) Sentence() string {
	checked := ""
	if c.Checked >= 0 {
		checked = fmt.Sprintf(" (%.1f %% where one half is calibrated by the other)", c.Checked)
	}
	return fmt.Sprintf("the %.0f %% interval of %s holds %.1f %% of the validation part as learnt "+
		"and %.1f %% calibrated%s, of the test part %.1f and %.1f %%", c.Nominal, c.Target, c.Learnt, c.Calibrated,
		checked, c.TestLearnt, c.TestCalibrated)
}

// calibrate computes by how much intervals must be widened (or narrowed, if negative) to have their nominal coverage on
// the validation part, by conformalized quantile regression (Romano, Patterson and Candès, arXiv:1905.03222, eq. 6 to
// 8). For a pair of levels τ and 1-τ with the quantiles lo and hi and n truths y, E is the ⌈(1-2τ)(n+1)⌉-th smallest of
// max(lo - y, y - hi), and the interval becomes
//
//	[min(lo - E a/(a+2), median), max(hi + E a/(a+2), median)]
//
// a is the number of windows that predict no row in common: the theorem assumes exchangeable truths, of which
// overlapping forecasts have few. If the rank is above n because n is small, E is 0: the intervals stay as learnt.
func (m *Model) calibrate(ctx context.Context, valid *windows) (all []Calibration, err error) {
	p := m.plan
	p.Widen = nil
	targets, pairs := len(p.targets()), p.pairs()
	if pairs == 0 {
		return nil, nil
	}
	var off [parts]scores // for the earlier half, the later half, and what is between them
	for i := range off {
		off[i] = newScores(p)
	}
	indices := some(valid.Len(), calibrationWindows)
	at := 0
	err = m.outputs(ctx, valid, indices, func(_ window, ex *task.Example, y []float32) error {
		to := off[valid.half(indices[at])]
		at++
		width := m.net.Config.Outputs
		for r := range len(ex.Numbers) / targets {
			for k := range targets {
				truth := float64(ex.Numbers[r*targets+k])
				if truth != truth {
					continue
				}
				q := p.ordered(y[r*width:(r+1)*width], k)
				for pair := range pairs {
					x := &to[k*pairs+pair][min(r, len(to[0])-1)]
					*x = append(*x, outside(q, pair, truth))
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	apart := valid.apart()
	whole := join(off[:]...)
	widen := whole.widths(p, apart)
	halves := [2][][][]float64{off[0].widths(p, apart/2), off[1].widths(p, apart/2)}
	for k, i := range p.targets() {
		c := Calibration{Target: p.Columns[i].Name, Nominal: 100 * p.inside(0), Windows: valid.Len(), Apart: apart,
			Learnt: whole.coverage(k*pairs, nil), Calibrated: whole.coverage(k*pairs, widen[k][0]), Checked: -1}
		early, late := off[0].count(k*pairs), off[1].count(k*pairs)
		if early > 0 && late > 0 {
			first, second := off[0].coverage(k*pairs, halves[1][k][0]), off[1].coverage(k*pairs, halves[0][k][0])
			c.Checked = (first*early + second*late) / (early + late)
		}
		all = append(all, c)
	}
	p.Widen = widen
	return all, nil
}

// pairs returns the number of pairs of levels, one below the median and one above it.
func (p *Plan) pairs() int { return min(p.middle(), len(p.Levels)-1-p.middle()) }

// inside returns the share of truths that should be between a pair of levels.
func (p *Plan) inside(pair int) float64 { return p.Levels[len(p.Levels)-1-pair] - p.Levels[pair] }

// outside returns the distance of a truth from the interval between a pair of quantiles q, negative if it is inside.
func outside(q []float64, pair int, truth float64) float64 {
	return max(q[pair]-truth, truth-q[len(q)-1-pair])
}

// scores holds the distances of truths from an interval, negative inside it: by target and pair, and by step.
type scores [][][]float64

func newScores(p *Plan) scores {
	s := make(scores, len(p.targets())*p.pairs())
	for i := range s {
		s[i] = make([][]float64, max(1, p.Horizon))
	}
	return s
}

// join returns the concatenation of several scores.
func join(all ...scores) scores {
	s := make(scores, len(all[0]))
	for i := range s {
		s[i] = make([][]float64, len(all[0][i]))
		for _, one := range all {
			for step, x := range one[i] {
				s[i][step] = append(s[i][step], x...)
			}
		}
	}
	return s
}

// count returns the number of scores of a target and pair.
func (s scores) count(i int) (n float64) {
	for _, x := range s[i] {
		n += float64(len(x))
	}
	return n
}

// coverage returns the percentage of truths inside intervals that are widened by step, or equally in all steps.
func (s scores) coverage(i int, widen []float64) float64 {
	in := 0.0
	for step, x := range s[i] {
		by := 0.0
		if len(widen) > 0 {
			by = widen[min(step, len(widen)-1)]
		}
		for _, off := range x {
			if off <= by {
				in++
			}
		}
	}
	return 100 * in / max(1, s.count(i))
}

// widths returns the widths of each target and pair, by step or one for all steps: see Plan.Widen.
func (s scores) widths(p *Plan, apart int) [][][]float64 {
	all := make([][][]float64, len(p.targets()))
	trust := float64(apart) / float64(apart+doubt)
	for k := range all {
		all[k] = make([][]float64, len(p.Levels)/2)
		for pair := range all[k] {
			all[k][pair] = []float64{0}
			if pair < p.pairs() {
				all[k][pair] = widths(s[k*p.pairs()+pair], p.inside(pair), trust)
			}
		}
	}
	return all
}

// widths returns the conformal widths for a share of truths inside, times trust: one for each step, or one for all if
// steps have few truths.
func widths(off [][]float64, inside, trust float64) (w []float64) {
	least := math.MaxInt
	for _, x := range off {
		least = min(least, len(x))
	}
	if least < leastForStep {
		off = [][]float64{slices.Concat(off...)}
	}
	for _, x := range off {
		by := 0.0
		if rank(len(x), inside) <= len(x) {
			by = trust * conformal(x, inside)
		}
		w = append(w, by)
	}
	return w
}

// rank returns ⌈inside·(n+1)⌉, at least 1.
func rank(n int, inside float64) int { return max(1, int(math.Ceil(inside*float64(n+1)-1e-9))) }

// conformal returns the ⌈inside·(n+1)⌉-th smallest of n numbers, the largest if there are too few, 0 if there are none.
func conformal(x []float64, inside float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[min(rank(len(x), inside), len(x))-1]
}

// half returns the half of its part to which a window belongs: 0 or 1, or 2 for a window between the halves, so that
// the halves predict no row in common.
func (w *windows) half(i int) int {
	k := w.segment(i)
	n := w.ends[k]
	if k > 0 {
		i, n = i-w.ends[k-1], n-w.ends[k-1]
	}
	if n == 1 {
		return k % 2
	}
	between := max(0, (w.f.plan.Horizon-1)/w.stride)
	switch each := (n - between) / 2; {
	case i < each:
		return 0
	case i >= n-each:
		return 1
	}
	return 2
}

// apart returns the number of windows that predict no row in common or, for tasks that predict each row, the number of
// rows.
func (w *windows) apart() (n int) {
	p := w.f.plan
	if p.whole() {
		return w.Len()
	}
	for _, s := range w.parts {
		n += (s.hi - s.lo) / max(1, p.Horizon)
	}
	return n
}

// few returns a note if there is little data for calibration, else "".
func (c *Calibration) few(p *Plan) string {
	switch {
	case rank(c.Apart, p.inside(0)) <= c.Apart:
		return ""
	case p.Task != Forecast || rank(c.Windows, p.inside(0)) > c.Windows:
		return fmt.Sprintf("the intervals of %s stay as learnt: found %d windows in the validation part, "+
			"want more to calibrate by", c.Target, c.Windows)
	}
	return fmt.Sprintf("the intervals of %s are calibrated by %d windows of the validation part, "+
		"of which %d share no row: they may hold more or less than they promise (a larger validation part, --split, "+
		"or a shorter --horizon)", c.Target, c.Windows, c.Apart)
}

package fit

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/task"
)

// The number of recent rows whose forecasts calibrate intervals, the number of these forecasts, and the number of
// groups of a horizon's steps: docs/evidence.md, "The intervals".
const (
	recentRows      = 720
	recentForecasts = 96
	recentGroups    = 6
	leastRecent     = 40 // minimum of numbers that calibrate a group
)

// recent holds the latest forecasts of a series and their errors. Intervals are calibrated on those whose horizon has
// passed. The last days predict the next ones better than a whole year does, and a theorem about exchangeable truths
// has little to say about a series that changes (Barber, Candès, Ramdas and Tibshirani, "Conformal prediction beyond
// exchangeability", arXiv:2202.13415).
type recent struct {
	p    *Plan
	at   []int       // first rows of the forecasts, from 0, ascending
	off  [][]float64 // for each forecast, by target and pair, then step: see scores
	last [2]int      // range of the forecasts that wide is computed from
	wide [][][]float64
}

// every returns the number of rows from one of these forecasts to the next.
func (p *Plan) every() int { return max(1, (p.Recent+recentForecasts-1)/recentForecasts) }

// groups returns the number of groups of steps, and group that of a step.
func (p *Plan) groups() int       { return min(recentGroups, p.Horizon) }
func (p *Plan) group(h int) int   { return h * p.groups() / p.Horizon }
func (p *Plan) history() int      { return p.Recent + p.Horizon }
func (p *Plan) usesRecent() bool  { return p.Recent > 0 && p.pairs() > 0 }
func (p *Plan) asked(at int) bool { return at%p.every() == 0 }

// widths returns by how much to widen the intervals of a forecast that starts with row now, by target, pair and group
// of steps, in the units of the data. It returns nil if there are too few forecasts, or if r is nil.
func (r *recent) widths(now int) [][][]float64 {
	if r == nil {
		return nil
	}
	lo, _ := slices.BinarySearch(r.at, now-r.p.history()+1)
	hi, _ := slices.BinarySearch(r.at, now-r.p.Horizon+1)
	if lo == hi {
		return nil
	}
	if r.last == [2]int{lo, hi} {
		return r.wide
	}
	r.last, r.wide = [2]int{lo, hi}, nil
	p := r.p
	var all [][][]float64
	for k := range p.targets() {
		var pairs [][]float64
		for pair := range p.pairs() {
			groups := make([][]float64, p.groups())
			for _, off := range r.off[lo:hi] {
				for h, x := range off[(k*p.pairs()+pair)*p.Horizon:][:p.Horizon] {
					if x == x {
						groups[p.group(h)] = append(groups[p.group(h)], x)
					}
				}
			}
			wide := make([]float64, len(groups))
			for g, x := range groups {
				if len(x) < leastRecent {
					return nil
				}
				wide[g] = conformal(x, p.inside(pair))
			}
			pairs = append(pairs, wide)
		}
		all = append(all, pairs)
	}
	r.wide = all
	return all
}

// newOff returns the scores of a forecast whose truths are not known yet.
func (p *Plan) newOff() []float64 {
	return slices.Repeat([]float64{math.NaN()}, len(p.targets())*p.pairs()*p.Horizon)
}

// score sets the scores for a truth of target k at step h, from its learnt quantiles.
func (p *Plan) score(off []float64, k, h int, truth float64, q []float64) {
	for pair := range p.pairs() {
		off[(k*p.pairs()+pair)*p.Horizon+h] = outside(q, pair, truth)
	}
}

// add adds the scores of a forecast that starts with row at. Forecasts must be added in order.
func (r *recent) add(at int, off []float64) { r.at, r.off = append(r.at, at), append(r.off, off) }

// drop removes forecasts that are not needed for forecasts from row now on.
func (r *recent) drop(now int) {
	n, _ := slices.BinarySearch(r.at, now-r.p.history()+1)
	if n > recentForecasts {
		r.at, r.off, r.last = slices.Delete(r.at, 0, n), slices.Delete(r.off, 0, n), [2]int{}
	}
}

// calibrated returns the quantiles of a number of target k at a step of a forecast, widened by the latest forecasts or,
// if wide is nil, by the calibration on the validation part. After a final fit on all rows, the wider of the two is
// used. See quantiles.
func (m *Model) calibrated(e *encoder, y []float32, k, step int, now float64, wide [][][]float64) []float64 {
	if wide == nil {
		return m.quantiles(e, y, k, step, now)
	}
	q := m.learnt(e, y, k, now)
	least := q
	if m.plan.Final {
		least = m.quantiles(e, y, k, step, now)
	}
	for pair, groups := range wide[k] {
		m.plan.widen(q, pair, groups[m.plan.group(step)])
	}
	slices.Sort(q) // the median stays in the middle
	for j := range q {
		if m.plan.Final && j < m.plan.middle() {
			q[j] = min(q[j], least[j])
		} else if m.plan.Final {
			q[j] = max(q[j], least[j])
		}
	}
	return q
}

// widen widens a pair of quantiles. If add is negative, it narrows them, at most to the median.
func (p *Plan) widen(q []float64, pair int, add float64) {
	median, high := q[p.middle()], len(q)-1-pair
	if pair < p.middle() && high > p.middle() {
		q[pair], q[high] = min(median, q[pair]-add), max(median, q[high]+add)
	}
}

// origin returns the first row that a window's forecast predicts, counted from 0 in its sequence.
func (f *frame) origin(at window) int { return at.lo + f.plan.Lookback - f.seqs[at.seq].lo }

// backTests returns the forecasts of each sequence, made at some rows of some parts, with their errors.
func (m *Model) backTests(ctx context.Context, f *frame, sets ...*windows) (map[int]*recent, error) {
	p := m.plan
	if !p.usesRecent() {
		return nil, nil
	}
	all := map[int]*recent{}
	for _, set := range sets {
		w := f.newWindows(set.parts, set.part, 1, set.seed)
		var indices []int
		for i := range w.Len() {
			if p.asked(f.origin(w.at(i))) {
				indices = append(indices, i)
			}
		}
		width := m.net.Config.Outputs
		err := m.outputs(ctx, w, indices, func(at window, ex *task.Example, y []float32) error {
			if all[at.seq] == nil {
				all[at.seq] = &recent{p: p}
			}
			off := p.newOff()
			f.truths(m.enc, at, ex, func(h, k int, truth, now float64) {
				p.score(off, k, h, truth, m.learnt(m.enc, y[h*width:(h+1)*width], k, now))
			})
			all[at.seq].add(f.origin(at), off)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

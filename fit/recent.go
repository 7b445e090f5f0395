package fit

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/task"
)

// The rows whose forecasts calibrate intervals, how many of these forecasts are made, and into how many groups the
// steps of a horizon fall: docs/evidence.md, "The intervals".
const (
	recentRows      = 720
	recentForecasts = 96
	recentGroups    = 6
	leastRecent     = 40 // numbers that calibrate a group
)

// recent holds the latest forecasts of a series and their errors: intervals are calibrated on those whose horizon has
// passed. The last days predict the next ones better than a whole year does, and a theorem about exchangeable truths
// says little about a series that changes (Barber, Candès, Ramdas and Tibshirani, "Conformal prediction beyond
// exchangeability", arXiv:2202.13415).
type recent struct {
	p    *Plan
	at   []int       // the rows that forecasts begin with, from 0, in increasing order
	off  [][]float64 // of each forecast, by target and pair, then step: see scores
	last [2]int      // the forecasts that widths are of
	wide [][][]float64
}

// every is how many rows are from one of these forecasts to the next.
func (p *Plan) every() int { return max(1, (p.Recent+recentForecasts-1)/recentForecasts) }

// groups is how many groups of steps there are, and group that of a step.
func (p *Plan) groups() int       { return min(recentGroups, p.Horizon) }
func (p *Plan) group(h int) int   { return h * p.groups() / p.Horizon }
func (p *Plan) history() int      { return p.Recent + p.Horizon }
func (p *Plan) usesRecent() bool  { return p.Recent > 0 && p.pairs() > 0 }
func (p *Plan) asked(at int) bool { return at%p.every() == 0 }

// widths are by how much the intervals of a forecast that begins with row now are widened, by target, pair and group of
// steps, in the units of the data; nil if there are too few forecasts to tell, or r is nil.
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

// newOff returns the scores of a forecast, of truths that are not known yet.
func (p *Plan) newOff() []float64 {
	return slices.Repeat([]float64{math.NaN()}, len(p.targets())*p.pairs()*p.Horizon)
}

// score sets the scores of a truth of target k by its quantiles as learnt, at step h.
func (p *Plan) score(off []float64, k, h int, truth float64, q []float64) {
	for pair := range p.pairs() {
		off[(k*p.pairs()+pair)*p.Horizon+h] = outside(q, pair, truth)
	}
}

// add takes the scores of a forecast that begins with row at, after all others.
func (r *recent) add(at int, off []float64) { r.at, r.off = append(r.at, at), append(r.off, off) }

// drop removes forecasts that no forecast from row now on needs.
func (r *recent) drop(now int) {
	n, _ := slices.BinarySearch(r.at, now-r.p.history()+1)
	if n > recentForecasts {
		r.at, r.off, r.last = slices.Delete(r.at, 0, n), slices.Delete(r.off, 0, n), [2]int{}
	}
}

// calibrated are the quantiles of a number of target k at a step of a forecast: widened by the last forecasts, or,
// where wide is nil, as the validation part says; after a final fit on all rows, by whichever is wider. See quantiles.
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

// widen widens a pair of quantiles, up to the median where add is negative.
func (p *Plan) widen(q []float64, pair int, add float64) {
	median, high := q[p.middle()], len(q)-1-pair
	if pair < p.middle() && high > p.middle() {
		q[pair], q[high] = min(median, q[pair]-add), max(median, q[high]+add)
	}
}

// origin is the first row that a window's forecast is of, counted from 0 in its sequence.
func (f *frame) origin(at window) int { return at.lo + f.plan.Lookback - f.seqs[at.seq].lo }

// backTests are the forecasts of each sequence, at some of the rows of some parts, against what came.
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

package fit

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/task"
)

// measureWindows is the maximum number of windows of the test part that are measured.
const measureWindows = 20_000

// numbers measures predicted numbers on windows. It adds to calibrated the coverage of the learnt intervals.
func (m *Model) numbers(ctx context.Context, f *frame, w *windows, name string, past map[int]*recent,
	calibrated []Calibration) (all []Errors, err error) {
	sums := m.plan.newSums(name)
	err = m.sum(ctx, f, w, some(w.Len(), measureWindows), sums, past)
	for k, s := range sums {
		all = append(all, s.errors())
		if k < len(calibrated) {
			calibrated[k].TestCalibrated, calibrated[k].TestLearnt = all[k].Coverage, 100*s.learnt/max(1, s.all.n)
		}
	}
	return all, err
}

// newSums returns empty sums of the errors of each target.
func (p *Plan) newSums(name string) (sums []*errorSum) {
	for k := range p.targets() {
		sums = append(sums, p.newErrorSum(name, k))
	}
	return sums
}

// sum adds the errors on windows to the sums of the targets.
func (m *Model) sum(ctx context.Context, f *frame, w *windows, indices []int, sums []*errorSum,
	past map[int]*recent) error {
	return m.outputs(ctx, w, indices, func(at window, ex *task.Example, y []float32) error {
		width := m.net.Config.Outputs
		wide := past[at.seq].widths(f.origin(at))
		f.truths(m.enc, at, ex, func(r, k int, truth, now float64) {
			out := y[r*width : (r+1)*width]
			sums[k].add(r, truth, m.calibrated(m.enc, out, k, r, now, wide))
			if q := m.learnt(m.enc, out, k, now); q[0] <= truth && truth <= q[len(q)-1] {
				sums[k].learnt++
			}
		})
		return nil
	})
}

// truths calls visit with every number to be predicted in a window, in the units of the data, and with what was known
// at that time: see encoder.back.
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

// mostWrong is the maximum number of wrong examples that are reported.
const mostWrong = 10

// classes measures a classifier. counts are the class counts of the training part.
func (m *Model) classes(ctx context.Context, f *frame, w *windows, counts []int) (*ClassScore, error) {
	names, _ := m.plan.classes()
	s := newClassScore(names)
	majority := slices.Index(counts, slices.Max(counts))
	told := 0
	err := m.outputs(ctx, w, some(w.Len(), measureWindows), func(at window, ex *task.Example, y []float32) error {
		for r, truth := range ex.Targets {
			if truth == task.Ignore {
				continue
			}
			p := m.plan.probabilities(y[r*len(names) : (r+1)*len(names)])
			best := predicted(p, m.plan.Weights)
			s.Count++
			s.Confusion[truth][best]++
			s.Loss -= math.Log(max(p[truth], 1e-30))
			if int(truth) == majority {
				told++
			}
			b := &s.Bins[min(calibrationBins-1, int(p[best]*calibrationBins))]
			b.Count++
			b.Probability += p[best]
			if best == int(truth) {
				b.Right++
				continue
			}
			wrong := WrongExample{Name: f.seqs[at.seq].name, Truth: names[truth], Predicted: names[best],
				Probability: p[best]}
			if !m.plan.whole() {
				wrong.Row = at.lo + r - f.seqs[at.seq].lo + 1
			}
			s.Wrong = append(s.Wrong, wrong)
			if len(s.Wrong) > 100*mostWrong {
				s.Wrong = worst(s.Wrong)
			}
		}
		return nil
	})
	s.Wrong = worst(s.Wrong)
	s.Majority = 100 * float64(told) / float64(max(1, s.Count))
	s.finish()
	return s, err
}

// worst returns the most confident of the wrong predictions.
func worst(all []WrongExample) []WrongExample {
	slices.SortStableFunc(all, func(a, b WrongExample) int { return cmp.Compare(b.Probability, a.Probability) })
	return all[:min(len(all), mostWrong)]
}

// counts returns the class counts of windows of the training part.
func (f *frame) counts(w *windows) []int {
	names, _ := f.plan.classes()
	counts := make([]int, len(names))
	var ex task.Example
	for _, i := range some(w.Len(), measureWindows) {
		w.Example(i, &ex)
		for _, y := range ex.Targets {
			if y != task.Ignore {
				counts[y]++
			}
		}
	}
	return counts
}

// softmax returns the probabilities of scores.
func softmax(scores []float32) []float64 {
	p, sum := make([]float64, len(scores)), 0.0
	most := slices.Max(scores)
	for i, x := range scores {
		p[i] = math.Exp(float64(x - most))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// largest returns the index of the largest number.
func largest(x []float64) (best int) {
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// surprise returns how unexpected numbers are: the root mean square over the targets of the distance from the median,
// in units in which the predicted outer quantiles are those of a standard normal distribution. It returns NaN if no
// number is known.
func (p *Plan) surprise(truths []float64, q [][]float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p.Levels[len(p.Levels)-1]-1)
	sum, n := 0.0, 0.0
	for k, y := range truths {
		if y != y {
			continue
		}
		wide := (q[k][len(q[k])-1] - q[k][0]) / 2 / z
		c := &p.Columns[p.targets()[k]]
		d := (y - q[k][p.middle()]) / max(wide, 1e-3*c.Change)
		sum, n = sum+d*d, n+1
	}
	return math.Sqrt(sum / n)
}

// alarm returns the score that the given share of the rows of the validation part exceeds.
func (m *Model) alarm(ctx context.Context, f *frame, valid *windows, share float64) (float64, error) {
	p := m.plan
	targets := len(p.targets())
	var scores []float64
	err := m.outputs(ctx, valid, some(valid.Len(), measureWindows), func(at window, ex *task.Example,
		y []float32) error {
		width := m.net.Config.Outputs
		rows := len(ex.Numbers) / targets
		truths, q := make([]float64, rows*targets), make([][]float64, rows*targets)
		for j := range truths {
			truths[j] = math.NaN()
		}
		f.truths(m.enc, at, ex, func(r, k int, truth, now float64) {
			truths[r*targets+k], q[r*targets+k] = truth, m.quantiles(m.enc, y[r*width:(r+1)*width], k, r, now)
		})
		for r := range rows {
			if s := p.surprise(truths[r*targets:(r+1)*targets], q[r*targets:(r+1)*targets]); s == s {
				scores = append(scores, s)
			}
		}
		return nil
	})
	return conformal(scores, 1-share), err
}

package fit

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/task"
)

// How many windows of the validation part intervals are calibrated by, and how many numbers a step of a forecast needs
// for an interval of its own.
const (
	calibrationWindows = 3000
	leastForStep       = 100
)

// calibrate finds by how much intervals have to be widened, or narrowed where that is negative, so that they hold what
// they promise on the validation part: conformalized quantile regression (Romano, Patterson and Candès,
// arXiv:1905.03222, eq. 6 to 8). Of a pair of levels τ and 1-τ with the quantiles lo and hi and n truths y it is the
// ⌈(1-2τ)(n+1)⌉-th smallest of max(lo - y, y - hi).
func (m *Model) calibrate(ctx context.Context, valid *windows) error {
	p := m.plan
	p.Widen = nil
	targets, pairs := len(p.targets()), len(p.Levels)/2
	steps := max(1, p.Horizon)
	off := make([][][]float64, targets*pairs) // by target and pair, step
	for i := range off {
		off[i] = make([][]float64, steps)
	}
	err := m.outputs(ctx, valid, some(valid.Len(), calibrationWindows), func(_ window, ex *task.Example,
		y []float32) error {
		for r := range len(ex.Numbers) / targets {
			for k := range targets {
				truth := float64(ex.Numbers[r*targets+k])
				if truth != truth {
					continue
				}
				q := make([]float64, len(p.Levels))
				for j := range q {
					q[j] = float64(y[(r*targets+k)*len(q)+j])
				}
				slices.Sort(q)
				for pair := range pairs {
					at := &off[k*pairs+pair][min(r, steps-1)]
					*at = append(*at, max(q[pair]-truth, truth-q[len(q)-1-pair]))
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.Widen = make([][][]float64, targets)
	for k := range targets {
		for pair := range pairs {
			p.Widen[k] = append(p.Widen[k], widths(off[k*pairs+pair], p.Levels[len(p.Levels)-1-pair]-p.Levels[pair]))
		}
	}
	return nil
}

// widths are the conformal widths for a share of truths inside: of each step, or one for all where steps have few
// truths.
func widths(off [][]float64, inside float64) (w []float64) {
	least := math.MaxInt
	for _, x := range off {
		least = min(least, len(x))
	}
	if least < leastForStep {
		off = [][]float64{slices.Concat(off...)}
	}
	for _, x := range off {
		w = append(w, conformal(x, inside))
	}
	return w
}

// conformal is the ⌈inside·(n+1)⌉-th smallest of n numbers, the largest where there are too few, 0 where there are
// none.
func conformal(x []float64, inside float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	rank := int(math.Ceil(inside*float64(len(x)+1) - 1e-9))
	return x[min(max(rank, 1), len(x))-1]
}

package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// banded returns a plan of forecasts with intervals.
func banded(horizon, past int, levels ...float64) *Plan {
	return &Plan{Task: Forecast, Horizon: horizon, Lookback: 1, Recent: past, Levels: levels, Columns: []Column{{
		Column: table.Column{Name: "x", Kind: table.Number}, In: true, Target: true, Deviation: 1, Change: 1}}}
}

// TestRecentWidths checks that the widths at a row are the conformal quantiles of exactly the forecasts whose horizon
// has passed by then.
func TestRecentWidths(t *testing.T) {
	p := banded(12, 200, 0.1, 0.3, 0.5, 0.7, 0.9)
	rng := rand.New(rand.NewPCG(1, 2))
	r := &recent{p: p}
	off := map[int][]float64{}
	for at := 30; at < 1200; at++ {
		if p.asked(at) {
			x := p.newOff()
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			off[at] = x
			r.add(at, x)
		}
	}
	for _, now := range []int{250, 251, 252, 300, 399} {
		got := r.widths(now)
		for pair := range 2 {
			for g := range 6 {
				var all []float64
				for at, x := range off {
					if at+12 <= now && at > now-12-200 {
						all = append(all, x[pair*12+2*g], x[pair*12+2*g+1])
					}
				}
				slices.Sort(all)
				inside := []float64{0.8, 0.4}[pair]
				want := all[int(math.Ceil(inside*float64(len(all)+1)-1e-9))-1]
				if got[0][pair][g] != want {
					t.Errorf("row %d, pair %d, group %d: found %g, want %g", now, pair, g, got[0][pair][g], want)
				}
			}
		}
	}
	if got := r.widths(60); got != nil {
		t.Errorf("of few forecasts: found %v, want none", got)
	}
	r.drop(1200)
	if got := r.at[0]; got < 1200-12-200 || got > 1200-12-200+p.every() {
		t.Errorf("the first that is kept begins with row %d", got)
	}
}

// TestMedianStays checks that intervals that are narrowed by more than their width end at the median, that quantiles
// stay in order, and that levels without a counterpart are unchanged.
func TestMedianStays(t *testing.T) {
	for _, levels := range [][]float64{{0.1, 0.3, 0.5, 0.7, 0.9}, {0.1, 0.5, 0.6, 0.9}, {0.2, 0.3, 0.5}, {0.5, 0.8}} {
		for _, add := range []float64{-5, -0.3, 0, 0.4} {
			p := banded(1, 0, levels...)
			var pairs [][]float64
			for pair := range len(levels) / 2 {
				pairs = append(pairs, []float64{add * float64(pair+1)})
			}
			p.Widen = [][][]float64{pairs}
			e, err := newEncoder(p)
			if err != nil {
				t.Fatal(err)
			}
			e.from([]float32{0})
			m := &Model{plan: p, enc: e}
			y := make([]float32, len(levels))
			for j, level := range levels {
				y[j] = float32(level)
			}
			q := m.quantiles(e, y, 0, 0, 0)
			if !slices.IsSorted(q) || q[p.middle()] != 0.5 {
				t.Errorf("levels %v, widened by %g: found %v, want the median 0.5, and an order", levels, add, q)
			}
			if len(levels) == 3 && q[0] != float64(float32(0.2)) {
				t.Errorf("levels %v: found %v, want all as learnt", levels, q)
			}
		}
	}
}

// TestWidths checks that the width for few truths is 0. For more it is the conformal one times their weight. Steps with
// few truths share one width.
func TestWidths(t *testing.T) {
	all := func(n int) (x []float64) {
		for i := n; i > 0; i-- {
			x = append(x, float64(i))
		}
		return x
	}
	for _, c := range []struct {
		off  [][]float64
		want []float64
	}{
		{[][]float64{all(3)}, []float64{0}},
		{[][]float64{all(4)}, []float64{0.5 * 4}},
		{[][]float64{all(2), all(2)}, []float64{0.5 * 2}},
		{[][]float64{all(99), all(199)}, []float64{0.5 * 141}}, // the 240th of all
		{[][]float64{all(100), all(199)}, []float64{0.5 * 81, 0.5 * 160}},
	} {
		if got := widths(c.off, 0.8, 0.5); !slices.Equal(got, c.want) {
			t.Errorf("found %v, want %v", got, c.want)
		}
	}
}

// TestWidthsOfTargets checks that each target and pair of levels has the width of its own scores, and that a pair that
// is not around the median has none.
func TestWidthsOfTargets(t *testing.T) {
	p := banded(1, 0, 0.1, 0.3, 0.5, 0.7, 0.9)
	p.Columns = append(p.Columns, number("y", true))
	s := newScores(p)
	for i := range s {
		s[i][0] = slices.Repeat([]float64{float64(i + 1)}, 50)
	}
	if got, want := fmt.Sprint(s.widths(p, 6)), "[[[0.75] [1.5]] [[2.25] [3]]]"; got != want {
		t.Errorf("found %v, want %v", got, want)
	}
	p.Levels = []float64{0.1, 0.3, 0.5, 0.9}
	s = newScores(p)
	s[0][0], s[1][0] = slices.Repeat([]float64{4}, 50), slices.Repeat([]float64{8}, 50)
	if got, want := fmt.Sprint(s.widths(p, 6)), "[[[3] [0]] [[6] [0]]]"; got != want {
		t.Errorf("of uneven levels: found %v, want %v", got, want)
	}
}

// TestHalves checks that windows in the two halves of a part predict no row in common, and that those between are in
// neither.
func TestHalves(t *testing.T) {
	f := &frame{plan: banded(7, 0, 0.5), seqs: []sequence{{lo: 0, hi: 100}, {lo: 100, hi: 130}}}
	w := f.newWindows([]segment{{0, 40, 100}, {1, 101, 130}}, validPart, 1, 0)
	for seq := range 2 {
		last, first, count := 0, math.MaxInt, 0
		for i := range w.Len() {
			at := w.at(i)
			if at.seq != seq {
				continue
			}
			switch w.half(i) {
			case 0:
				last = max(last, at.hi)
				count++
			case 1:
				first = min(first, at.hi-7)
				count++
			}
		}
		if last > first || first-last > 1 || count < 10 {
			t.Errorf("series %d: the first half asks for rows up to %d, the second from %d on, %d windows", seq, last,
				first, count)
		}
	}
	rows := &frame{plan: &Plan{Task: Steps, Length: 10, Columns: []Column{number("x", true)}},
		seqs: []sequence{{hi: 14}}}
	for i, want := range []int{0, 0, 2, 1, 1} { // for five windows of rows, the middle one is in neither half
		if got := rows.newWindows(rows.wholeSeries(), validPart, 1, 0).half(i); got != want {
			t.Errorf("window %d of rows is in half %d, want %d", i, got, want)
		}
	}
	if got := w.apart(); got != 60/7+29/7 {
		t.Errorf("found %d windows apart", got)
	}
}

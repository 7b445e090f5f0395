package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestHalvesOfStrides checks that between the halves there are as many windows as reach into the second half, and that
// single windows are assigned to the halves alternately. The number of windows apart is the number of horizons in each
// segment, or for whole sequences the number of sequences.
func TestHalvesOfStrides(t *testing.T) {
	f := &frame{plan: banded(7, 0, 0.5)}
	var segments []segment
	for i, rows := range []int{34, 13, 7, 7, 7, 14} {
		lo := 100 * i
		f.seqs = append(f.seqs, sequence{lo: lo, hi: lo + 100})
		segments = append(segments, segment{i, lo + 1, lo + 1 + rows})
	}
	w := f.newWindows(segments, validPart, 3, 0)
	got := ""
	for i := range w.Len() {
		got += fmt.Sprint(w.half(i))
	}
	if want := "0000221111" + "222" + "0" + "1" + "0" + "222"; got != want || w.apart() != 4+1+1+1+1+2 {
		t.Errorf("found the halves %s and %d windows apart, want %s and 10", got, w.apart(), want)
	}
	if got := newScores(banded(7, 0, 0.1, 0.5, 0.9)).coverage(0, nil); got != 0 {
		t.Errorf("of no truth intervals hold %v", got)
	}
	f.plan.Task = Regress
	if w := f.newWindows(segments, validPart, 3, 0); w.apart() != 6 {
		t.Errorf("of six sequences %d are apart", w.apart())
	}
}

// TestCalibrateRows checks that all rows with a number calibrate one width if numbers are predicted at each row. A
// single window has no halves.
func TestCalibrateRows(t *testing.T) {
	p := &Plan{Task: Steps, Length: 10, Levels: []float64{0.1, 0.25, 0.5, 0.75, 0.9},
		Columns: []Column{number("x", false),
			number("y", true), number("z", true)}}
	p.Columns[1].In, p.Columns[2].In = false, false
	var rows [][]float32
	for i := range 50 {
		rows = append(rows, []float32{0, float32(i * i % 11), float32(i * i * i % 13)})
		if i%8 == 3 {
			rows[i][2] = float32(nan)
		}
	}
	f := made(t, p, rows)
	m := by(t, p, func(*encoder, []float32, int, []float64) {})
	m.rival.Off = [][][]float64{{{-1, -0.5, 0, 0.5, 2}}, {{-3, -2, 0, 0.5, 1}}}
	got, err := m.calibrate(background(), f.newWindows(f.wholeSeries(), validPart, 10, 0))
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	held := func(x []float64, by float64) float64 {
		return float64(len(slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return v > by })))
	}
	for k, off := range [][2]float64{{-1, 2}, {-3, 1}} {
		var all, early, late []float64
		for i, row := range rows {
			truth := float64(row[1+k])
			if truth != truth {
				continue
			}
			out := max(off[0]-truth, truth-off[1])
			all = append(all, out)
			switch i / 10 { // the middle window is in neither half
			case 0, 1:
				early = append(early, out)
			case 3, 4:
				late = append(late, out)
			}
		}
		width := func(x []float64, apart float64) float64 {
			x = slices.Sorted(slices.Values(x))
			return apart / (apart + 2) * x[int(math.Ceil(0.8*float64(len(x)+1)-1e-9))-1]
		}
		n := float64(len(all))
		checked := held(early, width(late, 25)) + held(late, width(early, 25))
		g := got[k]
		sameNumbers(t, g.Target, []float64{g.Nominal, g.Learnt, g.Calibrated, g.Checked}, []float64{80,
			100 * held(all, 0) / n, 100 * held(all, width(all, 50)) / n,
			100 * checked / float64(len(early)+len(late))}, 1e-9)
		sameNumbers(t, "the width of "+g.Target, m.plan.Widen[k][0], []float64{width(all, 50)}, 1e-9)
		if g.Windows != 5 || g.Apart != 50 {
			t.Errorf("found %d windows, %d apart", g.Windows, g.Apart)
		}
	}
	one, err := m.calibrate(background(), f.newWindows([]segment{{0, 0, 10}}, validPart, 10, 0))
	if err != nil || one[0].Checked != -1 || one[0].Windows != 1 {
		t.Errorf("of one window: found %+v, %v", one, err)
	}
	one[0].Checked = 0
	if text := one[0].Sentence(); !strings.Contains(text, "(0.0 % where one half is calibrated by the other)") {
		t.Errorf("found %q", text)
	}
}

// TestMeasuredIntervals checks the coverage of intervals in the test part, learnt and calibrated, for each target.
func TestMeasuredIntervals(t *testing.T) {
	p := banded(2, 0, 0.25, 0.5, 0.75)
	p.Columns = append(p.Columns, number("z", true))
	p.Columns[1].Deviation = 2
	var rows [][]float32
	for i := range 40 {
		rows = append(rows, []float32{float32(i * i % 11), float32(i * i * i % 13)})
	}
	f := made(t, p, rows)
	w := f.newWindows(f.wholeSeries(), testPart, 1, 0)
	m := by(t, p, func(*encoder, []float32, int, []float64) {})
	m.rival.Off = [][][]float64{{{-1, 0, 2}}, {{-2, 0, 1}}} // in deviations
	m.plan.Widen = [][][]float64{{{1.5, 3}}, {{-0.5}}}
	calibrated := make([]Calibration, 2)
	errs, err := m.numbers(background(), f, w, "script", nil, calibrated)
	if err != nil || len(errs) != 2 {
		t.Fatal(errs, err)
	}
	score := 0.0
	for k := range 2 {
		var n, learnt, wide, off float64
		for i := range w.Len() {
			for h := range 2 {
				d := float64(rows[i+1+h][k] - rows[i][k])
				if k == 1 {
					d /= 2
				}
				lo, hi, by := []float64{-1, -2}[k], []float64{2, 1}[k], []float64{1.5, 3, -0.5, -0.5}[2*k+h]
				n, off = n+1, off+math.Abs(d)
				learnt += float64(bit(lo <= d && d <= hi))
				wide += float64(bit(lo-by <= d && d <= hi+by))
			}
		}
		score += off / n / 2
		sameNumbers(t, fmt.Sprint("target ", k), []float64{calibrated[k].TestLearnt, calibrated[k].TestCalibrated,
			errs[k].Coverage}, []float64{100 * learnt / n, 100 * wide / n, 100 * wide / n}, 1e-9)
	}
	_, err = m.numbers(background(), f, f.newWindows(nil, testPart, 1, 0), "script", nil, calibrated)
	if err != nil || calibrated[0].TestLearnt != 0 || calibrated[0].TestCalibrated != 0 {
		t.Errorf("of no window: found %+v, %v", calibrated, err)
	}
	if got, ok, err := m.score(background(), f, w); !ok || err != nil || math.Abs(got-score) > 1e-6 {
		t.Errorf("two targets are compared by %v, %v, %v, want the mean of their errors in deviations, %v", got, ok,
			err,
			score)
	}
}

// TestScoreOfClasses checks that classifiers are compared by their cross-entropy, if there is a class to measure it.
func TestScoreOfClasses(t *testing.T) {
	p := classPlan()
	f := made(t, p, [][]float32{{0, 0}, {0, 2}, {0, float32(nan)}, {0, 2}}, [][]float32{{0, float32(nan)}})
	m := by(t, p, func(_ *encoder, _ []float32, n int, dst []float64) {
		for r := range n {
			dst[3*r] = math.Log(2) // probabilities: a half, a quarter, a quarter
		}
	})
	for seq, want := range []float64{math.Log(2*4*4) / 3, 0} {
		w := f.newWindows(f.wholeSeries()[seq:seq+1], validPart, 1, 0)
		x, ok, err := m.score(background(), f, w)
		if ok != (seq == 0) || math.Abs(x-want) > 1e-6 || err != nil {
			t.Errorf("sequence %d: found %v, %v, %v, want %v", seq, x, ok, err, want)
		}
	}
	if s, err := m.classes(background(), f, f.newWindows(nil, testPart, 1, 0), []int{1, 2, 3}); err != nil ||
		s.Majority != 0 || s.Loss != 0 || s.Count != 0 {
		t.Errorf("of no window: found %+v, %v", s, err)
	}
	sure := by(t, p, func(_ *encoder, _ []float32, n int, dst []float64) {
		for r := range n {
			dst[3*r+1] = 1000 // for a class without examples
		}
	})
	w := f.newWindows(f.wholeSeries()[:1], testPart, 10, 0)
	s, err := sure.classes(background(), f, w, []int{0, 0, 9})
	loss, _, other := sure.loss(background(), w, w, []int{0})
	if want := 30 * math.Ln10; err != nil || other != nil || math.Abs(s.Loss-want) > 1e-9 ||
		math.Abs(loss-want) > 1e-9 ||
		math.Abs(s.Majority-200./3) > 1e-9 || s.Bins[9].Count != 3 {
		t.Errorf("of a probability of 0: found the losses %v and %v, want %v; %+v", s.Loss, loss, want, s)
	}
	plain := &Plan{Task: Regress, Levels: []float64{0.1, 0.5, 0.9}, Columns: []Column{number("x", false),
		number("y", true)}}
	plain.Columns[1].In = false
	g := made(t, plain, [][]float32{{0, 3}}, [][]float32{{0, float32(nan)}}, [][]float32{{0, -1}})
	w = g.newWindows(g.wholeSeries(), validPart, 1, 0)
	n := by(t, plain, func(*encoder, []float32, int, []float64) {})
	n.rival.Off = [][][]float64{{{-1, 0, 2}}}
	// For 3: 0.1·4, 0.5·3 and 0.9·1. For -1: 0.9·0, 0.5·1 and 0.1·3.
	loss, right, err := n.loss(background(), w, w, []int{0, 1, 2})
	if want := (0.4 + 1.5 + 0.9 + 0 + 0.5 + 0.3) / 3 / 2; math.Abs(loss-want) > 1e-6 || right != 0 || err != nil {
		t.Errorf("found the pinball loss %v, %v, want %v", loss, err, want)
	}
	if loss, right, err := n.loss(background(), w, w, []int{1}); loss != 0 || right != 0 || err != nil {
		t.Errorf("of no truth: found the loss %v, %v, %v", loss, right, err)
	}
}

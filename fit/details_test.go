package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestImportanceOfClasses checks the increase of the cross-entropy of classes and the decrease of the accuracy by
// permutations, as mean and deviation over permutations that depend only on the seed. The most important columns come
// first.
func TestImportanceOfClasses(t *testing.T) {
	p := classPlan()
	p.Columns = append([]Column{number("noise", false)}, p.Columns...)
	p.Weights = []float64{1, 1, 1.5}
	const n = 12
	var series [][][]float32
	for i := range n {
		y := float32(i % 3)
		if i == 5 {
			y = float32(nan)
		}
		series = append(series, [][]float32{{float32(i), float32(i * i % 7), y}})
	}
	f := made(t, p, series...)
	w := f.newWindows(f.wholeSeries(), validPart, 1, 5)
	logits := func(noise, x float64) []float64 { return []float64{2 - x, x, 0.1*noise - x} }
	m := by(t, p, func(_ *encoder, rows []float32, _ int, dst []float64) {
		copy(dst, logits(float64(rows[0]), float64(rows[1])))
	})
	m.plan.Weights = p.Weights
	measure := func(column, shift int) (loss, right float64) {
		for i := range n {
			row, other := series[i][0], series[(i+shift)%n][0]
			if row[2] != row[2] {
				continue
			}
			x := []float64{float64(row[0]), float64(row[1])}
			if column >= 0 {
				x[column] = float64(other[column])
			}
			z, sum, best := logits(x[0], x[1]), 0.0, 0
			for _, v := range z {
				sum += math.Exp(v)
			}
			for k, v := range z {
				if math.Exp(v)*p.Weights[k] > math.Exp(z[best])*p.Weights[best] {
					best = k
				}
			}
			loss -= math.Log(math.Exp(z[int(row[2])])/sum) / (n - 1)
			if best == int(row[2]) {
				right += 1. / (n - 1)
			}
		}
		return loss, right
	}
	var notes []string
	im, err := m.importance(background(), w, 100, &notes)
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	plain, right := measure(-1, 0)
	rng := rand.New(rand.NewPCG(5, 0x7065726d757465)) // "permute"
	shifts := []int{1 + rng.IntN(n-1), 1 + rng.IntN(n-1), 1 + rng.IntN(n-1)}
	want := &Importance{How: fmt.Sprintf("to the script, by permuting: each of %d validation windows gets the rows of "+
		"another in the column, 3 times", n), Windows: n, Repeats: 3, Loss: plain}
	for column, name := range []string{"noise", "x"} {
		one := ColumnImportance{Column: name}
		var rises []float64
		for _, shift := range shifts {
			loss, still := measure(column, shift)
			rises = append(rises, loss-plain)
			one.Rise += (loss - plain) / 3
			one.Accuracy += 100 * (right - still) / 3
		}
		for _, x := range rises {
			one.Deviation += (x - one.Rise) * (x - one.Rise)
		}
		one.Deviation = math.Sqrt(one.Deviation / 2)
		want.Columns = append([]ColumnImportance{one}, want.Columns...)
	}
	if want.Columns[0].Rise < want.Columns[1].Rise {
		slices.Reverse(want.Columns)
	}
	if im.How != want.How || im.Windows != n || im.Repeats != 3 || len(im.Columns) != 2 ||
		math.Abs(im.Loss-plain) > 1e-5 {
		t.Fatalf("found %+v, want %+v", im, want)
	}
	for k, got := range im.Columns {
		w := want.Columns[k]
		if got.Column != w.Column {
			t.Errorf("column %d is %s, want %s", k, got.Column, w.Column)
		}
		sameNumbers(t, got.Column, []float64{got.Rise, got.Deviation, got.Accuracy}, []float64{w.Rise, w.Deviation,
			w.Accuracy}, 1e-4)
	}
}

// TestCalibrateByHalves checks the coverage of the learnt and the calibrated intervals, and that of intervals in each
// half of the validation part calibrated by the other half, against the definitions.
func TestCalibrateByHalves(t *testing.T) {
	p := banded(2, 0, 0.1, 0.5, 0.9)
	p.Lookback = 3
	p.Columns = append(p.Columns, number("z", true))
	var rows [][]float32
	for i := range 83 {
		rows = append(rows, []float32{float32(i * i % 11), float32(i * i * i % 13)})
	}
	f := made(t, p, rows)
	w := f.newWindows(f.wholeSeries(), validPart, 1, 0)
	m := by(t, p, func(*encoder, []float32, int, []float64) {})
	m.rival.Off = [][][]float64{{{-2, 0, 3}}, {{-4, 0, 1}}}
	got, err := m.calibrate(background(), w)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	for k, off := range [][2]float64{{-2, 3}, {-4, 1}} {
		var outside [3][]float64 // for both steps, by half
		for i := range w.Len() {
			at := w.at(i)
			last := float64(rows[at.hi-3][k])
			for h := range 2 {
				truth := float64(rows[at.hi-2+h][k])
				outside[w.half(i)] = append(outside[w.half(i)], max(last+off[0]-truth, truth-last-off[1]))
			}
		}
		all := slices.Concat(outside[:]...)
		width := func(x []float64, apart int) float64 { // fewer than a hundred for each step: one width for both
			x = slices.Sorted(slices.Values(x))
			return float64(apart) / float64(apart+2) * x[int(math.Ceil(0.8*float64(len(x)+1)-1e-9))-1]
		}
		held := func(x []float64, by float64) (n float64) {
			for _, v := range x {
				n += float64(bit(v <= by))
			}
			return n
		}
		apart := (83 - 3) / 2
		if len(w.parts) != 1 || apart != 40 {
			t.Fatal(w.parts)
		}
		apart = w.apart()
		checked := held(outside[0], width(outside[1], apart/2)) + held(outside[1], width(outside[0], apart/2))
		want := Calibration{Target: []string{"x", "z"}[k], Nominal: 80, Windows: w.Len(), Apart: apart,
			Learnt: 100 * held(all, 0) / float64(len(all)), Calibrated: 100 * held(all, width(all,
				apart)) / float64(len(all)),
			Checked: 100 * checked / float64(len(outside[0])+len(outside[1]))}
		g := got[k]
		sameNumbers(t, g.Target, []float64{g.Nominal, g.Learnt, g.Calibrated, g.Checked},
			[]float64{want.Nominal, want.Learnt, want.Calibrated, want.Checked}, 1e-6)
		sameNumbers(t, "the width of "+g.Target, m.plan.Widen[k][0], []float64{width(all, apart)}, 1e-5)
		if g.Target != want.Target || g.Windows != want.Windows || g.Apart != want.Apart {
			t.Errorf("found %+v, want %+v", g, want)
		}
	}
}

// TestCard checks that a card contains everything that a client has to know about the data.
func TestCard(t *testing.T) {
	for task, streams := range map[string]bool{Classify: false, Regress: false, Steps: true, Next: true, Forecast: true,
		Fill: false, Anomaly: true} {
		p := &Plan{Task: task, Series: "s", Step: 3, Horizon: 4, Lookback: 5, Levels: []float64{0.5}, Use: "linear",
			Time: &table.Column{Name: "t"}, Columns: []Column{number("x", true), category("c", false, "u", "v")}}
		p.Columns[0].Unit, p.Columns[1].Known = "m", true
		want := Card{Task: task, Columns: []CardColumn{{"x", table.Number, "m", true, true, false, nil}, {"c",
			table.Category, "", true, false, true, []string{"u", "v"}}}, Time: "t", Step: 3, Series: "s", Horizon: 4,
			Lookback: 5, Levels: []float64{0.5}, Use: "linear", Streams: streams}
		if got := p.Card(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: found %+v, want %+v", task, got, want)
		}
		if p.Use, p.Time = useNetwork, nil; p.Card().Use != "" || p.Card().Time != "" {
			t.Errorf("%s: found %+v of the network without times", task, p.Card())
		}
	}
}

// TestMedian checks the median: the middle number, the larger of two, and 0 for none. The order of the numbers is not
// changed.
func TestMedian(t *testing.T) {
	x := []float64{5, 1, 4, 2, 3}
	for n, want := range []float64{0, 5, 5, 4, 4, 3} {
		if got := median(x[:n]); got != want {
			t.Errorf("of %v: found %v, want %v", x[:n], got, want)
		}
	}
	if x[0] != 5 {
		t.Errorf("it is sorted: %v", x)
	}
}

// TestScoreOfFew checks the scores that follow from a confusion matrix, with a class without examples and one that is
// never predicted.
func TestScoreOfFew(t *testing.T) {
	s := newClassScore([]string{"a", "b", "c"})
	s.Confusion, s.Count, s.Loss = [][]int{{3, 1, 0}, {1, 0, 0}, {0, 0, 0}}, 5, 10
	s.Bins[2], s.Bins[9] = CalibrationBin{Count: 1, Probability: 0.25, Right: 1}, CalibrationBin{Count: 4,
		Probability: 3.6, Right: 2}
	s.finish()
	sameNumbers(t, "the score", []float64{s.Accuracy, s.Balanced, s.F1, s.Loss, s.ECE}, []float64{60, 100 * (0.75 +
		0) / 2,
		0.75 / 2, 2, 0.75*1/5 + 0.4*4/5}, 1e-12)
	want := []ClassMetrics{{"a", 4, 4, 75, 75, 0.75}, {"b", 1, 1, 0, 0, 0}, {"c", 0, 0, 0, 0, 0}}
	if !reflect.DeepEqual(s.PerClass, want) {
		t.Errorf("found %+v, want %+v", s.PerClass, want)
	}
	one := newClassScore([]string{"a"})
	one.Confusion, one.Count, one.Loss = [][]int{{1}}, 1, 2
	if one.finish(); one.Accuracy != 100 || one.Balanced != 100 || one.F1 != 1 || one.Loss != 2 {
		t.Errorf("of one: found %+v", one)
	}
	none := newClassScore([]string{"a"})
	if none.finish(); none.Accuracy != 0 || none.Balanced != 0 || none.Loss != 0 {
		t.Errorf("of none: found %+v", none)
	}
}

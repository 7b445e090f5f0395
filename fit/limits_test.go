package fit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/table"
)

// TestScalerLimits checks that numbers count as equal if they differ by less than rounding errors, relative to their
// mean or absolutely, and that an empty or too large column is refused with the value found.
func TestScalerLimits(t *testing.T) {
	fresh := func(x ...float64) *scaler {
		k := &scaler{low: math.Inf(1), high: math.Inf(-1), before: nan}
		for _, v := range x {
			k.add(v)
		}
		return k
	}
	for _, c := range []struct {
		x               []float64
		alike           bool
		low, high, mean float64
	}{
		{[]float64{1 + 0.9e-12, 1 - 0.9e-12}, true, 1, 1, 1}, {[]float64{1 + 1.1e-12, 1 - 1.1e-12}, false, 1, 1, 1},
		{[]float64{0.9e-24, -0.9e-24}, true, 0, 0, 0}, {[]float64{1.1e-24, -1.1e-24}, false, 0, 0, 0},
		{[]float64{-4 + 3.9e-12, -4 - 3.9e-12}, true, -4, -4, -4}, {[]float64{-4 + 4.1e-12, -4 - 4.1e-12}, false, -4,
			-4, -4},
	} {
		col := number("x", false)
		if err := fresh(c.x...).settle(&col, Next, 2); err != nil || (col.Deviation == 1) != c.alike || col.Gaps {
			t.Errorf("%v: found the deviation %g, %v", c.x, col.Deviation, err)
		}
		sameNumbers(t, fmt.Sprint(c.x), []float64{col.Low, col.High, col.Mean}, []float64{c.low, c.high, c.mean}, 1e-11)
		if want := map[bool]float64{true: 2, false: 2}[c.alike] * math.Abs(c.x[0]-c.mean); math.Abs(col.Change-want) >
			1e-3*want {
			t.Errorf("%v: found the change %g, want %g", c.x, col.Change, want)
		}
		col.Target = true
		if err := fresh(c.x...).settle(&col, Next, 2); (err != nil) != c.alike {
			t.Errorf("%v as a target: %v", c.x, err)
		}
	}
	empty := number("x", false)
	empty.Low, empty.High = 3, 4
	if err := fresh(nan).settle(&empty, Next, 5); err != nil || !empty.Gaps || empty.Low != 3 || empty.Deviation != 1 ||
		empty.Change != 1 || empty.Mean != 0 {
		t.Errorf("of no number: found %+v, %v", empty, err)
	}
	one := number("x", true)
	one.Base = 100
	for want, k := range map[string]*scaler{"found no value in the 5 rows": fresh(),
		"found the value 107 in all":      fresh(7, 7),
		"found numbers up to 4e+32, want": fresh(1, 4e32), "found numbers up to 5e+32, want": fresh(1, -5e32)} {
		if err := k.settle(&one, Steps, 5); err == nil || !strings.Contains(err.Error(), "column x: "+want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
	if err := fresh(3.39e32, 3.4e32).settle(&one, Steps, 2); err != nil {
		t.Errorf("found %v", err)
	}
	single := number("x", true)
	if err := fresh(5).settle(&single, Forecast, 1); err != nil || single.Change != 1 || single.Low != 5 ||
		single.Gaps {
		t.Errorf("of one number: found %+v, %v", single, err)
	}
}

// TestFarLimits checks the allowed distance of a number from those of training, and the note for a larger one. A column
// of logarithms or classes has no such limit.
func TestFarLimits(t *testing.T) {
	p := &Plan{Columns: []Column{category("k", false, "a"), number("x", true)}}
	c := &p.Columns[1]
	c.Mean, c.Deviation, c.Base = -1e12, 0.5, 1e12
	place := table.Place{File: "f", Unit: "line", At: 3}
	for x, want := range map[float64]string{1.5e12: "",
		1.51e12: "f, line 3, column x: found 2.51e+12, which is 3e+12 " +
			"deviations of the training part away: is the row damaged?"} {
		f := &frame{plan: p, far: []farthest{{9e30, place}, {x, place}}}
		if err := f.checkFar(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%g: found %v, want %q", x, err, want)
		}
		c.Log = true
		if err := f.checkFar(); err != nil {
			t.Errorf("of logarithms: %v", err)
		}
		c.Log = false
	}
	c.Base = 1e32
	for x, found := range map[float32]string{-4e32: "found -3e+32, want numbers of at most 3.4e+32",
		float32(math.Inf(1)): "found a number that is too large for 32 bits, want"} {
		f := &frame{plan: p}
		if err := f.lookFar([]float32{0, x}, &table.Values{Place: place}); err == nil || !strings.Contains(err.Error(),
			"f, line 3, column x: "+found) {
			t.Errorf("found %v, want %q", err, found)
		}
	}
	l := &loader{f: &frame{rows: &store{n: mostRows}}}
	if err := l.add(&table.Values{Place: place}); err == nil || !strings.Contains(err.Error(),
		"found more than 2147483647 rows, want at most that (--rows)") {
		t.Errorf("found %v", err)
	}
}

// TestLinearLimits checks that a linear forecast needs more windows than it sees rows, and at least two. A missing
// value is that of the row before, a missing future value the last one. Each window has its own scale if the plan says
// so.
func TestLinearLimits(t *testing.T) {
	p := &Plan{Task: Forecast, Lookback: 4, Horizon: 2, Columns: []Column{number("k", false), number("x", true)}}
	var rows [][]float32
	for i := range 60 {
		rows = append(rows, []float32{0, float32(5 * math.Sin(float64(i*i)))})
	}
	rows[31][1], rows[34][1], rows[20][1] = float32(nan), float32(nan), float32(nan)
	f := made(t, p, rows)
	valid := f.newWindows([]segment{{0, 40, 60}}, validPart, 1, 1)
	for n, want := range map[int]bool{4: false, 5: true} {
		w := f.newWindows([]segment{{0, 4, 4 + n + 1}}, trainPart, 1, 1)
		if got := f.fitLinear(w, valid, nil); (got != nil) != want || w.Len() != n {
			t.Errorf("of %d windows: found %+v", w.Len(), got)
		}
	}
	p.Lookback = 2
	if got := f.fitLinear(f.newWindows(f.wholeSeries(), trainPart, 1, 1), valid, nil); got == nil || got.Order != 2 {
		t.Errorf("from two rows: found %+v", got)
	}
	p.Lookback, p.Columns[1].Deviation = 4, 2
	w := f.newWindows(f.wholeSeries(), trainPart, 1, 1)
	at := w.at(30) // rows 30 to 33 are seen, 34 and 35 are in the future
	for _, local := range []bool{false, true} {
		p.Local = local
		x, y := f.differences(w, []int{30}, 0, 3)
		v := func(i int) float64 { return float64(rows[i][1]) }
		scale := 2.0
		if seen := []float64{v(30), v(32), v(33)}; local {
			mean := (seen[0] + seen[1] + seen[2]) / 3
			scale = math.Sqrt((math.Pow(seen[0]-mean, 2) + math.Pow(seen[1]-mean, 2) + math.Pow(seen[2]-mean, 2)) / 3)
		}
		sameNumbers(t, fmt.Sprint("seen, local ", local), mat.Row(nil, 0, x), []float64{(v(30) - v(33)) / scale,
			(v(32) - v(33)) / scale, 0}, 1e-6)
		sameNumbers(t, fmt.Sprint("to come, local ", local), mat.Row(nil, 0, y), []float64{0, (v(35) - v(33)) / scale},
			1e-6)
	}
	if at.lo != 30 {
		t.Errorf("found the window %v", at)
	}
	for i, ridge := range linearRidges {
		if want := math.Pow(10, float64(i-3)); math.Abs(ridge-want) > 1e-9*want {
			t.Errorf("the ridge %d is %v, want %v", i, ridge, want)
		}
	}
	// The ridge is the one with the smallest error on other windows.
	l := f.fitLinear(w, valid, nil)
	x, y := f.differences(w, seqInt(w.Len(), 1), 0, 4)
	vx, vy := f.differences(valid, seqInt(valid.Len(), 1), 0, 4)
	least, best := math.Inf(1), 0.0
	ridges(x, y, []float64{1e-3, 1e-2, 1e-1, 1, 10, 100}, func(part float64, weights *mat.Dense) {
		var off mat.Dense
		off.Mul(vx, weights)
		off.Sub(&off, vy)
		if e := mat.Norm(&off, 2); e < least {
			least, best = e, part
		}
	})
	if l.Ridges[0] != best || best == 1e-3 || best == 100 {
		t.Errorf("found the ridge %v, want %v", l.Ridges, best)
	}
}

// TestRefitParts checks the parts of each refit, row by row: groups of consecutive origins, the same number of
// validation rows as before, and unchanged training and validation parts for series that are too short.
func TestRefitParts(t *testing.T) {
	f := &frame{plan: &Plan{Task: Forecast, Lookback: 4, Horizon: 3}, seqs: []sequence{{lo: 0, hi: 100},
		{lo: 100, hi: 110},
		{lo: 110, hi: 160}}}
	c := DefaultConfig()
	c.Task, c.Split, c.Refit, c.Stride = Forecast, "0.6,0.2,0.2", 4, 2
	got, err := f.refits(&c)
	if err != nil {
		t.Fatal(err)
	}
	short := []segment{{1, 100, 106}, {1, 106, 108}}
	want := [][parts][]segment{
		{{{0, 0, 60}, short[0], {2, 110, 140}}, {{0, 60, 80}, short[1], {2, 140, 150}}, {{0, 80, 89}, {2, 150, 159}}},
		{{{0, 0, 68}, short[0], {2, 110, 148}}, {{0, 68, 88}, short[1], {2, 148, 158}}, {{0, 88, 97}}},
		{{{0, 0, 76}, short[0], {2, 110, 150}}, {{0, 76, 96}, short[1], {2, 150, 160}}, {{0, 96, 100}}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found\n%v\nwant\n%v", got, want)
	}
	for n, ok := range map[int]bool{1000: true, 1001: false} { // number of origins, in the last fifth
		f.seqs = []sequence{{hi: 5 * (n + 2)}}
		c.Refit, c.Stride = 1, 1
		if _, err := f.refits(&c); (err == nil) != ok || !ok && err.Error() != fmt.Sprintf("refit: found %d origins "+
			"in the "+
			"test part, want more of them between refits than 1, so that there are at most 1000", n) {
			t.Errorf("of %d origins: %v", n, err)
		}
	}
	c.Split = "1"
	if _, err := f.refits(&c); err == nil {
		t.Error("a split in one: no error")
	}
	for split, ok := range map[string]bool{"0.7,0.15,0.1500009": true, "0.7,0.15,0.1500011": false,
		"0.7,0.15,0.1499991": true,
		"0.7,0.15,0.1499989": false, "9e14,1,1": true} {
		c.Split = split
		if _, err := c.split(); (err == nil) != ok {
			t.Errorf("%s: %v", split, err)
		}
	}
}

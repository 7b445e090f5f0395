package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/table"
)

// TestPredictSequences checks whole sequences, one after another or interleaved, and long ones in pieces, whose
// predictions are weighted by their rows.
func TestPredictSequences(t *testing.T) {
	whole := rowPlan(Regress, 0.5)
	pieces := whole.named()
	pieces.Pieces, pieces.Length = true, 2
	class := classPlan().named()
	class.Task, class.Length = Classify, 0
	for i := range class.Columns {
		class.Columns[i].High = 100
	}
	for _, s := range []saying{
		{name: "mixed", p: whole.named(), f: sumOf, texts: []string{"s,x,y a,1,5 b,2, a,3, b,4,7 c,1,"},
			want: []string{
				"a2: [[111]] given [5]", "b3: [[115]] given [NaN]", "c6: [[105]] given [NaN]"}},
		{name: "files", p: whole, f: sumOf, texts: []string{"x 1 3", "x 5 7", "x 9"}, want: []string{
			"a.csv2: [[111]] given [NaN]", "b.csv2: [[127]] given [NaN]", "c.csv2: [[121]] given [NaN]"}},
		{name: "files, one at a time", p: whole, f: sumOf, opt: PredictOptions{Series: 1}, texts: []string{"x 1",
			"x 2", "x 3"},
			want: []string{"a.csv2: [[105]] given [NaN]", "b.csv2: [[107]] given [NaN]",
				"c.csv2: [[109]] given [NaN]"}},
		// a: (2·(1+3) + 2·(5+7) + 9) / 5 = 8.2; b: 2+4; c: 1
		{name: "pieces", p: pieces, f: sumOf, texts: []string{"s,x a,1 b,2 a,3 a,5 a,7 b,4 a,9 c,1"}, want: []string{
			"a2: [[119.4]] given [NaN]", "b3: [[115]] given [NaN]", "c9: [[105]] given [NaN]"}},
		{name: "class", p: class, f: func(e *encoder, rows []float32, n int, dst []float64) {
			sumOf(e, rows, n, dst[1:])
			dst[1] *= math.Ln2
		}, texts: []string{"s,x a,1 b,0 a,2"}, want: []string{"a2: [0.100 0.800 0.100], class 1 by 0.800",
			"b3: [0.333 0.333 0.333], class 0 by 0.333"}},
		{name: "filled", p: rowPlan(Fill, 0.25, 0.5, 0.75).named(), sees: 2, f: lastThree, texts: []string{
			"s,x,y a,1,5 b,2, a,3,"}, want: []string{"a2: [[103 105 109]] given [5]",
			"a4: [[127 129 133]] given [NaN]",
			"b3: [[105 107 111]] given [NaN]"}},
	} {
		s.check(t)
	}
}

// tells predicts, for each future row, 1000 times the number of rows seen before, plus 100 times the value of the first
// of them, 10 times the known value of the row, and its step. A missing value counts as 9.
func tells(e *encoder, rows []float32, n int, dst []float64) {
	width := e.p.width()
	or := func(x float32) float64 {
		if x != x {
			return 9
		}
		return float64(x)
	}
	for h := range n {
		at := len(rows)/width - n
		dst[h] = 1000*float64(at) + 100*or(rows[0]) + 10*or(rows[(at+h)*width+1]) + float64(h) + 1
	}
}

// TestPredictAhead checks that a forecast is that of the rows after the last one with a value, in the units of the data
// relative to that value. It uses the known values of future rows, and their times or those extrapolated from the
// previous rows. With live rows, there is a new forecast after each row with a value.
func TestPredictAhead(t *testing.T) {
	p := Plan{Task: Forecast, Lookback: 2, Horizon: 3, Levels: []float64{0.5}, Step: day,
		Columns: []Column{number("x", true), number("k", false)}}
	p.Columns[1].Known = true
	for i := range p.Columns {
		p.Columns[i].High = 1000
	}
	unknown := "column k is known beforehand, but the data ends with the series: rows to come, with a value of it " +
		"and " +
		"none of the target, would make the forecast better"
	short := func(series string, n int) string {
		return fmt.Sprintf("%s: found %d rows, want 2, as many as the network looks back: the others count as missing",
			series, n)
	}
	apart := func(seconds float64) string {
		return fmt.Sprintf("rows are %.6g seconds apart, 86400 in training: the forecast counts rows, whatever "+
			"time they "+
			"cover", seconds)
	}
	plain := p
	plain.Columns = []Column{number("x", true), number("k", false)}
	plain.Columns[0].Base, plain.Columns[0].Deviation, plain.Columns[0].High = 500, 2, 1000
	plain.Columns[1].High = 1000
	live := PredictOptions{Live: true}
	mixed := "s,x,k a,1,0 b,2,1 a,3,2 b,4,3 a,NA,4 a,5,5 a,NA,6 a,NA,7 b,NA,8"
	ahead := "t,x,k 2024-03-01,1,0 2024-03-02,2,0 2024-03-03,NA,5 2024-03-06,NA,7 2024-03-04,NA,6 2024-03-03,3,1"
	for _, s := range []saying{
		// a sees 2 rows from the missing one on, b from 2 on; 3 rows are predicted
		{name: "two series", p: p.named(), f: tells, texts: []string{mixed}, want: []string{
			"a7: step 1 [[2966]]", "a7: step 2 [[2977]]", "a7: step 3 [[2998]]", "b5: step 1 [[2285]]",
			"b5: step 2 [[2296]]", "b5: step 3 [[2297]]"}, notes: []string{unknown}},
		{name: "rows before the window", p: p.named(), sees: 3, f: tells, texts: []string{mixed}, want: []string{
			"a7: step 1 [[3366]]", "a7: step 2 [[3377]]", "a7: step 3 [[3398]]", "b5: step 1 [[2285]]",
			"b5: step 2 [[2296]]", "b5: step 3 [[2297]]"}, notes: []string{unknown}},
		{name: "more rows before than there are", p: p.named(), sees: 30, f: tells, texts: []string{mixed},
			want: []string{
				"a7: step 1 [[4166]]", "a7: step 2 [[4177]]", "a7: step 3 [[4198]]", "b5: step 1 [[2285]]",
				"b5: step 2 [[2296]]", "b5: step 3 [[2297]]"}, notes: []string{unknown}},
		{name: "base and deviation", p: plain, f: tells, texts: []string{"x,k 501,0 503,0 502,0"}, want: []string{
			"4: step 1 [[5284]]", "4: step 2 [[5286]]", "4: step 3 [[5288]]"}},
		{name: "few rows", p: p.timed(), f: tells, texts: []string{"t,x,k 2024-03-01,1,0"}, want: []string{
			"2: 2024-03-02 step 1 [[2992]]", "2: 2024-03-03 step 2 [[2993]]", "2: 2024-03-04 step 3 [[2994]]"},
			notes: []string{short("the series", 1), unknown}},
		{name: "times of rows to come", p: p.timed(), f: tells, texts: []string{
			"t,x,k 2024-03-01,1,0 2024-03-03,2,0 2024-03-06,NA,5"}, want: []string{"3: 2024-03-06 step 1 [[2153]]",
			"3: 2024-03-09 step 2 [[2194]]", "3: 2024-03-12 step 3 [[2195]]"},
			notes: []string{apart(259200), unknown}},
		{name: "a row to come that is closer", p: p.timed(), f: tells, texts: []string{
			"t,x,k 2024-03-01,1,0 2024-03-03,2,0 2024-03-04,NA,5"}, want: []string{"3: 2024-03-04 step 1 [[2153]]",
			"3: 2024-03-07 step 2 [[2194]]", "3: 2024-03-09 step 3 [[2195]]"},
			notes: []string{apart(172800), unknown}},
		{name: "months", p: p.timed(), f: tells, texts: []string{
			"t,x,k 2024-01-31,1,0 2024-02-29,2,0 2024-03-31,3,0"}, want: []string{"4: 2024-04-30 step 1 [[2294]]",
			"4: 2024-05-31 step 2 [[2295]]", "4: 2024-06-30 step 3 [[2296]]"},
			notes: []string{apart(2678400), unknown}},
		{name: "28 days", p: p.timed(), f: tells, texts: []string{
			"t,x,k 2024-01-31,1,0 2024-02-28,2,0"}, want: []string{"3: 2024-03-28 step 1 [[2193]]",
			"3: 2024-04-28 step 2 [[2194]]", "3: 2024-05-28 step 3 [[2195]]"},
			notes: []string{apart(2419200), unknown}},
		{name: "27 days", p: p.timed(), f: tells, texts: []string{
			"t,x,k 2024-01-31,1,0 2024-02-27,2,0"}, want: []string{"3: 2024-03-25 step 1 [[2193]]",
			"3: 2024-04-21 step 2 [[2194]]", "3: 2024-05-18 step 3 [[2195]]"},
			notes: []string{apart(2332800), unknown}},
		{name: "32 days", p: p.timed(), f: tells, texts: []string{
			"t,x,k 2024-01-31,1,0 2024-03-03,2,0"}, want: []string{"3: 2024-04-04 step 1 [[2193]]",
			"3: 2024-05-06 step 2 [[2194]]", "3: 2024-06-07 step 3 [[2195]]"},
			notes: []string{apart(2764800), unknown}},
		{name: "no value", p: p.named(), f: tells, texts: []string{"s,x,k a,1,0 b,NA,1 a,2,0 b,NA,2"}, want: []string{
			"a4: step 1 [[2193]]", "a4: step 2 [[2194]]", "a4: step 3 [[2195]]",
			"a.csv, line 3, column x: found no number in the series \"b\", want some"}, notes: []string{unknown}},
		{name: "as rows come", p: p.timed(), f: tells, opt: live, texts: []string{ahead}, want: []string{
			"2: 2024-03-02 step 1 [[2992]]", "2: 2024-03-03 step 2 [[2993]]", "2: 2024-03-04 step 3 [[2994]]",
			"3: 2024-03-03 step 1 [[2193]]", "3: 2024-03-04 step 2 [[2194]]", "3: 2024-03-05 step 3 [[2195]]",
			"7: 2024-03-04 step 1 [[2264]]", "7: 2024-03-06 step 2 [[2275]]", "7: 2024-03-07 step 3 [[2296]]"},
			notes: []string{short("the series", 1), unknown}},
		{name: "the same time", p: p.timed(), f: tells, opt: live, texts: []string{ahead + " 2024-03-03,4,1"},
			want: []string{"2: 2024-03-02 step 1 [[2992]]", "2: 2024-03-03 step 2 [[2993]]",
				"2: 2024-03-04 step 3 [[2994]]", "3: 2024-03-03 step 1 [[2193]]", "3: 2024-03-04 step 2 [[2194]]",
				"3: 2024-03-05 step 3 [[2195]]", "7: 2024-03-04 step 1 [[2264]]", "7: 2024-03-06 step 2 [[2275]]",
				"7: 2024-03-07 step 3 [[2296]]",
				"a.csv, line 8, column t: found the time 2024-03-03T00:00:00Z, which is not after that of the " +
					"row before, " +
					"want times that rise within a series"}, notes: []string{short("the series", 1), unknown}},
		{name: "a series too many", p: p.named(), f: tells, opt: PredictOptions{Live: true, Series: 1},
			texts: []string{"s,x,k a,1,0 b,2,1"}, want: []string{"a2: step 1 [[2992]]", "a2: step 2 [[2993]]",
				"a2: step 3 [[2994]]", "a.csv, line 3, column s: found more than 1 series at a time, want at " +
					"most that"},
			notes: []string{short("the series \"a\"", 1), unknown}},
	} {
		s.check(t)
	}
}

// TestPredictRecent checks that intervals are those of the contender, widened by a conformal quantile, at each step and
// for each target. It is that of the distances of the truths outside of the intervals of the last forecasts whose
// horizon has passed. It tests live rows and the end of a series that is longer than what is remembered of it.
func TestPredictRecent(t *testing.T) {
	const rows, recent, horizon = 700, 200, 2
	var x [2][]float64
	line := func(i int, known bool) string {
		if !known {
			return dateOf(i) + ",,\n"
		}
		return fmt.Sprintf("%s,%g,%g\n", dateOf(i), x[0][i], x[1][i])
	}
	for i := range rows {
		x[0], x[1] = append(x[0], float64(i*i%17)), append(x[1], float64(i*i*i%23)/2)
		if i%29 == 3 {
			x[1][i] = nan
		}
	}
	text := map[bool]string{false: "t,x,z\n", true: "t,x,z\n"} // with live rows, some values are given in advance
	for i := range rows {
		text[false] += line(i, true)
		if i%5 == 0 && i+1 < rows {
			text[true] += line(i+1, false)
		}
		text[true] += line(i, true)
	}
	p := *banded(horizon, recent, 0.25, 0.5, 0.75)
	p.Lookback = 2
	p.Columns = append(p.Columns, number("z", true))
	p = p.timed()
	want := func(now, k, h int) []float64 { // for the forecast that begins with row now
		last := func(at int) float64 {
			if y := x[k][at-1]; y == y {
				return y
			}
			return x[k][at-2]
		}
		var off []float64
		for at := now - horizon - recent + 1; at <= now-horizon; at++ {
			if truth := x[k][at+h]; at%3 == 0 && truth == truth { // for 96 in 200 rows
				off = append(off, max(last(at)-1-truth, truth-last(at)-2))
			}
		}
		slices.Sort(off)
		e := off[int(math.Ceil(0.5*float64(len(off)+1)))-1]
		return []float64{min(last(now), last(now)-1-e), last(now), max(last(now), last(now)+2+e)}
	}
	first := float64(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	for _, live := range []bool{false, true} {
		m := by(t, &p, func(*encoder, []float32, int, []float64) {})
		m.rival.Off = [][][]float64{{{-1, 0, 2}}, {{-1, 0, 2}}}
		opt, n := PredictOptions{Options: table.DefaultOptions(), Live: live}, 0
		err := m.Predict(background(), []string{"-"}, strings.NewReader(text[live]), opt, func(p *Prediction) error {
			n++
			now := int((p.Time-first)/day) - p.Step + 1
			if now < recent+horizon+2 {
				return nil
			}
			for k, got := range p.Quantiles {
				sameNumbers(t, fmt.Sprintf("live %v, target %d from row %d, step %d", live, k, now, p.Step), got,
					want(now, k, p.Step-1), 1e-5)
			}
			return nil
		})
		if count := map[bool]int{false: horizon, true: rows * horizon}[live]; n != count || err != nil {
			t.Errorf("live %v: found %d forecasts, %v, want %d", live, n, err, count)
		}
	}
}

// dateOf returns day i from 2020 on.
func dateOf(i int) string { return time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) }

// TestPredictLong checks that a forecast of a long series sees as many rows as it may, wherever the series ends, and
// the future rows.
func TestPredictLong(t *testing.T) {
	p := Plan{Task: Forecast, Lookback: 2, Horizon: 3, Levels: []float64{0.5}, Columns: []Column{number("x", true),
		number("k", false)}}
	p.Columns[1].Known, p.Columns[0].High, p.Columns[1].High = true, 100, 100
	text := "x,k\n"
	for n := range 40 {
		text += fmt.Sprintf("%d,0\n", n)
		for _, live := range []bool{false, true} {
			var got *Prediction
			m := seeing(t, &p, 4, tells)
			opt, rows := PredictOptions{Options: table.DefaultOptions(), Live: live}, text+"NA,1\nNA,2\nNA,3\n"
			if live {
				rows = text
			}
			err := m.Predict(background(), []string{"-"}, strings.NewReader(rows), opt, func(p *Prediction) error {
				got = p
				return nil
			})
			seen, first, known := max(2, min(4, n+1)), float64(max(0, n-3)), 3.0
			if n == 0 {
				first = 9
			}
			if live {
				known = 9
			}
			if want := 1000*float64(seen) + 100*first + 10*known + 3 + float64(n); err != nil ||
				got.Quantiles[0][0] != want {
				t.Errorf("%d rows, live %v: found %v, %v, want %v", n+1, live, got, err, want)
			}
		}
	}
}

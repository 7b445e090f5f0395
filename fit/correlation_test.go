package fit

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestPeaks checks the definition of a peak: it is higher than the value before it and not lower than the one after it,
// and exceeds the higher of its valleys by the required amount. A valley ends at a higher peak. Ends are not peaks.
func TestPeaks(t *testing.T) {
	for _, c := range []struct {
		r, at string // at is all indices if empty
		least float64
		want  []int
	}{
		{"8 0 4 0 4 0", "", 0.5, []int{2, 4}}, {"0 4 4 0", "", 0.5, []int{1}}, {"0 4 4 5", "", 0.1, nil},
		{"0 2 1 4 0", "", 0.125, []int{1, 3}}, {"0 2 1 4 0", "", 0.126, []int{3}}, {"0 2 1 4 0", "", 0.51, nil},
		{"0 4 1 2 0", "", 0.125, []int{1, 3}}, {"0 4 1 2 0", "", 0.126, []int{1}}, {"2 4 0", "", 0.25, []int{1}},
		{"2 4 0", "", 0.26, nil}, {"0 4 2", "", 0.25, []int{1}}, {"0 4 2", "", 0.26, nil}, {"4 0 4", "", 0.1, nil},
		{"4 2 3 2 0", "", 0.125, []int{2}}, {"0 9 5 9 2 9 3", "0 2 4 6", 0.1, []int{2}},
		{"2 2 2 1 3 0 3 0 1", "", 0.25, []int{4, 6}}, {"2 2 2 1 3 0 3 0 1", "", 0.26, []int{6}},
	} {
		numbers := func(text string) (x []float64) {
			for _, c := range text {
				if c != ' ' {
					x = append(x, float64(c-'0'))
				}
			}
			return x
		}
		r, at := numbers(c.r), seqInt(len(numbers(c.r)), 1)
		for i := range r {
			r[i] /= 8
		}
		if c.at != "" {
			at = nil
			for _, x := range numbers(c.at) {
				at = append(at, int(x))
			}
		}
		if got := peaks(r, at, c.least); !slices.Equal(got, c.want) {
			t.Errorf("%+v: found %v", c, got)
		}
	}
}

// TestPeriodsOfPeaks checks that a lag is a period if there is a peak at twice the lag, within a row or three in a
// hundred, that peaks must exceed the noise of the given number of numbers, and that peaks that stand out among the
// peaks give a longer period.
func TestPeriodsOfPeaks(t *testing.T) {
	for _, c := range []struct {
		n     float64
		tops  map[int]float64
		found []int
	}{
		{1e12, map[int]float64{10: 0.5, 20: 0.5}, []int{10}}, {1e12, map[int]float64{10: 0.5, 21: 0.5}, []int{10}},
		{1e12, map[int]float64{10: 0.5, 19: 0.5}, []int{10}}, {1e12, map[int]float64{10: 0.5, 22: 0.5}, nil},
		{1e12, map[int]float64{10: 0.5, 18: 0.5}, nil}, {1e12, map[int]float64{100: 0.5, 203: 0.5}, []int{100}},
		{1e12, map[int]float64{100: 0.5, 204: 0.5}, nil}, {1e12, map[int]float64{100: 0.5, 196: 0.5}, nil},
		{1e12, map[int]float64{7: 0.5, 10: 0.5, 20: 0.5}, []int{10}}, {1e12, map[int]float64{10: 0.0302, 20: 0.5},
			[]int{10}},
		{1e12, map[int]float64{10: 0.0299, 20: 0.5}, nil}, {1e4, map[int]float64{10: 0.0801, 20: 0.5}, []int{10}},
		{1e4, map[int]float64{10: 0.0799, 20: 0.5}, nil}, {0, map[int]float64{10: 0.9, 20: 0.9}, nil},
		{1e12, map[int]float64{10: 0.6, 15: 0.2, 20: 0.6, 25: 0.2}, []int{10}},
		{1e12, map[int]float64{5: 0.4, 10: 0.4, 15: 0.4, 20: 0.8, 25: 0.4, 30: 0.4, 35: 0.4, 40: 0.8, 45: 0.4},
			[]int{5, 20}},
	} {
		r := make([]float64, 220)
		r[0] = 1
		for k, x := range c.tops {
			r[k] = x
		}
		if got := periods(r, c.n); !slices.Equal(got, c.found) {
			t.Errorf("%v of %g numbers: found %v, want %v", c.tops, c.n, got, c.found)
		}
	}
}

// TestCorrelationOfMany checks that the correlation of several columns and series is over the pairs of all, each on its
// own scale. Constant columns do not count, classes count separately up to a limit, and changes are from row to row.
func TestCorrelationOfMany(t *testing.T) {
	p := &Plan{Columns: []Column{number("x", true), number("y", true), category("k", false, "a", "b", "c", "d"),
		number("same", false)}}
	var series [][][]float32
	for s, n := range []int{31, 20} {
		var rows [][]float32
		for i := range n {
			row := []float32{float32((i + s) * i % 11), float32(100 + i*i%7), float32(i * i % 3), 5}
			if i%9 == 4 {
				row[0], row[2] = float32(nan), float32(nan)
			}
			rows = append(rows, row)
		}
		series = append(series, rows)
	}
	f := made(t, p, series...)
	for _, changes := range []bool{false, true} {
		sums, pairs := make([]float64, 16), make([]float64, 16)
		for _, rows := range series {
			for _, of := range [][2]int{{0, -1}, {1, -1}, {2, 0}, {2, 1}, {2, 2}} {
				x := make([]float64, len(rows))
				for i, row := range rows {
					if x[i] = float64(row[of[0]]); of[1] >= 0 && x[i] == x[i] {
						x[i] = float64(bit(int(x[i]) == of[1]))
					}
				}
				if changes {
					for i := len(x) - 1; i > 0; i-- {
						x[i] -= x[i-1]
					}
					x[0] = nan
				}
				n, mean, square := 0.0, 0.0, 0.0
				for _, v := range x {
					if v == v {
						n, mean, square = n+1, mean+v, square+v*v
					}
				}
				mean /= n
				deviation := math.Sqrt(square/n - mean*mean)
				if deviation < 1e-6 {
					continue // class 2 is not a square modulo 3
				}
				for k := range sums {
					for i := 0; i+k < len(x); i++ {
						if y := (x[i] - mean) / deviation * (x[i+k] - mean) / deviation; y == y {
							sums[k], pairs[k] = sums[k]+y, pairs[k]+1
						}
					}
				}
			}
		}
		for k := range sums {
			sums[k] /= pairs[k]
		}
		got, n := f.correlation(f.wholeSeries(), []int{0, 1, 2, 3}, changes)
		sameNumbers(t, fmt.Sprint("the correlation, changes: ", changes), got, sums, 1e-6)
		if math.Abs(n-pairs[0]) > 1e-6 {
			t.Errorf("it is of %v numbers, want %v", n, pairs[0])
		}
	}
	if r, n := f.correlation(f.wholeSeries(), []int{3}, false); r != nil || n != 0 {
		t.Errorf("of a constant: %v, %v", r, n)
	}
	gaps := made(t, &Plan{Columns: []Column{number("x", true)}}, column(1, nan, 2, nan, 3, nan, 5, nan, 4, nan))
	if r, n := gaps.correlation(gaps.wholeSeries(), []int{0}, false); math.Round(n) != 5 || math.Abs(r[1]) > 1e-9 ||
		math.Abs(r[2]-0.5) > 1e-9 {
		t.Errorf("of every second row: found %v of %v numbers", r, n)
	}
	p.Columns[2].Classes = make([]string, 40)
	rows := make([][]float32, 40)
	for i := range rows {
		rows[i] = []float32{0, 0, float32(i), float32(i)}
	}
	g := made(t, p, rows)
	if _, n := g.correlation(g.wholeSeries(), []int{2, 3}, false); math.Abs(n-16*40) > 1e-6 {
		t.Errorf("of 40 classes and a column it is of %v numbers, want 16 times 40", n)
	}
}

// TestCorrelationOfLong checks that only the first rows of long data are used, as many as are enough, and up to as many
// rows of the first series. Numbers that differ only by rounding errors do not count.
func TestCorrelationOfLong(t *testing.T) {
	p := &Plan{Columns: []Column{number("x", true)}}
	x := make([]float64, correlationRows+20)
	for i := range x {
		x[i] = float64(i * i % 7)
	}
	f := made(t, p, column(x...))
	for _, ends := range [][]int{{correlationRows - 10, correlationRows, correlationRows + 10}, {correlationRows + 5}} {
		var all []segment
		lo := 0
		for _, end := range ends {
			all = append(all, segment{0, lo, end})
			lo = end
		}
		if r, n := f.correlation(all, []int{0}, false); math.Round(n) != correlationRows || len(r) != mostLag+1 {
			t.Errorf("segments up to %v: found %d lags of %v numbers", ends, len(r), n)
		}
	}
	for _, c := range []struct{ mean, by, want float64 }{{1, 0.9e-9, 0}, {1, 1.1e-9, 4}, {0, 0.9e-18, 0},
		{0, 1.1e-18, 4},
		{-2, 1.9e-9, 0}, {-2, 2.1e-9, 4}} {
		sums, pairs := make([]float64, 2), make([]float64, 2)
		addProducts([]float64{c.mean + c.by, c.mean - c.by, c.mean + c.by, c.mean - c.by}, sums, pairs)
		if math.Abs(sums[0]-c.want) > 1e-6 || math.Abs(pairs[0]-c.want) > 1e-6 || math.Abs(sums[1]+c.want*3/4) > 1e-6 {
			t.Errorf("%g ± %g: found %v of %v pairs", c.mean, c.by, sums, pairs)
		}
	}
}

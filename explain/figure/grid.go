package figure

import (
	"fmt"
	"math"
)

// MostCells is how many rows, or columns, a map shows at most.
const MostCells = 512

// GridOf is a map of the values at(row, column). More than MostCells rows or columns are averaged; values that are not
// numbers do not count.
func GridOf(rows, cols []string, at func(row, col int) float64) *Map {
	rowStep, colStep := (len(rows)+MostCells-1)/MostCells, (len(cols)+MostCells-1)/MostCells
	m := &Map{RowStep: max(1, rowStep), ColStep: max(1, colStep)}
	m.RowNames, m.ColNames = everyName(rows, m.RowStep), everyName(cols, m.ColStep)
	m.Rows, m.Cols = len(m.RowNames), len(m.ColNames)
	for i := range m.Rows {
		for j := range m.Cols {
			sum, n := 0.0, 0
			for r := i * m.RowStep; r < min(len(rows), (i+1)*m.RowStep); r++ {
				for c := j * m.ColStep; c < min(len(cols), (j+1)*m.ColStep); c++ {
					if v := at(r, c); !math.IsNaN(v) {
						sum, n = sum+v, n+1
					}
				}
			}
			if n == 0 {
				sum = math.NaN()
			}
			m.Values = append(m.Values, sum/float64(max(1, n)))
		}
	}
	return m
}

// everyName are the names of groups of step.
func everyName(names []string, step int) []string {
	if step == 1 {
		return names
	}
	var out []string
	for i := 0; i < len(names); i += step {
		out = append(out, fmt.Sprintf("%s … (%d to %d)", names[i], i, min(i+step, len(names))-1))
	}
	return out
}

// linksTokens is the longest text whose tokens show, when picked, what is left of all others.
const MostLinks = 256

// quantileOf is the quantile of sorted numbers.
func Quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return x[min(len(x)-1, int(q*float64(len(x))))]
}

// someOf leaves at most n of some series, from first to last.
func Some[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	var out []T
	for i := range n {
		out = append(out, all[i*(len(all)-1)/(n-1)])
	}
	return out
}

// hyphens makes a part of a figure's name of a text.
func Slug(text string) string {
	out := []byte(text)
	for i, c := range out {
		switch {
		case c >= 'A' && c <= 'Z':
			out[i] = c + 'a' - 'A'
		case !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9'):
			out[i] = '-'
		}
	}
	return string(out)
}

// Round4 leaves four digits, which is enough for a color.
func Round4(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

// Rounded has four digits, so that pages stay small.
func Rounded(x []float64) Floats {
	out := make(Floats, len(x))
	for i, v := range x {
		if v != 0 {
			scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
			out[i] = math.Round(v*scale) / scale
		}
	}
	return out
}

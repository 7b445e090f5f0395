package figure

import (
	"fmt"
	"math"
)

// MostCells is the maximum number of rows, and of columns, of a map.
const MostCells = 512

// GridOf returns a map of the values at(row, column). If there are more than MostCells rows or columns, adjacent ones
// are averaged. NaN values are ignored.
func GridOf(rows, cols []string, at func(row, col int) float64) *Map {
	rowStep, colStep := (len(rows)+MostCells-1)/MostCells, (len(cols)+MostCells-1)/MostCells
	m := Means(len(rows), len(cols), max(1, rowStep), max(1, colStep), at)
	m.RowNames, m.ColNames = everyName(rows, m.RowStep), everyName(cols, m.ColStep)
	return m
}

// Means returns a map of the values at(row, column). Each cell is the mean of rowStep × colStep values. NaN values are
// ignored.
func Means(rows, cols, rowStep, colStep int, at func(row, col int) float64) *Map {
	m := &Map{Rows: (rows + rowStep - 1) / rowStep, Cols: (cols + colStep - 1) / colStep, RowStep: rowStep,
		ColStep: colStep}
	for i := range m.Rows {
		for j := range m.Cols {
			sum, n := 0.0, 0
			for r := i * rowStep; r < min(rows, (i+1)*rowStep); r++ {
				for c := j * colStep; c < min(cols, (j+1)*colStep); c++ {
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

// everyName returns the names of groups of step rows or columns.
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

// MostLinks is the maximum number of tokens in a text for which a reader can select one to see the values of all
// others.
const MostLinks = 256

// Quantile returns the quantile q of sorted numbers.
func Quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return x[min(len(x)-1, int(q*float64(len(x))))]
}

// Some returns at most n entries of all, evenly spaced from the first to the last.
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

// Slug converts a text to a part of a figure's name.
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

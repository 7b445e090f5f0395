package figure

import (
	"math"
	"strconv"
	"strings"
)

// Number formats a number for a cell of a table with all digits, for files. Pages and pictures round it, see shown.
func Number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Share formats a share of 1 in percent for a cell of a table.
func Share(x float64) string { return Number(100*x) + " %" }

// shownDigits is the number of digits of a number on a page.
const shownDigits = 5

// shown returns a cell in the form for pages: it rounds a number with many digits, and keeps a unit after it.
func shown(cell string) string {
	number, unit, _ := strings.Cut(cell, " ")
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || !strings.ContainsAny(number, ".e") {
		return cell
	}
	if short := strconv.FormatFloat(x, 'g', shownDigits, 64); len(short) < len(number) {
		return short + cell[len(cell)-len(unit)-min(1, len(cell)-len(number)):]
	}
	return cell
}

// shown returns the table in the form for pages.
func (t *Table) shown() *Table {
	out := &Table{Columns: t.Columns}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = shown(cell)
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// round4 rounds to four digits, which are enough for a color.
func round4(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

package status

import (
	"fmt"
	"math"
	"strings"
)

// Curve draws values, in order and evenly spaced, as a picture of height lines of at most width characters:
//
//	4.81 |**
//	     |  *
//	     |   ***
//	1.23 |      ****
//	     +----------
//
// The left margin shows the largest and the smallest value. With more values than columns a column shows the mean of
// its values; NaN and infinite values are left out. Curve returns "" if there is nothing to draw or no room for it
// (less than 3 lines or 16 characters).
func Curve(values []float64, width, height int) string {
	const leastWidth, leastHeight = 16, 3
	if width < leastWidth || height < leastHeight {
		return ""
	}
	rows := height - 1 // without the axis
	low, high := bounds(values)
	if low > high {
		return ""
	}
	top, bottom := fmt.Sprintf("%.3g", high), fmt.Sprintf("%.3g", low)
	margin := max(len(top), len(bottom))
	columns := means(values, width-margin-len(" |"))

	picture := make([][]byte, rows)
	for r := range picture {
		picture[r] = []byte(strings.Repeat(" ", len(columns)))
	}
	for c, v := range columns {
		if math.IsNaN(v) {
			continue
		}
		r := rows / 2 // for a flat curve
		if high > low {
			v = min(max(v, low), high)                   // the mean of huge numbers may have overflowed
			fromTop := (high/2 - v/2) / (high/2 - low/2) // halved, as the differences may overflow too
			r = int(math.Round(fromTop * float64(rows-1)))
		}
		picture[r][c] = '*'
	}

	var b strings.Builder
	for r, line := range picture {
		label := ""
		switch r {
		case 0:
			label = top
		case rows - 1:
			label = bottom
		}
		fmt.Fprintf(&b, "%*s |%s\n", margin, label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(&b, "%*s +%s\n", margin, "", strings.Repeat("-", len(columns)))
	return b.String()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// bounds returns the smallest and the largest finite value, or +Inf and -Inf if there is none.
func bounds(values []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if finite(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

// means divides values into at most n shares and returns the mean of the finite values of each, or NaN if it has none.
func means(values []float64, n int) []float64 {
	n = min(n, len(values))
	columns := make([]float64, n)
	for c := range columns {
		sum, count := 0.0, 0
		for _, v := range values[c*len(values)/n : (c+1)*len(values)/n] {
			if finite(v) {
				sum += v
				count++
			}
		}
		columns[c] = sum / float64(count) // 0/0 is NaN
	}
	return columns
}

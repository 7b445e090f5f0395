package theory

import (
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// mostCells is the maximum number of rows and columns of a map. mostPoints is the maximum number of points of a line in
// a frame.
const (
	mostCells  = 256
	mostPoints = 256
)

// upTo returns 0, 1, ..., n-1 times step.
func upTo(n int, step float64) figure.Floats {
	x := make(figure.Floats, n)
	for i := range x {
		x[i] = float64(i) * step
	}
	return x
}

// evenly returns at most count evenly spaced indices from 0 to n-1, always including the last one.
func evenly(n, count int) []int {
	count = min(n, count)
	at := make([]int, count)
	for i := range at {
		at[i] = (i+1)*n/count - 1
	}
	return at
}

// line returns a series over 0, 1, 2, ...
func line(name string, y []float64) figure.Series {
	return figure.Series{Name: name, X: upTo(len(y), 1), Y: y}
}

// overTime returns a series over times k·dt.
func overTime(name string, y []float64, dt float64) figure.Series {
	return figure.Series{Name: name, X: upTo(len(y), dt), Y: y}
}

// lines returns a panel of lines.
func lines(title, x, y string, series ...figure.Series) figure.Panel {
	return figure.Panel{Title: title, X: figure.Axis{Label: x}, Y: figure.Axis{Label: y},
		Lines: &figure.Lines{Series: series}}
}

// points returns a series of complex numbers in the plane.
func points(name string, z []complex128) figure.Series {
	s := figure.Series{Name: name, Points: true}
	for _, v := range z {
		s.X, s.Y = append(s.X, real(v)), append(s.Y, imag(v))
		s.Labels = append(s.Labels, fmt.Sprintf("%s: %.4g %+.4gi, size %.4g", name, real(v), imag(v), cmplx.Abs(v)))
	}
	return s
}

// plane returns a panel of points in the complex plane.
func plane(title string, circle bool, series ...figure.Series) figure.Panel {
	p := lines(title, "real part", "imaginary part", series...)
	p.Square, p.Lines.Circle = true, circle
	return p
}

// still returns a figure with one frame.
func still(name, title, caption, source string, panels ...figure.Panel) *figure.Figure {
	return &figure.Figure{Name: name, Title: title, Caption: caption, Source: source,
		Frames: []figure.Frame{{Panels: panels}}}
}

// matrixMap returns a map of a matrix with a color for each sign. If the matrix is larger than mostCells, cells are the
// means of blocks, and note says so. Otherwise note is empty.
func matrixMap(m mat.Matrix) (shown *figure.Map, note string) {
	rows, cols := m.Dims()
	step := max(1, (max(rows, cols)+mostCells-1)/mostCells)
	shown = figure.Means(rows, cols, step, step, m.At)
	shown.Diverging = true
	if step > 1 {
		note = fmt.Sprintf("Each cell of a matrix is the mean of %d × %d entries.", step, step)
	} else {
		shown.RowStep, shown.ColStep = 0, 0
	}
	return shown, note
}

// mapPanel returns a panel of a map.
func mapPanel(title, x, y string, m *figure.Map) figure.Panel {
	return figure.Panel{Title: title, X: figure.Axis{Label: x}, Y: figure.Axis{Label: y}, Map: m}
}

// texts returns the numbers 0 to n-1, times step plus from, as text.
func texts(n int, from, step float64) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%.3g", math.Round(1e9*(from+float64(i)*step))/1e9) // avoids -1e-16 for 0
	}
	return names
}

// bounds returns the smallest and largest finite number of several slices, with a margin.
func bounds(all ...[]float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range all {
		for _, v := range x {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo > hi {
		return -1, 1
	}
	margin := 0.05 * (hi - lo)
	if margin == 0 {
		margin = 1
	}
	return lo - margin, hi + margin
}

// rms returns the root mean square of x, 0 if x is empty.
func rms(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	if len(x) == 0 {
		return 0
	}
	return math.Sqrt(sum / float64(len(x)))
}

// relative returns the root mean square of a - b divided by that of b, or only the former if b is zero.
func relative(a, b []float64) float64 {
	diff := floats.SubTo(make([]float64, len(a)), a, b)
	if scale := rms(b); scale > 0 {
		return rms(diff) / scale
	}
	return rms(diff)
}

// picked returns a series of the entries of y at the given indices.
func picked(name string, y []float64, at []int) figure.Series {
	s := figure.Series{Name: name, X: make(figure.Floats, len(at)), Y: make(figure.Floats, len(at))}
	for i, k := range at {
		s.X[i], s.Y[i] = float64(k), y[k]
	}
	return s
}

// dashed returns a series as a dashed line.
func dashed(s figure.Series) figure.Series {
	s.Dashed = true
	return s
}

// stepped returns a series in which each value stays until the next.
func stepped(s figure.Series) figure.Series {
	s.Steps = true
	return s
}

// onLog returns magnitudes of at least the size of rounding errors, so that a logarithmic axis can show them.
func onLog(x []float64) figure.Floats {
	y := make(figure.Floats, len(x))
	for i, v := range x {
		y[i] = max(math.Abs(v), 1e-17)
	}
	return y
}

package figure

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a line prepared for drawing.
type curve struct {
	name   string
	color  color.RGBA
	dash   []vg.Length
	runs   []plotter.XYs // parts without gaps, none of them empty
	bands  []plotter.XYs // polygons
	count  int           // number of points
	points bool          // markers without a line
	dotted bool          // a marker at each point of the line
}

// last returns the point next to the name.
func (c *curve) last() plotter.XY {
	run := c.runs[len(c.runs)-1]
	return run[len(run)-1]
}

// curves returns the series that have something to draw.
func curves(all []Series, x, y Axis) []curve {
	fits := func(v float64, log bool) bool { return math.Abs(v) < largest && !(log && v <= 1/largest) }
	var out []curve
	for i, s := range all {
		k := curve{name: label(s.Name), color: lineColors[i%len(lineColors)], points: s.Points,
			dash: lineDashes[i/len(lineColors)%len(lineDashes)]}
		if s.Dashed {
			k.dash = dashed
		}
		var run plotter.XYs
		for j := range s.X {
			p := plotter.XY{X: s.X[j], Y: s.Y[j]}
			if fits(p.X, x.Log) && fits(p.Y, y.Log) {
				if s.Steps && len(run) > 0 {
					run = append(run, plotter.XY{X: p.X, Y: run[len(run)-1].Y})
				}
				run = append(run, p)
				k.count++
			} else if len(run) > 0 {
				k.runs, run = append(k.runs, run), nil
			}
		}
		if len(run) > 0 {
			k.runs = append(k.runs, run)
		}
		k.dotted = !s.Steps && k.count <= mostDots
		k.bands = bands(s, func(x0, low, high float64) bool {
			return fits(x0, x.Log) && fits(low, y.Log) && fits(high, y.Log)
		})
		if k.count > 0 {
			out = append(out, k)
		}
	}
	return out
}

// bands returns polygons between low and high, one for each part without a gap.
func bands(s Series, fits func(x, low, high float64) bool) []plotter.XYs {
	var all []plotter.XYs
	var above, below plotter.XYs
	end := func() {
		if len(above) > 1 {
			slices.Reverse(below)
			all = append(all, append(above, below...))
		}
		above, below = nil, nil
	}
	for j := range s.Low {
		if !fits(s.X[j], s.Low[j], s.High[j]) {
			end()
			continue
		}
		above = append(above, plotter.XY{X: s.X[j], Y: s.High[j]})
		below = append(below, plotter.XY{X: s.X[j], Y: s.Low[j]})
	}
	end()
	return all
}

// values returns one coordinate of all points of the curves, sorted.
func values(curves []curve, of func(plotter.XY) float64) []float64 {
	var all []float64
	for _, c := range curves {
		for _, parts := range [][]plotter.XYs{c.runs, c.bands} {
			for _, run := range parts {
				for _, p := range run {
					all = append(all, of(p))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// linesDrawer draws lines.
type linesDrawer struct {
	curves         []curve
	x, y           Axis
	square, circle bool
	at             []float64
	legend         bool // above the plot, if names are not next to lines
}

func newLinesDrawer(p *Panel) *linesDrawer {
	l := &linesDrawer{curves: curves(p.Lines.Series, p.X, p.Y), x: p.X, y: p.Y, square: p.Square,
		circle: p.Lines.Circle && !p.X.Log && !p.Y.Log, at: slices.Clone(p.Lines.At)}
	l.at = slices.DeleteFunc(l.at, func(x float64) bool { return p.X.Log && x <= 1/largest })
	const mostBeside = 12 // names
	// If the end of the axis is given, a line may end far from the names.
	l.legend = p.Square || p.X.Min != p.X.Max || len(l.curves) > mostBeside ||
		slices.ContainsFunc(l.curves, func(c curve) bool { return c.points })
	return l
}

func (l *linesDrawer) height(width vg.Length) vg.Length {
	if l.square {
		return min(width, 11*vg.Centimeter)
	}
	return min(max(width*.55, 5.5*vg.Centimeter), 9*vg.Centimeter)
}

func (l *linesDrawer) draw(page draw.Canvas) {
	var names names
	if l.legend {
		page.Max.Y = drawLegend(page, l.curves)
	} else {
		names = newNames(l.curves, page.Size().X*mostForNames, page.Size().Y)
	}
	area := draw.Crop(page, 0, -names.width, 0, 0)
	of := func(get func(plotter.XY) float64) []float64 {
		all := values(l.curves, get)
		if l.circle {
			all = append(all, -1.05, 1.05)
			slices.Sort(all)
		}
		return all
	}
	x := axisOf(l.x, of(func(p plotter.XY) float64 { return p.X }), false)
	y := axisOf(l.y, of(func(p plotter.XY) float64 { return p.Y }), true)
	p := newPlot(area, x, y, label(l.x.Label))
	if l.square && !x.log && !y.log {
		size := p.DataCanvas(area).Size()
		x, y = sameScale(x, y, float64(size.X/size.Y))
		p = newPlot(area, x, y, label(l.x.Label))
	}
	p.Add(grid{})
	p.Draw(area)

	data := p.DataCanvas(area)
	toX, toY := p.Transforms(&data)
	place := func(p plotter.XY) vg.Point { return vg.Point{X: toX(p.X), Y: toY(p.Y)} }
	pale := draw.LineStyle{Color: paleColor, Width: gridWidth, Dashes: []vg.Length{3, 2}}
	if l.circle {
		data.StrokeLines(pale, data.ClipLinesXY(circle(place))...)
	}
	for _, at := range l.at {
		line := []vg.Point{{X: toX(at), Y: data.Min.Y}, {X: toX(at), Y: data.Max.Y}}
		data.StrokeLines(pale, data.ClipLinesXY(line)...)
	}
	clip := l.x.Min != l.x.Max || l.y.Min != l.y.Max
	for i := range l.curves {
		l.curves[i].drawBand(data, place)
	}
	for i := range l.curves {
		l.curves[i].draw(data, place, clip)
	}
	if !l.legend {
		inside := func(p plotter.XY) vg.Point {
			at := place(p)
			return vg.Point{X: min(max(at.X, data.Min.X), data.Max.X), Y: min(max(at.Y, data.Min.Y), data.Max.Y)}
		}
		names.draw(page, data, inside)
	}
}

// circle returns the points of the unit circle.
func circle(place func(plotter.XY) vg.Point) []vg.Point {
	const n = 180
	points := make([]vg.Point, n+1)
	for i := range points {
		y, x := math.Sincos(2 * math.Pi * float64(i) / n)
		points[i] = place(plotter.XY{X: x, Y: y})
	}
	return points
}

// sameScale widens one of two axes so that a unit has the same length on both. wide is the ratio of the data area's
// width to its height.
func sameScale(x, y axis, wide float64) (axis, axis) {
	spanX, spanY := x.hi-x.lo, y.hi-y.lo
	wanted := max(spanX, spanY*wide)
	grow := func(a axis, span float64) axis {
		middle := (a.lo + a.hi) / 2
		return newAxis([]float64{middle - span/2, middle + span/2}, false, false)
	}
	return grow(x, wanted), grow(y, wanted/wide)
}

// mostDots is the maximum number of points of a line for which each has a dot. On a longer line the dots would merge.
const mostDots = 25

// drawBand fills the band around the line.
func (c *curve) drawBand(area draw.Canvas, place func(plotter.XY) vg.Point) {
	tint := color.NRGBA{c.color.R, c.color.G, c.color.B, 46}
	for _, band := range c.bands {
		points := make([]vg.Point, len(band))
		for i, p := range band {
			points[i] = place(p)
		}
		area.FillPolygon(tint, area.ClipPolygonXY(points))
	}
}

func (c *curve) draw(area draw.Canvas, place func(plotter.XY) vg.Point, clip bool) {
	line := draw.LineStyle{Color: c.color, Width: lineWidth, Dashes: c.dash}
	for _, run := range c.runs {
		points := make([]vg.Point, len(run))
		for i, p := range run {
			points[i] = place(p)
		}
		parts := [][]vg.Point{points}
		if clip {
			parts = area.ClipLinesXY(points)
		}
		if !c.points {
			area.StrokeLines(line, parts...)
		}
		radius := dotRadius
		switch {
		case c.points && c.count > 400:
			radius = dotRadius / 2
		case c.points:
		case c.count == 1:
			radius = markerRadius
		case !c.dotted && len(run) > 1:
			continue
		}
		for _, p := range points {
			if !clip || area.Contains(p) {
				area.DrawGlyphNoClip(draw.GlyphStyle{Color: c.color, Radius: radius, Shape: draw.CircleGlyph{}}, p)
			}
		}
	}
}

// drawLegend writes the names of curves in rows at the top. It returns the top of the remaining area.
func drawLegend(page draw.Canvas, all []curve) vg.Length {
	const mark, gap, mostRows = vg.Length(12), vg.Length(10), 4
	s := letters(textSize, inkColor)
	line := s.FontExtents().Height * 1.15
	x, y, rows := page.Min.X, page.Max.Y, 1
	drawn := false
	for _, c := range all {
		if c.name == "" {
			continue
		}
		width := mark + 4 + s.Width(c.name)
		if x+width > page.Max.X && x > page.Min.X {
			if rows++; rows > mostRows {
				break
			}
			x, y = page.Min.X, y-line
		}
		middle := y - line/2
		if c.points {
			page.DrawGlyphNoClip(draw.GlyphStyle{Color: c.color, Radius: 2.5, Shape: draw.CircleGlyph{}},
				vg.Point{X: x + mark/2, Y: middle})
		} else {
			line := draw.LineStyle{Color: c.color, Width: lineWidth, Dashes: c.dash}
			page.StrokeLine2(line, x, middle, x+mark, middle)
		}
		page.FillText(s, vg.Point{X: x + mark + 4, Y: y}, c.name)
		x, drawn = x+width+gap, true
	}
	if !drawn {
		return page.Max.Y
	}
	return y - line - 8
}

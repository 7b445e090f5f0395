package figure

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// barsDrawer draws bars by name.
type barsDrawer struct{ *Panel }

// mostBars is the maximum number of bars drawn. If there are more, the first ones are drawn.
const mostBars = 120

func (b *barsDrawer) count() int { return min(len(b.Bars.Names), mostBars) }

// side returns the number of bars side by side.
func (b *barsDrawer) side() int {
	if b.Bars.Stack {
		return 1
	}
	return max(1, len(b.Bars.Series))
}

func (b *barsDrawer) height(width vg.Length) vg.Length {
	if b.Bars.Across {
		return vg.Length(max(1, b.count()))*max(12, 7*vg.Length(b.side())) + 56
	}
	return min(width*.5, 7.5*vg.Centimeter)
}

func (b *barsDrawer) draw(page draw.Canvas) {
	curves := make([]curve, len(b.Bars.Series))
	for i, s := range b.Bars.Series {
		curves[i] = curve{name: label(s.Name), color: lineColors[i%len(lineColors)], points: true}
	}
	if len(curves) > 1 {
		page.Max.Y = drawLegend(page, curves)
	}
	n := b.count()
	if n == 0 || len(curves) == 0 {
		return
	}
	p := plot.New()
	style(p)
	names, numbers := &p.X, &p.Y
	if b.Bars.Across {
		names, numbers = numbers, names
		p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
		p.X.LineStyle.Width = 0
	}
	p.X.Label.Text = label(b.X.Label)
	valueAxis := b.Y
	if b.Bars.Across {
		valueAxis = b.X
	}
	valueAxis.Log = false // bars start at 0
	axisOf(valueAxis, b.ends(n), true).set(numbers)
	names.Min, names.Max = -.5, float64(n)-.5
	room := page.Size().X - 50
	if b.Bars.Across {
		room = page.Size().Y - 40
	}
	each := room / vg.Length(n)
	var ticks plot.ConstantTicks
	for i := 0; i < n; i += max(1, int(math.Ceil(float64(9/each)))) {
		const most = 24 // letters
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: visible(short(b.Bars.Names[i], most))})
	}
	names.Tick.Marker = ticks
	if !b.Bars.Across && slices.ContainsFunc(ticks, func(t plot.Tick) bool {
		return names.Tick.Label.Width(t.Label) > each-2
	}) {
		names.Tick.Label.Rotation = math.Pi / 2
		names.Tick.Label.XAlign, names.Tick.Label.YAlign = text.XRight, text.YCenter
	}
	p.Add(valueGrid{b.Bars.Across})
	width := each * .78 / vg.Length(b.side())
	var below, above *plotter.BarChart // stacks on both sides of 0
	for i, s := range b.Bars.Series {
		if !b.Bars.Stack {
			c := b.bar(s.Y[:n], i, width)
			c.Offset = width * (vg.Length(i) - vg.Length(b.side()-1)/2)
			if b.Bars.Across {
				c.Offset = -c.Offset // the first on top
			}
			p.Add(c)
			continue
		}
		up, down := make([]float64, n), make([]float64, n)
		for j, v := range s.Y[:n] {
			if v > 0 {
				up[j] = v
			} else {
				down[j] = v
			}
		}
		a, d := b.bar(up, i, width), b.bar(down, i, width)
		if above != nil {
			a.StackOn(above)
			d.StackOn(below)
		}
		above, below = a, d
		p.Add(a, d)
	}
	p.Draw(page)
}

// bar returns the bars of a series. NaN and infinite values have no bar.
func (b *barsDrawer) bar(values []float64, i int, width vg.Length) *plotter.BarChart {
	all := make(plotter.Values, len(values))
	for j, v := range values {
		if math.Abs(v) < largest {
			all[j] = v
		}
	}
	return &plotter.BarChart{Values: all, Width: width, Color: lineColors[i%len(lineColors)],
		Horizontal: b.Bars.Across}
}

// ends returns the smallest and the largest value that bars reach, and 0, sorted.
func (b *barsDrawer) ends(n int) []float64 {
	lo, hi := 0.0, 0.0
	for j := range n {
		up, down := 0.0, 0.0
		for _, s := range b.Bars.Series {
			switch v := s.Y[j]; {
			case !(math.Abs(v) < largest):
			case !b.Bars.Stack:
				up, down = max(up, v), min(down, v)
			case v > 0:
				up += v
			default:
				down += v
			}
		}
		lo, hi = min(lo, down), max(hi, up)
	}
	return []float64{lo, hi}
}

// valueGrid draws thin lines at the numbers of bars, and a darker one at 0.
type valueGrid struct{ across bool }

// Plot implements plot.Plotter.
func (g valueGrid) Plot(area draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&area)
	line := func(v float64, s draw.LineStyle) {
		if g.across {
			area.StrokeLine2(s, toX(v), area.Min.Y, toX(v), area.Max.Y)
		} else {
			area.StrokeLine2(s, area.Min.X, toY(v), area.Max.X, toY(v))
		}
	}
	numbers := p.Y
	if g.across {
		numbers = p.X
	}
	for _, tick := range numbers.Tick.Marker.Ticks(numbers.Min, numbers.Max) {
		line(tick.Value, draw.LineStyle{Color: gridColor, Width: gridWidth})
	}
	if numbers.Min <= 0 && numbers.Max >= 0 {
		line(0, draw.LineStyle{Color: axisColor, Width: gridWidth})
	}
}

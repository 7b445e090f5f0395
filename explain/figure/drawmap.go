package figure

import (
	"image"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mapDrawer draws a matrix in colors, with a color bar next to it.
type mapDrawer struct {
	*Map
	x, y   Axis
	square bool
	scale  scale
}

func newMapDrawer(p *Panel) *mapDrawer {
	m := p.Map
	return &mapDrawer{Map: m, x: p.X, y: p.Y, square: p.Square,
		scale: newScale(m.Values, m.Min, m.Max, m.Log, m.Diverging)}
}

// barRoom is the width of the color bar with its numbers.
const barRoom = vg.Length(46)

func (m *mapDrawer) height(width vg.Length) vg.Length {
	// A matrix is about as high as it is wide, with a minimum if it has few rows.
	cells := float64(m.Rows) / float64(m.Cols)
	inside := (width - barRoom - 40) * vg.Length(min(max(cells, .15), 1.2))
	return max(min(inside, 12*vg.Centimeter), vg.Length(min(m.Rows, 20))*12, 2.5*vg.Centimeter) + 40
}

func (m *mapDrawer) draw(page draw.Canvas) {
	area := draw.Crop(page, 0, -barRoom, 0, 0)
	p := plot.New()
	style(p)
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Label.Text, p.Y.Label.Text = label(m.x.Label), label(m.y.Label)
	p.Y.Label.TextStyle.XAlign, p.Y.Label.TextStyle.YAlign = text.XCenter, text.YBottom
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(m.Cols), 0, float64(m.Rows)
	const lowest = vg.Length(16) // minimum distance between names, from line to line
	p.X.Tick.Marker = cellTicks(m.ColNames, m.Cols, m.ColStep, m.x, area.Size().X-60, lowest)
	p.Y.Tick.Marker = cellTicks(m.RowNames, m.Rows, m.RowStep, m.y, area.Size().Y-40, lowest*.7)
	if len(m.ColNames) > 0 {
		p.X.Tick.Label.Rotation = math.Pi / 2
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YCenter
	}
	p.Draw(area)
	data := p.DataCanvas(area)
	data.DrawImage(data.Rectangle, m.picture())
	data.StrokeLines(draw.LineStyle{Color: axisColor, Width: gridWidth}, []vg.Point{
		data.Min, {X: data.Max.X, Y: data.Min.Y}, data.Max, {X: data.Min.X, Y: data.Max.Y}, data.Min})
	bar := data
	bar.Min.X, bar.Max.X = area.Max.X+8, area.Max.X+16
	m.drawBar(bar)
}

// cellTicks returns names at the middle of cells, or numbers if there are no names: as many as there is room for.
func cellTicks(names []string, n, step int, a Axis, room, each vg.Length) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	if len(names) > 0 {
		every := max(1, int(math.Ceil(float64(n)*float64(each)/float64(max(room, each)))))
		for i := 0; i < n; i += every {
			const most = 16 // letters
			ticks = append(ticks, plot.Tick{Value: float64(i) + .5, Label: visible(short(names[i], most))})
		}
		return ticks
	}
	if a.Min == a.Max { // numbers of cells, at their middles
		each := float64(max(step, 1))
		for _, tick := range newAxis([]float64{0, max(1, float64(n)*each-1)}, false, false).ticks {
			if tick.Value == math.Trunc(tick.Value) && tick.Value < float64(n)*each {
				tick.Value = math.Floor(tick.Value/each) + .5
				ticks = append(ticks, tick)
			}
		}
		return ticks
	}
	for _, tick := range newAxis([]float64{a.Min, a.Max}, false, false).ticks {
		tick.Value = (tick.Value - a.Min) / (a.Max - a.Min) * float64(n)
		ticks = append(ticks, tick)
	}
	return ticks
}

// picture returns an image with several pixels for each cell, so that viewers do not blur it.
func (m *mapDrawer) picture() image.Image {
	const least = 800
	k := max(1, (least+max(m.Rows, m.Cols)-1)/max(m.Rows, m.Cols))
	img := image.NewRGBA(image.Rect(0, 0, m.Cols*k, m.Rows*k))
	for r := range m.Rows {
		first := img.Pix[r*k*img.Stride:][:img.Stride]
		for c := range m.Cols {
			color := m.scale.at(m.Values[r*m.Cols+c])
			for i := range k {
				copy(first[4*(c*k+i):], []byte{color.R, color.G, color.B, 255})
			}
		}
		for i := 1; i < k; i++ {
			copy(img.Pix[(r*k+i)*img.Stride:][:img.Stride], first)
		}
	}
	return img
}

// drawBar draws the color bar with its numbers.
func (m *mapDrawer) drawBar(bar draw.Canvas) {
	const steps = 64
	s := m.scale
	lo := s.lo
	if s.diverging {
		lo = -s.hi
	}
	value := func(t float64) float64 { // returns the value for a height on the bar
		switch {
		case s.log && s.diverging:
			size := s.lo * math.Pow(s.hi/s.lo, math.Abs(2*t-1))
			return math.Copysign(size, 2*t-1)
		case s.log:
			return s.lo * math.Pow(s.hi/s.lo, t)
		}
		return lo + t*(s.hi-lo)
	}
	high := bar.Size().Y
	for i := range steps {
		y0, y1 := bar.Min.Y+high*vg.Length(i)/steps, bar.Min.Y+high*vg.Length(i+1)/steps
		bar.FillPolygon(s.at(value((float64(i)+.5)/steps)), []vg.Point{{X: bar.Min.X, Y: y0}, {X: bar.Max.X, Y: y0},
			{X: bar.Max.X, Y: y1 + .3}, {X: bar.Min.X, Y: y1 + .3}})
	}
	words := letters(textSize*.9, paleColor)
	words.YAlign = text.YCenter
	write := func(t float64, label string) {
		bar.FillText(words, vg.Point{X: bar.Max.X + 3, Y: bar.Min.Y + high*vg.Length(t)}, label)
	}
	switch {
	case s.log && s.diverging:
		for _, t := range []float64{0, .5, 1} {
			v := value(t)
			if t == .5 {
				v = 0
			}
			write(t, valueText(v))
		}
	default:
		for _, tick := range newAxis([]float64{lo, s.hi}, s.log, false).ticks {
			t := (tick.Value - lo) / (s.hi - lo)
			if s.log {
				t = math.Log(tick.Value/lo) / math.Log(s.hi/lo)
			}
			if t >= -.01 && t <= 1.01 {
				write(t, tick.Label)
			}
		}
	}
	if m.Unit != "" {
		words.XAlign, words.YAlign = text.XRight, text.YBottom
		const most = 24 // letters
		bar.FillText(words, vg.Point{X: bar.Max.X + 30, Y: bar.Max.Y + 5}, visible(short(m.Unit, most)))
	}
}

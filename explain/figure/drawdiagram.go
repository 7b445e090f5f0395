package figure

import (
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// diagramDrawer draws boxes and arrows.
type diagramDrawer struct{ *Diagram }

// boxStepX and boxStepY are the distances of two boxes whose positions differ by 1. boxPartX and boxPartY are the parts
// of them that a box takes. The page's script has the same numbers (assets/diagram.js).
const (
	boxStepX = vg.Length(104)
	boxStepY = vg.Length(50)
	boxPartX = .82
	boxPartY = .66
)

// extent returns the smallest position of the boxes, and the size of the whole.
func (d *diagramDrawer) extent() (x, y, wide, high float64) {
	if len(d.Nodes) == 0 {
		return 0, 0, 1, 1
	}
	x, y = math.Inf(1), math.Inf(1)
	right, down := math.Inf(-1), math.Inf(-1)
	for _, n := range d.Nodes {
		x, y, right, down = min(x, n.X), min(y, n.Y), max(right, n.X), max(down, n.Y)
	}
	return x, y, right - x + 1, down - y + 1
}

// size returns the scale of the diagram: 1, or less if it would be too wide or too high.
func (d *diagramDrawer) size(width vg.Length) vg.Length {
	const highest = 40 * vg.Centimeter
	_, _, wide, high := d.extent()
	return min(1, width/(vg.Length(wide)*boxStepX), highest/(vg.Length(high)*boxStepY))
}

func (d *diagramDrawer) height(width vg.Length) vg.Length {
	_, _, _, high := d.extent()
	return max(1, vg.Length(high)*boxStepY*d.size(width))
}

func (d *diagramDrawer) draw(page draw.Canvas) {
	x0, y0, wide, _ := d.extent()
	k := d.size(page.Size().X)
	stepX, stepY := boxStepX*k, boxStepY*k
	half := vg.Point{X: stepX * boxPartX / 2, Y: stepY * boxPartY / 2}
	page.Min.X += (page.Size().X - stepX*vg.Length(wide)) / 2
	places := map[string]vg.Point{}
	for _, n := range d.Nodes {
		places[n.ID] = vg.Point{X: page.Min.X + stepX*vg.Length(n.X-x0+.5), Y: page.Max.Y - stepY*vg.Length(n.Y-y0+.5)}
	}
	words := letters(textSize*max(k, .4), paleColor)
	words.XAlign, words.YAlign = text.XCenter, text.YBottom
	for _, e := range d.Edges {
		drawArrow(page, places[e.From], places[e.To], half, k)
		if e.Label != "" {
			a, b := places[e.From], places[e.To]
			page.FillText(words, vg.Point{X: (a.X + b.X) / 2, Y: (a.Y+b.Y)/2 + 2}, label(e.Label))
		}
	}
	kinds := map[string]color.RGBA{}
	for _, n := range d.Nodes {
		ground, ok := kinds[n.Kind]
		if !ok {
			ground = kindColors[len(kinds)%len(kindColors)]
			kinds[n.Kind] = ground
		}
		at := places[n.ID]
		box := []vg.Point{{X: at.X - half.X, Y: at.Y - half.Y}, {X: at.X + half.X, Y: at.Y - half.Y},
			{X: at.X + half.X, Y: at.Y + half.Y}, {X: at.X - half.X, Y: at.Y + half.Y}}
		page.FillPolygon(ground, box)
		page.StrokeLines(draw.LineStyle{Color: axisColor, Width: gridWidth}, append(box, box[0]))
		d.drawLabel(page, n.Label, at, half)
	}
}

// drawLabel writes the lines of a box in letters that fit.
func (d *diagramDrawer) drawLabel(page draw.Canvas, words string, at, half vg.Point) {
	const most = 6
	lines := strings.Split(words, "\n")
	lines = lines[:min(len(lines), most)]
	s := letters(textSize, inkColor)
	s.XAlign, s.YAlign = text.XCenter, text.YCenter
	for i, line := range lines {
		lines[i] = label(line)
	}
	for s.Font.Size > 3 {
		high, wide := vg.Length(len(lines))*s.FontExtents().Height, vg.Length(0)
		for _, line := range lines {
			wide = max(wide, s.Width(line))
		}
		if high <= 2*half.Y && wide <= 2*half.X-4 {
			break
		}
		s.Font.Size -= .5
	}
	step := s.FontExtents().Height
	for i, line := range lines {
		y := at.Y + step*(vg.Length(len(lines)-1)/2-vg.Length(i))
		page.FillText(s, vg.Point{X: at.X, Y: y}, cut(line, s, 2*half.X-2))
	}
}

// drawArrow draws an arrow from the border of one box to that of another.
func drawArrow(page draw.Canvas, from, to, half vg.Point, k vg.Length) {
	dx, dy := float64(to.X-from.X), float64(to.Y-from.Y)
	if dx == 0 && dy == 0 {
		return
	}
	// The part of the arrow that is inside a box.
	inside := min(float64(half.X)/max(math.Abs(dx), 1e-9), float64(half.Y)/max(math.Abs(dy), 1e-9), .5)
	at := func(t float64) vg.Point { return vg.Point{X: from.X + vg.Length(dx*t), Y: from.Y + vg.Length(dy*t)} }
	start, end := at(inside), at(1-inside)
	page.StrokeLine2(draw.LineStyle{Color: paleColor, Width: .8}, start.X, start.Y, end.X, end.Y)
	const length, width = 5.0, 2.2
	size := float64(max(k, .5)) / math.Hypot(dx, dy)
	ux, uy := dx*size, dy*size
	back := vg.Point{X: end.X - vg.Length(ux*length), Y: end.Y - vg.Length(uy*length)}
	page.FillPolygon(paleColor, []vg.Point{end,
		{X: back.X - vg.Length(uy*width), Y: back.Y + vg.Length(ux*width)},
		{X: back.X + vg.Length(uy*width), Y: back.Y - vg.Length(ux*width)}})
}

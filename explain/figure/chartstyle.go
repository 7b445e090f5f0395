package figure

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// lineColors distinguishes lines, also for color-blind readers: Okabe and Ito's palette, jfly.uni-koeln.de/color,
// without its yellow, which is too light for a line on white, and with a gray.
var lineColors = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180,
		233, 255},
	{0, 0, 0, 255}, {127, 127, 127, 255},
}

// dashed is the dash pattern of lines that should be dashed.
var dashed = []vg.Length{5, 3}

// lineDashes distinguishes lines of the same color.
var lineDashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 2, 2, 2}}

var (
	inkColor  = color.RGBA{34, 34, 34, 255}
	paleColor = color.RGBA{96, 96, 96, 255}
	gridColor = color.RGBA{226, 226, 226, 255}
	axisColor = color.RGBA{150, 150, 150, 255}
)

// Lengths of the style.
const (
	margin       = vg.Length(12)
	lineWidth    = vg.Length(1.6)
	gridWidth    = vg.Length(.5)
	dotRadius    = vg.Length(2.1)
	markerRadius = vg.Length(4)

	titleSize = font.Length(12)
	textSize  = font.Length(9)
)

// letters returns a style of text in the sans-serif font of package plot: Liberation Sans.
func letters(size font.Length, c color.Color) text.Style {
	return text.Style{
		Color: c, Handler: plot.DefaultTextHandler, YAlign: text.YTop,
		Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
	}
}

// style sets the common style of all charts. drawWords writes title and labels, not package plot.
func style(p *plot.Plot) {
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		name, ticks := letters(textSize, inkColor), letters(textSize, paleColor)
		name.XAlign, name.YAlign = text.XCenter, text.YBottom
		ticks.XAlign, ticks.YAlign = axis.Tick.Label.XAlign, axis.Tick.Label.YAlign
		axis.Label.TextStyle, axis.Tick.Label = name, ticks
		axis.Label.Padding = 4
		axis.Padding = 4
		axis.LineStyle.Color, axis.LineStyle.Width = axisColor, gridWidth
		axis.Tick.LineStyle.Color, axis.Tick.LineStyle.Width = axisColor, gridWidth
		axis.Tick.Length = 3
	}
	p.Y.LineStyle.Width = 0 // the grid marks it
	p.Y.Tick.LineStyle.Width = 0
}

// grid draws thin lines at the ticks.
type grid struct{}

// Plot implements plot.Plotter.
func (grid) Plot(area draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&area)
	line := draw.LineStyle{Color: gridColor, Width: gridWidth}
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		area.StrokeLine2(line, area.Min.X, toY(tick.Value), area.Max.X, toY(tick.Value))
	}
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		area.StrokeLine2(line, toX(tick.Value), area.Min.Y, toX(tick.Value), area.Max.Y)
	}
}

// wrap divides words into lines no wider than width, at spaces if possible. It returns at most most lines. If words are
// omitted, the last line ends in an ellipsis.
func wrap(words string, s text.Style, width vg.Length, most int) []string {
	var lines []string
	fits := func(line string) bool { return s.Width(line) <= width }
	for rest := strings.Join(strings.Fields(words), " "); rest != ""; {
		end := longestPrefix(rest, fits)
		switch {
		case end == len(rest):
		case len(lines) == most-1:
			end = longestPrefix(rest, func(line string) bool { return fits(line + "…") })
			return append(lines, strings.TrimRight(rest[:end], " ")+"…")
		default:
			if i := strings.LastIndexByte(rest[:end+1], ' '); i > 0 {
				end = i
			}
		}
		lines = append(lines, rest[:end])
		rest = strings.TrimLeft(rest[end:], " ")
	}
	return lines
}

// longestPrefix returns the length of the longest prefix of words that fits, which has at least one letter.
func longestPrefix(words string, fits func(string) bool) int {
	end := 0
	for i, r := range words {
		next := i + len(string(r))
		if end > 0 && !fits(words[:next]) {
			break
		}
		end = next
	}
	return end
}

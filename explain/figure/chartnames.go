package figure

import (
	"cmp"
	"image/color"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The names on the right of the plot.
const (
	mostForNames = .32           // maximum part of the page's width
	beforeName   = vg.Length(14) // from the plot to a name; a thin line joins the name to the end of its line
	nameLines    = 3             // maximum number of lines of a name
)

// names holds the labels next to the right ends of the lines.
type names struct {
	width vg.Length // including the space before them
	style text.Style
	all   []name
}

// name is the name of a line.
type name struct {
	lines []string
	color color.RGBA
	at    plotter.XY
}

// newNames breaks names into lines no wider than most, in letters small enough for all to fit within height.
func newNames(curves []curve, most, height vg.Length) names {
	n := names{style: letters(textSize, inkColor)}
	for size := textSize; ; size -= .5 {
		n.style.Font.Size, n.all = size, nil
		lines := 0
		for _, c := range curves {
			words := c.name
			if c.count == 1 || words == "" {
				words = strings.TrimSpace(words + " " + valueText(c.last().Y))
			}
			wrapped := wrap(words, n.style, most-beforeName, nameLines)
			lines += len(wrapped)
			n.all = append(n.all, name{wrapped, c.color, c.last()})
		}
		if size <= 4 || vg.Length(lines)*n.lineHeight() <= height*.8 {
			break
		}
	}
	for _, one := range n.all {
		for _, line := range one.lines {
			n.width = max(n.width, beforeName+n.style.Width(line))
		}
	}
	return n
}

func (n *names) lineHeight() vg.Length { return n.style.FontExtents().Height * 1.05 }

// draw writes the names to the right of the plot's data, each as close to the end of its line as the others permit.
func (n *names) draw(page, data draw.Canvas, place func(plotter.XY) vg.Point) {
	all := slices.Clone(n.all)
	slices.SortStableFunc(all, func(a, b name) int { return cmp.Compare(place(a.at).Y, place(b.at).Y) })
	var want, height []float64
	for _, one := range all {
		want = append(want, float64(place(one.at).Y))
		height = append(height, float64(vg.Length(len(one.lines))*n.lineHeight()))
	}
	left := data.Max.X + beforeName
	for i, middle := range spread(want, height, float64(data.Min.Y-n.lineHeight()/2),
		float64(data.Max.Y+n.lineHeight()/2)) {
		one := all[i]
		end := place(one.at)
		join := one.color
		join.R, join.G, join.B = lighter(join.R), lighter(join.G), lighter(join.B)
		page.StrokeLine2(draw.LineStyle{Color: join, Width: gridWidth * 1.4}, end.X+dotRadius+1, end.Y, left-3,
			vg.Length(middle))
		s := n.style
		s.Color = color.RGBA{darker(one.color.R), darker(one.color.G), darker(one.color.B), 255}
		top := vg.Length(middle + height[i]/2)
		for k, line := range one.lines {
			page.FillText(s, vg.Point{X: left, Y: top - vg.Length(k)*n.lineHeight()}, line)
		}
	}
}

func lighter(c uint8) uint8 { return 255 - (255-c)/2 }

// darker darkens a component of a line's color, so that letters in this color are readable.
func darker(c uint8) uint8 { return uint8(int(c) * 3 / 4) }

// spread moves boxes in a column apart. Given their wanted centers, in ascending order, and heights, it returns the
// centers closest to the wanted ones, by mean square, such that the boxes do not overlap and stay between lo and hi. If
// there is not enough room, they overlap evenly.
func spread(want, height []float64, lo, hi float64) []float64 {
	total := 0.0
	for _, h := range height {
		total += h
	}
	squeeze := min(1, (hi-lo)/max(total, 1e-9))
	// Blocks of adjacent boxes: the first box, their number, and the low edge of the first.
	type block struct {
		first, count  int
		edges, height float64 // the sum of the low ends that the boxes want for the block; the total height
	}
	low := func(b block) float64 { return min(max(b.edges/float64(b.count), lo), max(lo, hi-b.height)) }
	var blocks []block
	for i, w := range want {
		h := height[i] * squeeze
		b := block{i, 1, w - h/2, h}
		for len(blocks) > 0 {
			above := blocks[len(blocks)-1]
			if low(above)+above.height <= low(b) {
				break
			}
			b = block{above.first, above.count + b.count, above.edges + b.edges - float64(b.count)*above.height,
				above.height + b.height}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	out := make([]float64, len(want))
	for _, b := range blocks {
		at := low(b)
		for i := b.first; i < b.first+b.count; i++ {
			h := height[i] * squeeze
			out[i] = at + h/2
			at += h
		}
	}
	return out
}

// valueText formats a number for readers, with four digits.
func valueText(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

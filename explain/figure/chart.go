package figure

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	xfont "golang.org/x/image/font"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Chart is a picture of lines. All charts have one style: names are next to the right ends of their lines, ticks are
// round numbers, and a line with one point is a marker with its value.
type Chart struct {
	Title    string
	Subtitle string // one line below the title
	X, Y     string // labels of the axes, with units
	LogX     bool   // a logarithmic axis, to compare ratios: points that are not above zero are omitted
	LogY     bool
	Lines    []Line
	At       []float64 // positions of thin vertical lines
}

// Line is one line of a chart, in the order of its points. NaN and infinite points are omitted and leave gaps.
type Line struct {
	Name string
	X, Y []float64
}

// The size of a chart.
const (
	chartWidth  = 18 * vg.Centimeter
	chartHeight = 11 * vg.Centimeter
	chartDPI    = 150
)

// largest is the maximum of the values drawn, and 1/largest the minimum on a logarithmic axis, so that differences and
// ratios stay finite.
const largest = 1e100

// WritePNG writes the chart atomically to the file at path.
func (c Chart) WritePNG(path string) error {
	lines := c.lines()
	if len(lines.curves) == 0 {
		return fmt.Errorf("explain: %s: found no finite points to draw", path)
	}
	canvas := vgimg.NewWith(vgimg.UseWH(chartWidth, chartHeight), vgimg.UseDPI(chartDPI))
	c.draw(draw.New(canvas), lines)
	return disk.WriteFile(path, func(w io.Writer) error {
		_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
		return err
	})
}

// lines returns the part of the chart below its title.
func (c Chart) lines() *linesDrawer {
	p := Panel{X: Axis{Label: c.X, Log: c.LogX}, Y: Axis{Log: c.LogY}, Lines: &Lines{At: c.At}}
	for _, l := range c.Lines {
		n := min(len(l.X), len(l.Y))
		p.Lines.Series = append(p.Lines.Series, Series{Name: l.Name, X: l.X[:n], Y: l.Y[:n]})
	}
	return newLinesDrawer(&p)
}

// draw draws the chart: words above, names on the right, and the plot in the remaining area.
func (c Chart) draw(page draw.Canvas, lines *linesDrawer) {
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	page = draw.Crop(page, margin, -margin, margin, -margin)
	page.Max.Y = c.drawWords(page)
	lines.draw(page)
}

// drawWords writes title, subtitle and the name of the vertical axis at the top left. It returns the top of the
// remaining area.
func (c Chart) drawWords(page draw.Canvas) vg.Length {
	w := &writer{page: page, width: page.Size().X}
	title := letters(titleSize, inkColor)
	title.Font.Weight = xfont.WeightBold
	w.write(c.Title, title, 2, 2)
	w.write(c.Subtitle, letters(textSize, paleColor), 2, 2)
	w.used += 5
	w.write(c.Y, letters(textSize, inkColor), 1, 5)
	return page.Max.Y - w.used
}

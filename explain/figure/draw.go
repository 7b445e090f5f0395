package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
)

// drawer draws the contents of a panel, below its title.
type drawer interface {
	// height returns the preferred height at a width.
	height(width vg.Length) vg.Length
	draw(area draw.Canvas)
}

func newDrawer(p *Panel) drawer {
	switch {
	case p.Map != nil:
		return newMapDrawer(p)
	case p.Bars != nil:
		return &barsDrawer{p}
	case p.Text != nil:
		return newTextDrawer(p.Text)
	case p.Diagram != nil:
		return &diagramDrawer{p.Diagram}
	case p.Table != nil:
		return newTableDrawer(p.Table)
	}
	return newLinesDrawer(p)
}

// panelWidth returns the width of a panel, which depends on the number of columns. More columns are narrower, but
// letters stay readable.
func panelWidth(columns int) vg.Length {
	return map[int]vg.Length{1: 18, 2: 13, 3: 10.5}[min(columns, 3)] * vg.Centimeter
}

// Distances between panels.
const (
	betweenColumns = vg.Length(22)
	betweenRows    = vg.Length(16)
)

// cell is a panel at its position on a sheet.
type cell struct {
	title, y string
	drawer   drawer
	header   vg.Length // height of its title and label
}

// sheet is the layout of a figure on paper.
type sheet struct {
	figure        *Figure
	label         string // label of the frame
	width, height vg.Length
	columns       int
	panel         vg.Length // width of a panel
	words         vg.Length // height of title and caption
	cells         []cell
	rows          []vg.Length // heights of rows
}

// newSheet computes the layout of a frame. It returns an error if there is no such frame.
func newSheet(f *Figure, frame int) (*sheet, error) {
	if frame < 0 || frame >= len(f.Frames) {
		return nil, fmt.Errorf("figure %s: found frame %d, want one from 0 to %d", f.Name, frame, len(f.Frames)-1)
	}
	at := f.Frames[frame]
	s := &sheet{figure: f, columns: min(f.Columns, len(at.Panels))}
	if len(f.Frames) > 1 {
		s.label = at.Label
	}
	if s.columns == 0 {
		s.columns = min(len(at.Panels), 2)
	}
	s.panel = panelWidth(s.columns)
	s.width = 2*margin + vg.Length(s.columns)*s.panel + vg.Length(s.columns-1)*betweenColumns
	s.words = s.drawWords(draw.Canvas{}, s.width-2*margin)
	s.height = 2*margin + s.words
	for i := range at.Panels {
		p := &at.Panels[i]
		c := cell{title: p.Title, y: p.Y.Label, drawer: newDrawer(p)}
		if p.Map != nil || p.Diagram != nil || p.Text != nil || p.Table != nil {
			c.y = "" // a map writes the label at its side
		}
		c.header = c.drawWords(draw.Canvas{}, s.panel)
		if i%s.columns == 0 {
			s.rows = append(s.rows, 0)
		}
		row := &s.rows[len(s.rows)-1]
		*row = max(*row, c.header+c.drawer.height(s.panel))
		s.cells = append(s.cells, c)
	}
	for _, h := range s.rows {
		s.height += h + betweenRows
	}
	const highest = 400 * vg.Centimeter
	if s.height > highest {
		return nil, fmt.Errorf("figure %s: found %d panels, a picture of %.0f cm, want one of %.0f at most: use .html",
			f.Name, len(at.Panels), float64(s.height/vg.Centimeter), float64(highest/vg.Centimeter))
	}
	return s, nil
}

// writer writes lines of words from top to bottom. Without a canvas, it only measures them.
type writer struct {
	page  draw.Canvas
	width vg.Length
	used  vg.Length
}

func (w *writer) write(words string, s draw.TextStyle, most int, after vg.Length) {
	const mostLetters = 2000
	words = visible(short(words, mostLetters))
	if words == "" {
		return
	}
	for _, line := range wrap(words, s, w.width, most) {
		if w.page.Canvas != nil {
			w.page.FillText(s, vg.Point{X: w.page.Min.X, Y: w.page.Max.Y - w.used}, line)
		}
		w.used += s.FontExtents().Height
	}
	w.used += after
}

// drawWords writes title, frame and caption, and returns their height.
func (s *sheet) drawWords(page draw.Canvas, width vg.Length) vg.Length {
	w := &writer{page: page, width: width}
	title := letters(titleSize, inkColor)
	title.Font.Weight = xfont.WeightBold
	w.write(s.figure.Title, title, 2, 3)
	w.write(s.label, letters(textSize, inkColor), 2, 2)
	w.write(s.figure.Caption, letters(textSize, paleColor), 8, 2)
	if s.figure.Source != "" {
		w.write("Source: "+s.figure.Source, letters(textSize, paleColor), 2, 2)
	}
	return w.used + 6
}

// drawWords writes the title of a panel and the name of its vertical axis, and returns their height.
func (c *cell) drawWords(page draw.Canvas, width vg.Length) vg.Length {
	w := &writer{page: page, width: width}
	title := letters(textSize, inkColor)
	title.Font.Weight = xfont.WeightBold
	w.write(c.title, title, 2, 4)
	w.write(c.y, letters(textSize, paleColor), 1, 4)
	return w.used
}

// draw draws a sheet on a canvas of its size.
func (s *sheet) draw(page draw.Canvas) {
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	page = draw.Crop(page, margin, -margin, margin, -margin)
	s.drawWords(page, page.Size().X)
	top := page.Max.Y - s.words
	for i, c := range s.cells {
		row, column := i/s.columns, i%s.columns
		if column == 0 && row > 0 {
			top -= s.rows[row-1] + betweenRows
		}
		area := page
		area.Min.X = page.Min.X + vg.Length(column)*(s.panel+betweenColumns)
		area.Max.X = area.Min.X + s.panel
		area.Max.Y, area.Min.Y = top, top-s.rows[row]
		c.drawWords(area, s.panel)
		area.Max.Y -= c.header
		area.Min.Y = max(area.Min.Y, area.Max.Y-c.drawer.height(s.panel))
		c.drawer.draw(area)
	}
}

// boxedCanvas draws a box for each letter that the font lacks. The font has Latin, Greek, Cyrillic and Hebrew.
type boxedCanvas struct{ *vgimg.Canvas }

// FillString implements vg.Canvas.
func (c boxedCanvas) FillString(f font.Face, at vg.Point, text string) {
	var buffer sfnt.Buffer
	text = strings.Map(func(r rune) rune {
		const joiner = 0x200d
		if i, err := f.Face.GlyphIndex(&buffer, r); err != nil || i == 0 {
			if unicode.Is(unicode.Mn, r) || r == joiner {
				return -1
			}
			return '□'
		}
		return r
	}, text)
	c.Canvas.FillString(f, at, text)
}

// WritePNG draws a frame of a figure at 150 dots per inch. Letters that the font lacks are drawn as boxes; use SVG for
// those.
func (f *Figure) WritePNG(frame int, w io.Writer) error {
	s, err := newSheet(f, frame)
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(chartDPI))
	s.draw(draw.New(boxedCanvas{canvas}))
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// WriteSVG draws a frame of a figure. Letters are text, in the font of all pictures or a similar one.
func (f *Figure) WriteSVG(frame int, w io.Writer) error {
	s, err := newSheet(f, frame)
	if err != nil {
		return err
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(s.width, s.height))
	s.draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	// Texts contain no quotes, which are escaped, so these strings are found only in tags.
	out := bytes.ReplaceAll(b.Bytes(), []byte(`style="font-family:Liberation Sans;`),
		[]byte(`style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;`))
	out = bytes.ReplaceAll(out, []byte(`xlink:href="data:image/jpg;`), []byte(`xlink:href="data:image/png;`))
	_, err = w.Write(out)
	return err
}

// newPlot returns an empty plot in the style of all pictures.
func newPlot(area draw.Canvas, x, y axis, xLabel string) *plot.Plot {
	p := plot.New()
	style(p)
	if lines := wrap(xLabel, p.X.Label.TextStyle, area.Size().X, 1); len(lines) > 0 {
		p.X.Label.Text = lines[0]
	}
	x.set(&p.X)
	y.set(&p.Y)
	return p
}

// axisOf returns the axis for values, which must be sorted, with the limits in a.
func axisOf(a Axis, values []float64, vertical bool) axis {
	if a.Min != a.Max {
		lo, hi := a.Min, a.Max
		if a.Log && hi > 0 {
			const decades = 1e-6
			lo = max(lo, hi*decades)
		}
		if !a.Log || lo > 0 {
			return newAxis([]float64{lo, hi}, a.Log, false)
		}
	}
	if len(values) == 0 {
		values = []float64{1, 2}
		if !a.Log {
			values = []float64{0, 1}
		}
	}
	return newAxis(values, a.Log, vertical)
}

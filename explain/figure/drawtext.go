package figure

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// textDrawer draws tokens in reading order, each on the color of its value.
type textDrawer struct {
	*Text
	scale scale
	style draw.TextStyle
}

func newTextDrawer(t *Text) *textDrawer {
	return &textDrawer{Text: t, scale: newScale(t.Values, t.Min, t.Max, false, t.Diverging),
		style: letters(textSize, inkColor)}
}

// mostTokens is the maximum number of tokens that are drawn.
const mostTokens = 3000

// piece is a token at its position, measured down from the top left.
type piece struct {
	i        int
	x, y     vg.Length
	width    vg.Length
	words    string
	indented vg.Length // space before the words, within the token
}

func (t *textDrawer) lineHeight() vg.Length { return t.style.FontExtents().Height * 1.55 }

// layout returns the positions of the tokens and the total height.
func (t *textDrawer) layout(width vg.Length) ([]piece, vg.Length) {
	var all []piece
	space := t.style.Width(" ")
	x, y := vg.Length(0), vg.Length(0)
	for i, token := range t.Tokens[:min(len(t.Tokens), mostTokens)] {
		words := label(token)
		bare := strings.TrimLeft(words, " ")
		p := piece{i: i, words: bare, indented: space * vg.Length(len(words)-len(bare))}
		p.width = min(p.indented+t.style.Width(bare)+1, width)
		if x > 0 && x+p.width > width {
			x, y = 0, y+t.lineHeight()
		}
		p.x, p.y = x, y
		all = append(all, p)
		x += p.width
		if strings.HasSuffix(token, "\n") {
			x, y = 0, y+t.lineHeight()
		}
	}
	return all, y + t.lineHeight()
}

func (t *textDrawer) height(width vg.Length) vg.Length {
	_, h := t.layout(width)
	return h + t.lineHeight()*1.2
}

func (t *textDrawer) draw(page draw.Canvas) {
	pieces, end := t.layout(page.Size().X)
	line := t.lineHeight()
	for _, p := range pieces {
		v := 0.0
		ground := color.RGBA{255, 255, 255, 255}
		if len(t.Values) > 0 {
			v = t.Values[p.i]
			ground = t.scale.at(v)
		}
		left, top := page.Min.X+p.x, page.Max.Y-p.y
		right, bottom := left+p.width-.6, top-line+2
		box := []vg.Point{{X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}, {X: left, Y: bottom}}
		page.FillPolygon(ground, box)
		if p.i == t.Mark && len(t.Tokens) > 0 {
			page.StrokeLines(draw.LineStyle{Color: lineColors[1], Width: 1.4}, append(box, box[0]))
		}
		s := t.style
		s.Color = inkOn(ground)
		page.FillText(s, vg.Point{X: left + p.indented, Y: top - (line-s.FontExtents().Height)/2 + 1}, p.words)
	}
	said := ""
	if len(t.Values) > 0 {
		lo := t.scale.lo
		if t.Diverging {
			lo = -t.scale.hi
		}
		said = strings.TrimSpace(fmt.Sprintf("Colors from %s to %s %s", valueText(lo), valueText(t.scale.hi),
			label(t.Unit)))
	}
	if left := len(t.Tokens) - len(pieces); left > 0 {
		said += fmt.Sprintf(" · %d more tokens are left out", left)
	}
	page.FillText(letters(textSize*.9, paleColor), vg.Point{X: page.Min.X, Y: page.Max.Y - end - 3},
		strings.TrimPrefix(said, " · "))
}

// tableDrawer draws the rows of a table.
type tableDrawer struct {
	*Table
	style draw.TextStyle
	right []bool // columns of numbers
}

// mostRows is the maximum number of rows of a table that are drawn.
const mostRows = 200

func newTableDrawer(t *Table) *tableDrawer {
	t = t.shown()
	d := &tableDrawer{Table: t, style: letters(textSize, inkColor), right: make([]bool, len(t.Columns))}
	for c := range t.Columns {
		d.right[c] = len(t.Rows) > 0
		for _, row := range t.Rows {
			d.right[c] = d.right[c] && isNumber(row[c])
		}
	}
	return d
}

// isNumber reports whether a cell is aligned to the right: it starts like a number, or is empty. The page's script has
// the same rule (assets/panels.js).
func isNumber(cell string) bool {
	cell = strings.TrimLeft(cell, "+-−±~<>≤≥ ")
	return cell == "" || cell == "—" || cell[0] >= '0' && cell[0] <= '9' || strings.EqualFold(cell, "nan") ||
		strings.EqualFold(cell, "inf")
}

func (t *tableDrawer) rowHeight() vg.Length { return t.style.FontExtents().Height * 1.6 }

func (t *tableDrawer) height(vg.Length) vg.Length {
	return t.rowHeight() * vg.Length(min(len(t.Rows), mostRows)+2)
}

// widths returns the widths of the columns: those that their cells need, or less if they would not fit together.
func (t *tableDrawer) widths(width vg.Length) []vg.Length {
	widths := make([]vg.Length, len(t.Columns))
	total := vg.Length(0)
	for c, name := range t.Columns {
		widths[c] = t.style.Width(label(name))
		for _, row := range t.Rows[:min(len(t.Rows), mostRows)] {
			widths[c] = max(widths[c], t.style.Width(label(row[c])))
		}
		widths[c] += 14
		total += widths[c]
	}
	if total > width {
		for c := range widths {
			widths[c] *= width / total
		}
	}
	return widths
}

func (t *tableDrawer) draw(page draw.Canvas) {
	widths := t.widths(page.Size().X)
	y := page.Max.Y
	line := func(width vg.Length) {
		page.StrokeLine2(draw.LineStyle{Color: axisColor, Width: width}, page.Min.X, y, page.Min.X+sum(widths), y)
	}
	row := func(cells []string, c color.Color) {
		s := t.style
		s.Color = c
		x := page.Min.X
		for i, cell := range cells {
			at, words := x+4, cut(label(cell), s, widths[i]-8)
			if t.right[i] {
				at = x + widths[i] - 6 - s.Width(words)
			}
			page.FillText(s, vg.Point{X: at, Y: y - 3}, words)
			x += widths[i]
		}
		y -= t.rowHeight()
	}
	row(t.Columns, paleColor)
	line(gridWidth * 2)
	shown := t.Rows[:min(len(t.Rows), mostRows)]
	for _, cells := range shown {
		row(cells, inkColor)
		line(gridWidth / 2)
	}
	if left := len(t.Rows) - len(shown); left > 0 {
		page.FillText(letters(textSize*.9, paleColor), vg.Point{X: page.Min.X + 4, Y: y - 3},
			fmt.Sprintf("%d more rows are left out", left))
	}
}

func sum(all []vg.Length) (total vg.Length) {
	for _, x := range all {
		total += x
	}
	return total
}

// cut shortens a text to the given width.
func cut(words string, s draw.TextStyle, width vg.Length) string {
	lines := wrap(words, s, max(width, font.Length(1)), 1)
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

package figure

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// WriteNPZ writes the numbers of a page for numpy.load: a zip archive of arrays in NumPy's format 1.0
// (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), with float64 in C order, and texts as Unicode
// arrays. The names of the arrays are
//
//	FIGURE/PANEL/NAME       with one frame, or
//	FIGURE/FRAME/PANEL/NAME with several
//
// where FRAME and PANEL count from 0, and NAME is, by kind of panel:
//
//	lines    SERIES/x, SERIES/y, SERIES/low, SERIES/high
//	map      map, rows and columns (the names)
//	bars     names, SERIES
//	text     tokens, values, links
//	diagram  nodes and edges (from, to)
//	table    columns, table
//
// SERIES is the series' name in lower case with hyphens, with a number appended if it is not unique.
func (p *Page) WriteNPZ(w io.Writer) error {
	if err := p.Check(); err != nil {
		return err
	}
	z := &npz{zip: zip.NewWriter(w)}
	for _, f := range p.Figures {
		for i := range f.Frames {
			prefix := f.Name
			if len(f.Frames) > 1 {
				prefix += "/" + strconv.Itoa(i)
			}
			for j := range f.Frames[i].Panels {
				z.panel(prefix+"/"+strconv.Itoa(j)+"/", &f.Frames[i].Panels[j])
			}
		}
	}
	if z.err != nil {
		return z.err
	}
	return z.zip.Close()
}

// npz writes an archive. After an error it writes no more.
type npz struct {
	zip *zip.Writer
	err error
}

func (z *npz) panel(prefix string, p *Panel) {
	switch {
	case p.Lines != nil:
		for i, name := range seriesNames(p.Lines.Series) {
			s := p.Lines.Series[i]
			z.floats(prefix+name+"/x", s.X, len(s.X))
			z.floats(prefix+name+"/y", s.Y, len(s.Y))
			if len(s.Low) > 0 {
				z.floats(prefix+name+"/low", s.Low, len(s.Low))
				z.floats(prefix+name+"/high", s.High, len(s.High))
			}
		}
	case p.Map != nil:
		z.floats(prefix+"map", p.Map.Values, p.Map.Rows, p.Map.Cols)
		z.names(prefix+"rows", p.Map.RowNames)
		z.names(prefix+"columns", p.Map.ColNames)
	case p.Bars != nil:
		z.names(prefix+"names", p.Bars.Names)
		for i, name := range seriesNames(p.Bars.Series) {
			z.floats(prefix+name, p.Bars.Series[i].Y, len(p.Bars.Names))
		}
	case p.Text != nil:
		z.names(prefix+"tokens", p.Text.Tokens)
		z.floats(prefix+"values", p.Text.Values, len(p.Text.Values))
		if l := p.Text.Links; l != nil {
			z.floats(prefix+"links", l.Values, l.Rows, l.Cols)
		}
	case p.Diagram != nil:
		var nodes, edges []string
		for _, n := range p.Diagram.Nodes {
			nodes = append(nodes, n.ID, n.Label, n.Kind)
		}
		for _, e := range p.Diagram.Edges {
			edges = append(edges, e.From, e.To)
		}
		z.texts(prefix+"nodes", nodes, len(p.Diagram.Nodes), 3)
		z.texts(prefix+"edges", edges, len(p.Diagram.Edges), 2)
	case p.Table != nil:
		z.names(prefix+"columns", p.Table.Columns)
		var cells []string
		for _, row := range p.Table.Rows {
			cells = append(cells, row...)
		}
		z.texts(prefix+"table", cells, len(p.Table.Rows), len(p.Table.Columns))
	}
}

// seriesNames returns unique names for series, as parts of a path.
func seriesNames(all []Series) []string {
	// The names of other arrays in the same place.
	taken := map[string]bool{"names": true}
	out := make([]string, len(all))
	for i, s := range all {
		name := slug(s.Name)
		for n := 2; taken[name]; n++ {
			name = slug(s.Name) + "-" + strconv.Itoa(n)
		}
		taken[name], out[i] = true, name
	}
	return out
}

// slug converts a name to lower-case letters and digits of any script, separated by hyphens.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == utf8.RuneError
	})
	if len(words) == 0 {
		return "series"
	}
	out := []rune(strings.Join(words, "-"))
	return string(out[:min(len(out), 60)])
}

func (z *npz) names(name string, all []string) {
	if len(all) > 0 {
		z.texts(name, all, len(all))
	}
}

func (z *npz) floats(name string, data Floats, shape ...int) {
	z.array(name, "<f8", shape, func(w *bufio.Writer) {
		var b [8]byte
		for _, x := range data {
			binary.LittleEndian.PutUint64(b[:], math.Float64bits(x))
			w.Write(b[:]) // array checks for errors
		}
	})
}

// texts writes texts of equal width in UCS-4, NumPy's format, padded with zeros. Since the longest text determines the
// width of all, a text is truncated to mostRunes.
func (z *npz) texts(name string, all []string, shape ...int) {
	const mostRunes = 1000
	width := 1
	for _, s := range all {
		width = max(width, min(utf8.RuneCountInString(s), mostRunes))
	}
	z.array(name, "<U"+strconv.Itoa(width), shape, func(w *bufio.Writer) {
		var b [4]byte
		put := func(r rune) {
			binary.LittleEndian.PutUint32(b[:], uint32(r))
			w.Write(b[:])
		}
		for _, s := range all {
			n := 0
			for _, r := range s {
				if n == width {
					break
				}
				put(r)
				n++
			}
			for ; n < width; n++ {
				put(0)
			}
		}
	})
}

// array adds NAME.npy to the archive.
func (z *npz) array(name, dtype string, shape []int, write func(*bufio.Writer)) {
	if z.err != nil {
		return
	}
	f, err := z.zip.Create(name + ".npy")
	if err != nil {
		z.err = err
		return
	}
	w := bufio.NewWriter(f)
	w.Write(npyHeader(dtype, shape))
	write(w)
	z.err = w.Flush() // returns earlier errors, too
}

// npyHeader returns the header of an array: magic number, version 1.0, the length of the dictionary, and the dictionary
// as a Python literal, padded with spaces so that the data starts at a multiple of 64 bytes.
func npyHeader(dtype string, shape []int) []byte {
	var sizes strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&sizes, "%d,", n)
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, sizes.String())
	const before, align = 10, 64
	length := len(dict) + 1
	length += (align - (before+length)%align) % align
	out := append([]byte("\x93NUMPY\x01\x00"), byte(length), byte(length>>8))
	out = append(out, dict...)
	out = append(out, strings.Repeat(" ", length-len(dict)-1)...)
	return append(out, '\n')
}

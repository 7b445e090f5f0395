package figure_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
)

// TestWriteMakesTheFiles: one file of each format, of PNG and SVG one for each figure, with nothing else beside them.
func TestWriteMakesTheFiles(t *testing.T) {
	p := toyfigure.Page()
	p.Figures = p.Figures[3:6]
	for _, ending := range figure.Endings() {
		dir := t.TempDir()
		files, err := p.Write(filepath.Join(dir, "page"+ending), 1)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, f := range p.Figures {
			if ending == ".png" || ending == ".svg" {
				want = append(want, "page-"+f.Name+ending)
			}
		}
		if want == nil {
			want = []string{"page" + ending}
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(want) {
			t.Errorf("%s: found %d files (%v), want %d", ending, len(entries), err, len(want))
		}
		for i, file := range files {
			if info, err := os.Stat(file); err != nil || info.Size() < 500 || filepath.Base(file) != want[i] {
				t.Errorf("found %s (%v), want %s", file, err, want[i])
			}
		}
	}
	for name, want := range map[string]string{
		"page.pdf": `found the ending ".pdf", want one of .html, .png, .svg, .json, .npz`, "page": `the ending ""`,
	} {
		if _, err := p.Write(filepath.Join(t.TempDir(), name), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found the error %v, want %q", name, err, want)
		}
	}
	dir := t.TempDir()
	_, err := p.Write(filepath.Join(dir, "page.svg"), 1000)
	if err == nil || !strings.Contains(err.Error(), "figure state: found frame 1000, want one from 0 to ") {
		t.Errorf("found the error %v for a frame that is not there", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("found %d files (%v), want none: the error was known before", len(left), err)
	}
}

// TestJSONReadsBack: a page that is read is the page that was written, and writes the same bytes again.
func TestJSONReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.json")
	page := toyfigure.Page()
	tokens := page.Figures[5].Frames[0].Panels[1].Text.Tokens
	for i, token := range tokens {
		tokens[i] = strings.ToValidUTF8(token, "?") // which is all that JSON has
	}
	if _, err := page.Write(path, 0); err != nil {
		t.Fatal(err)
	}
	p, err := figure.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := p.WriteJSON(&again); err != nil || !bytes.Equal(again.Bytes(), first) {
		t.Errorf("what was read writes other JSON (%v)", err)
	}
	if m := p.Figures[1].Frames[0].Panels[0].Map; !math.IsNaN(m.Values[1]) || m.Values[0] != 1 {
		t.Errorf("found %g and %g, want 1 and NaN", m.Values[0], m.Values[1])
	}
	for text, want := range map[string]string{
		`{"figures":[]}`: "found no figure", `{`: "unexpected end", `{"figures":[{"name":"a","frames":[{"panels":` +
			`[{"map":{"rows":2000000000,"cols":2000000000,"values":[]}}]}]}]}`: "found 0 values, want 400000000",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := figure.Read(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: found the error %v, want %q and the file's name", text, err, want)
		}
	}
}

// npyHeader is the dictionary of an array in NumPy's format, by the specification.
var npyHeader = regexp.MustCompile(
	`^\{'descr': '(<f8|<U\d+)', 'fortran_order': False, 'shape': \(((?:\d+,)+)\), \} *\n$`)

// readNPY reads an array as the specification says: numbers or texts.
func readNPY(t *testing.T, data []byte) (shape []int, numbers []float64, texts []string) {
	t.Helper()
	if !bytes.HasPrefix(data, []byte("\x93NUMPY\x01\x00")) {
		t.Fatalf("found the start %q, want NumPy's, version 1.0", data[:8])
	}
	end := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	found := npyHeader.FindSubmatch(data[10:end])
	if found == nil || end%64 != 0 {
		t.Fatalf("found the header %q of %d bytes", data[10:end], end)
	}
	size := 1
	for _, n := range strings.Split(strings.TrimSuffix(string(found[2]), ","), ",") {
		v, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		shape, size = append(shape, v), size*v
	}
	data = data[end:]
	if string(found[1]) == "<f8" {
		if len(data) != 8*size {
			t.Fatalf("found %d bytes, want %d numbers", len(data), size)
		}
		for i := range size {
			numbers = append(numbers, math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:])))
		}
		return shape, numbers, nil
	}
	width, err := strconv.Atoi(string(found[1][2:]))
	if err != nil || len(data) != 4*size*width {
		t.Fatalf("found %d bytes (%v), want %d texts of %d letters", len(data), err, size, width)
	}
	for i := range size {
		var s strings.Builder
		for k := range width {
			s.WriteRune(rune(binary.LittleEndian.Uint32(data[4*(i*width+k):])))
		}
		texts = append(texts, strings.TrimRight(s.String(), "\x00"))
	}
	return shape, nil, texts
}

// TestNPZ: the arrays have the names and shapes that are documented, and the numbers of the page in full.
func TestNPZ(t *testing.T) {
	p := toyfigure.Page()
	p.Figures[0].Frames[0].Panels[0].Lines.Series[1].Name = "channel 0" // the same as another
	var b bytes.Buffer
	if err := p.WriteNPZ(&b); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	arrays := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if arrays[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	if len(arrays) != len(z.File) {
		t.Errorf("found %d names of %d arrays: some are there twice", len(arrays), len(z.File))
	}
	lines := p.Figures[0].Frames[0].Panels[0].Lines
	influence := p.Figures[2].Frames[0].Panels[0].Map
	bars := p.Figures[6].Frames[0].Panels[0].Bars
	for name, want := range map[string]struct {
		shape []int
		data  []float64
	}{
		"kernels/0/channel-0/y":   {[]int{200}, lines.Series[0].Y},
		"kernels/0/channel-0-2/y": {[]int{200}, lines.Series[1].Y},
		"kernels/0/channel-0/low": {[]int{200}, lines.Series[0].Low},
		"influence-1/0/map":       {[]int{influence.Rows, influence.Cols}, influence.Values},
		"state/3/1/left/x":        {[]int{4}, []float64{0, 1, 2, 3}},
		"bars/0/backward":         {[]int{5}, bars.Series[1].Y},
		"tokens/0/values":         {[]int{influence.Rows}, p.Figures[5].Frames[0].Panels[0].Text.Values},
	} {
		if arrays[name+".npy"] == nil {
			t.Errorf("there is no array %s", name)
			continue
		}
		shape, data, _ := readNPY(t, arrays[name+".npy"])
		same := slices.EqualFunc(data, want.data, func(a, b float64) bool {
			return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
		})
		if !slices.Equal(shape, want.shape) || !same {
			t.Errorf("%s: found the shape %v, numbers equal %v; want %v", name, shape, same, want.shape)
		}
	}
	_, _, tokens := readNPY(t, arrays["tokens/1/tokens.npy"])
	for i, want := range toyfigure.Hostile {
		want = string([]rune(want)[:min(1000, utf8.RuneCountInString(want))])
		if want = strings.TrimRight(want, "\x00"); tokens[i] != want {
			t.Errorf("found the token %q, want %q", tokens[i], want)
		}
	}
	if shape, _, edges := readNPY(t, arrays["architecture/0/edges.npy"]); !slices.Equal(shape, []int{7, 2}) ||
		edges[0] != "in" || edges[1] != "embed" {
		t.Errorf("found edges %v %q", shape, edges)
	}
	if shape, _, cells := readNPY(t, arrays["architecture/1/table.npy"]); !slices.Equal(shape, []int{3, 4}) ||
		cells[5] != "attention" {
		t.Errorf("found the table %v %q", shape, cells)
	}
}

// draw is the picture of a figure.
func draw(t *testing.T, f *figure.Figure) *image.RGBA {
	t.Helper()
	var b bytes.Buffer
	if err := f.WritePNG(0, &b); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return picture.(*image.RGBA)
}

// TestPicturesStayOnThePage: every figure is drawn, with many pixels that are not white, and none at the border.
func TestPicturesStayOnThePage(t *testing.T) {
	for _, f := range toyfigure.Page().Figures {
		picture := draw(t, f)
		box, inside := picture.Bounds(), 0
		for y := box.Min.Y; y < box.Max.Y; y++ {
			for x := box.Min.X; x < box.Max.X; x++ {
				if p := picture.Pix[picture.PixOffset(x, y):]; p[0]&p[1]&p[2] == 255 {
					continue
				}
				inside++
				if x < 4 || y < 4 || x >= box.Max.X-4 || y >= box.Max.Y-4 {
					t.Fatalf("%s: found something at %d, %d, the border of %v", f.Name, x, y, box)
				}
			}
		}
		if inside < 5000 {
			t.Errorf("%s: found %d pixels that are not white, want some thousands", f.Name, inside)
		}
	}
}

// TestMapCellsHaveTheirColors: the middle of each cell of a small map has the color of its value.
func TestMapCellsHaveTheirColors(t *testing.T) {
	picture := draw(t, &figure.Figure{Name: "m", Frames: []figure.Frame{{Panels: []figure.Panel{{Map: &figure.Map{
		Rows: 1, Cols: 3, Values: figure.Floats{-2, 0, 2}, Diverging: true}}}}}})
	box := picture.Bounds()
	found := map[[3]uint8]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			found[[3]uint8(picture.Pix[picture.PixOffset(x, y):])]++
		}
	}
	negative, positive := found[[3]uint8{0x0b, 0x3c, 0x78}], found[[3]uint8{0x7f, 0x34, 0x04}]
	if negative < 5000 || positive < 5000 || math.Abs(float64(negative-positive)) > .05*float64(negative) {
		t.Errorf("found %d pixels of the lowest color and %d of the highest, want as many thousands of both", negative,
			positive)
	}
}

// TestSVG: a picture is well-formed XML whose texts are what is to be read, in a font that systems have.
func TestSVG(t *testing.T) {
	want := map[string][]string{
		"kernels":     {"Kernels", "In time", "channel 3", "lag, tokens", "imaginary"},
		"influence-2": {"Influence in layer 2", "Ishmael. ", "token read", "share"},
		"state":       {"token 0 · Call", "Left of each token"},
		"tokens": {"Ishmael. ", "</script><script>window.hacked=1</script>", `\u202eback`, `bell\u0007\u0000`, "¶",
			"日本語", `half\xe2\x82`, "Colors from 0 to 1"},
		"bars":         {"forward", "embedding", "lm_head.weight"},
		"architecture": {"shift · diagonal", "kept", "1,234", "attention"},
	}
	for _, f := range toyfigure.Page().Figures {
		var b bytes.Buffer
		if err := f.WriteSVG(0, &b); err != nil {
			t.Fatal(err)
		}
		texts := map[string]bool{}
		d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
		inText := false
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				if inText = token.Name.Local == "text"; token.Name.Local == "script" {
					t.Errorf("%s has a script", f.Name)
				}
				for _, a := range token.Attr {
					if inText && a.Name.Local == "style" && !strings.Contains(a.Value, "Arial,Helvetica,sans-serif;") {
						t.Fatalf("%s: found the style %s, want fonts that systems have", f.Name, a.Value)
					}
				}
			case xml.CharData:
				if inText {
					texts[string(token)] = true
				}
			case xml.EndElement:
				inText = false
			}
		}
		for _, text := range want[f.Name] {
			if !texts[text] {
				t.Errorf("%s lacks the text %q, has %v", f.Name, text, texts)
			}
		}
	}
}

// FuzzPage: whatever a file says, reading it ends in an error or in a page that all writers write.
func FuzzPage(f *testing.F) {
	for _, one := range toyfigure.Page().Figures {
		one.Frames = one.Frames[:1]
		if m := one.Frames[0].Panels[0].Map; m != nil && m.Cols > 16 {
			continue
		}
		data, err := json.Marshal(&figure.Page{Figures: []*figure.Figure{one}})
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 4000 {
			f.Add(data)
		}
	}
	for _, panel := range []string{
		`"lines":{"series":[{"name":"a","x":[1,2,3],"y":[1e308,-1e308,null],"low":[0,0,0],"high":[1,1,1]}],` +
			`"circle":true,"at":[2]},"square":true,"x":{"log":true}`,
		`"map":{"rows":1,"cols":3,"values":[1e308,-1e308,null],"diverging":true,"log":true,"row_names":["a"]}`,
		`"bars":{"names":["a","b"],"series":[{"name":"","y":[1,-1e308]}],"across":true,"stacked":true}`,
		`"text":{"tokens":["a","\n"],"values":[1,null],"mark":-1,"links":{"rows":1,"cols":2,"row_step":2,` +
			`"values":[1,2]}}`,
		`"diagram":{"nodes":[{"id":"a","label":"x\ny","x":-9e4,"y":9e4}],"edges":[{"from":"a","to":"a"}]}`,
		`"table":{"columns":["a"],"rows":[["-"]]},"x":{"min":1,"max":1e99}`,
	} {
		f.Add([]byte(`{"figures":[{"name":"a","columns":3,"frames":[{"panels":[{` + panel + `}]}]}]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := new(figure.Page)
		if json.Unmarshal(data, p) != nil || p.Check() != nil {
			return
		}
		for _, write := range []func(io.Writer) error{p.WriteHTML, p.WriteJSON, p.WriteNPZ} {
			if err := write(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range p.Figures {
			_ = one.WriteSVG(0, io.Discard) // a page may be too high for a picture
		}
	})
}

package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/hippo-ssm/hippo/table"
)

// open writes a file and opens it.
func open(t *testing.T, name, text string, opt table.Options) (*table.Reader, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := table.Open([]string{path}, nil, opt, nil)
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// read returns all rows of a reader as text: numbers, times and texts separated by spaces, . for missing values. It
// also returns the errors.
func read(r *table.Reader) (rows []string, err error) {
	err = table.Each(r, func(v *table.Values) error {
		var cells []string
		for i, c := range r.Columns() {
			switch {
			case c.Kind == table.Category && v.Texts[i] != "":
				cells = append(cells, v.Texts[i])
			case c.Kind == table.Category || math.IsNaN(v.Numbers[i]):
				cells = append(cells, ".")
			default:
				cells = append(cells, fmt.Sprint(v.Numbers[i]))
			}
		}
		rows = append(rows, strings.Join(cells, " "))
		return nil
	})
	return rows, err
}

func utf16le(text string) string {
	var b bytes.Buffer
	b.WriteString("\xFF\xFE")
	for _, u := range utf16.Encode([]rune(text)) {
		b.Write([]byte{byte(u), byte(u >> 8)})
	}
	return b.String()
}

// TestCSVIsUnderstood checks that separators, headers, decimal commas, encodings, times and missing values are
// detected.
func TestCSVIsUnderstood(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		columns string // name:kind
		first   string
		rows    int
		notes   string
	}{
		"commas": {"a,b\n1,x\n2,y\n", "a:number b:category", "1 x", 2, ""},
		"decimal comma": {"a;b\n1,5;2\n-1.000,25;3\n", "a:number b:number", "1.5 2", 2,
			"comma before the fraction"},
		"tabs, no header": {"1\t2.5\n3\t4\n", "column1:number column2:number", "1 2.5", 2, "the first line is data"},
		"spaces":          {"t  x\n1   2\n3 4\n", "t:number x:number", "1 2", 2, "spaces"},
		"missing":         {"a,b\n,1\nNA,2\n3,nan\n", "a:number b:number", ". 1", 3, ""},
		"quoted":          {"a,b\n\"x, y\",\"1\"\n\"z\"\"\",2\n", "a:category b:number", "x, y 1", 2, ""},
		"grouped digits":  {"a,b\n\"1,234.5\",1\n\"2,000\",2\n", "a:number b:number", "1234.5 1", 2, ""},
		"utf-16":          {utf16le("größe,b\n1,ü\n"), "größe:number b:category", "1 ü", 1, "UTF-16"},
		"utf-8 mark":      {"\xEF\xBB\xBFa,b\n1,2\n", "a:number b:number", "1 2", 1, ""},
		"mixed encodings": {"a,b\n\xFC,ü\n", "a:category b:category", "ü ü", 1, "Windows-1252, the first in line 2"},
		"times": {"when,x\n2026-01-01 00:00:10,1\n2026-01-01 00:00:20,2\n", "when:time x:number", "1.76722561e+09 1", 2,
			""},
		"time zones": {"when,x\n2026-01-01T01:00:00+01:00,1\n2026-01-01T00:00:01Z,2\n", "when:time x:number",
			"1.7672256e+09 1", 2, ""},
		"day first": {"d,x\n31/12/2025,1\n01/01/2026,2\n", "d:time x:number", "1.7671392e+09 1", 2, ""},
		"day or month": {"d,x\n01/02/2026,1\n02/01/2026,2\n", "d:time x:number", "1.767312e+09 1", 2,
			"2 January 2026"},
		"same names":    {"a,a\n1,2\n", "a:number a.2:number", "1 2", 1, "more than once"},
		"line ends":     {"a,b\r\n1,2\r\n\r\n3,4\r\n", "a:number b:number", "1 2", 2, ""},
		"ending commas": {"a,b\n1,2,\n3,4,\n", "a:number b:number", "1 2", 2, ""},
	} {
		r, err := open(t, "x.csv", c.text, table.DefaultOptions())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var columns []string
		for _, c := range r.Columns() {
			columns = append(columns, c.Name+":"+string(c.Kind))
		}
		rows, err := read(r)
		notes := strings.Join(r.Notes(), "; ")
		if got := strings.Join(columns, " "); got != c.columns || err != nil || len(rows) != c.rows ||
			rows[0] != c.first ||
			!strings.Contains(notes, c.notes) || c.notes == "" && strings.Contains(notes, "first line") {
			t.Errorf("%s: found %s: %q, %v, notes %q", name, got, rows, err, notes)
		}
	}
}

// TestCSVProblems checks that errors contain the file, line and column, what was found and wanted, and the number of
// further errors.
func TestCSVProblems(t *testing.T) {
	rows := "t,x\n" + strings.Repeat("1,2\n", 50)
	for name, c := range map[string]struct{ text, want string }{
		"empty":    {"", "found no row"},
		"text":     {rows + "1,abc\n", `x.csv, line 52, column x: found "abc", want a number`},
		"infinite": {rows + "1,inf\n", `found "inf", want a number`},
		"cells":    {rows + "1,2,3\n", "x.csv, line 52: found 3 cells, want 2"},
		"quote":    {rows + "1,\"a\"b\n", "x.csv, line 52: found a cell that is not quoted"},
		"comma in cell": {"t,x\n1,2,5\n",
			`found 3 cells, want 2; a cell with a comma in it, such as "1,5", wants quotes`},
		"archive": {"PK\x03\x04\x14\x00x.csv", "x.csv: found a ZIP archive"},
		"no text": {strings.Repeat("\x00\x01a,\x02\n", 20),
			"x.csv: found 60 control characters in the first 120 bytes, want text"},
		"how many":     {rows + strings.Repeat("x,1\n", 5), "and 2 more such rows"},
		"far too many": {rows + strings.Repeat("1\n", 5000), "or more; reading stopped there"},
		"comma and point": {rows + "1,1.5\n1,\"1,5\"\n",
			`found "1,5", want a number with a point before its fraction`},
	} {
		r, err := open(t, "x.csv", c.text, table.DefaultOptions())
		if err == nil {
			_, err = read(r)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %q", name, err, c.want)
		}
	}
}

// TestOpenQuoteEnds checks that a quote that is never closed is an error and does not take the memory of the whole
// file.
func TestOpenQuoteEnds(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("a,b\n1,\"x"), forever('y'))
	r, err := table.Open([]string{"-"}, endless, table.DefaultOptions(), []table.Column{{Name: "a",
		Kind: table.Number}})
	if err == nil {
		err = r.Next(&table.Values{})
	}
	if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "is a quote not closed?") {
		t.Errorf("found %v", err)
	}
}

// forever is an endless text of one letter.
type forever byte

func (f forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

// TestPipeRowByRow checks that with known columns a row is returned before the next one arrives.
func TestPipeRowByRow(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	got := make(chan float64)
	go func() {
		defer close(got)
		r, err := table.Open([]string{"-"}, in, table.DefaultOptions(), []table.Column{
			{Name: "b", Kind: table.Number}, {Name: "c", Kind: table.Number, Optional: true}})
		if err != nil {
			t.Error(err)
			return
		}
		var v table.Values
		for r.Next(&v) == nil {
			got <- v.Numbers[0]
		}
	}()
	for i, line := range []string{"a,b\nx,1\n", "y,2\n", "z,3\n"} {
		go io.WriteString(out, line)
		if x := <-got; x != float64(i+1) {
			t.Fatalf("found %v, want %d", x, i+1)
		}
	}
	out.Close()
	if _, more := <-got; more {
		t.Error("found a row behind the last")
	}
}

// TestFolder checks that the files of a folder are read as sequences and that its subfolders are the classes.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/1.csv": "x\n1\n2\n", "a/2.csv": "x\n3\n", "b/1.csv": "x\n4\n",
		"b/no.md": "#"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text),
			0o666)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := table.Open([]string{dir}, nil, table.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var sequences []int
	var labels []string
	err = table.Each(r, func(v *table.Values) error {
		sequences, labels = append(sequences, v.Sequence), append(labels, v.Texts[len(v.Texts)-1])
		return nil
	})
	if got := fmt.Sprintf("%v %v %s", sequences, labels, r.About().Label); err != nil || got != "[0 0 1 2] [a a a b] "+
		"folder" {
		t.Errorf("found %s, %v", got, err)
	}
}

// TestWide checks that with rows as sequences the columns become steps, and that a sequence ends with its last value.
func TestWide(t *testing.T) {
	opt := table.DefaultOptions()
	opt.Wide = true
	r, err := open(t, "x.csv", "label,s1,s2,s3\na,1,2,3\nb,4,5,\n", opt)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := read(r)
	if got := strings.Join(rows, ", "); err != nil || got != "a 1, a 2, a 3, b 4, b 5" || r.About().Label != "label" {
		t.Errorf("found %s, %v", got, err)
	}
}

// FuzzCSV checks that any text is read to its end or is an error.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"a,b\n1,x\n2,y\n", "a;b\n1,5;2\n", "1\t2.5\n3\t4\n", "t  x\n1   2\n",
		utf16le("a,b\n1,2\n"),
		"d,x\n31/12/2025,1\n", "a\n\"x", "\xFF\xFE\x00", "label,s1,s2\na,1,2\n"} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(_ *testing.T, text []byte, wide bool) {
		opt := table.DefaultOptions()
		opt.Wide = wide
		for _, want := range [][]table.Column{nil, {{Name: "a", Kind: table.Number}, {Name: "b",
			Kind: table.Category}}} {
			r, err := table.Open([]string{"-"}, bytes.NewReader(text), opt, want)
			if err != nil {
				continue
			}
			_, _ = read(r)
			_ = r.Notes()
		}
	})
}

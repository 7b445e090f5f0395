package table_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// npy returns a NumPy array.
func npy(descr, shape string, values any) string {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape)
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(head)))
	b.WriteString(head)
	binary.Write(&b, binary.LittleEndian, values)
	return b.String()
}

func npz(arrays ...string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(arrays); i += 2 {
		w, _ := z.Create(arrays[i] + ".npy")
		w.Write([]byte(arrays[i+1]))
	}
	z.Close()
	return b.String()
}

// wav returns a recording at 8 kHz.
func wav(kind, channels, bits int, data []byte) string {
	var b bytes.Buffer
	b.WriteString("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00")
	binary.Write(&b, binary.LittleEndian, []uint16{uint16(kind), uint16(channels)})
	binary.Write(&b, binary.LittleEndian, []uint32{8000, uint32(8000 * channels * bits / 8)})
	binary.Write(&b, binary.LittleEndian, []uint16{uint16(channels * bits / 8), uint16(bits)})
	b.WriteString("LIST\x03\x00\x00\x00abc\x00data")
	binary.Write(&b, binary.LittleEndian, uint32(len(data)))
	b.Write(data)
	return b.String()
}

func picture() string {
	m := image.NewGray(image.Rect(0, 0, 2, 2))
	m.SetGray(1, 0, color.Gray{200})
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

var formatTexts = map[string]string{
	"a.jsonl":  "{\"t\": 1, \"in\": {\"x\": \"a\"}}\n\n{\"t\": null, \"in\": {\"x\": \"b\"}, \"more\": true}\n",
	"s.jsonl":  "{\"y\": \"up\", \"v\": [1, 2.5]}\n{\"y\": \"down\", \"v\": [3]}\n",
	"a.npy":    npy("<f4", "3, 2", []float32{1, 2, 3, 4, float32(math.Inf(1)), 6}),
	"i.npy":    npy(">i2", "2,", []byte{0xFF, 0xFE, 0, 1}),
	"s.npz":    npz("x", npy("<f8", "2, 2, 1", []float64{1, 2, 3, 4}), "y", npy("|u1", "2,", []byte{7, 9})),
	"a.wav":    wav(1, 1, 16, []byte{0, 0x40, 0, 0xC0}),
	"2.wav":    wav(1, 2, 24, []byte{0, 0, 0x40, 0, 0, 0x80}),
	"f.wav":    wav(3, 1, 32, []byte{0, 0, 0, 0x3F}),
	"a.ts":     "# comment\n@problemName x\n@classLabel true a b\n@data\n1,2:3,4:a\n5:6,?:b\n",
	"a.fa":     ">one x\nacG\nT\n\n>two\nN\n",
	"a.fastq":  "@r1\nAC\n+\n!I\n",
	"a.png":    picture(),
	"a.csv.gz": "",
}

// TestFormats checks the rows, sequences, names, classes and rates of each format.
func TestFormats(t *testing.T) {
	for name, want := range map[string]string{
		"a.jsonl": "0: 1 a . | 0: . b true",
		"s.jsonl": "0: up 1 | 0: up 2.5 | 1: down 3; label ",
		"a.npy":   "0: 1 2 | 0: 3 4 | 0: . 6",
		"i.npy":   "0: -2 | 0: 1",
		"s.npz":   "0: 1 7 | 0: 2 7 | 1: 3 9 | 1: 4 9; label y",
		"a.wav":   "0: 0.5 | 0: -0.5; label ; a at 8000 Hz",
		"2.wav":   "0: 0.5 -1; label ; 2 at 8000 Hz",
		"f.wav":   "0: 0.5; label ; f at 8000 Hz",
		"a.ts":    "0: 1 3 a | 0: 2 4 a | 1: 5 6 b | 1: . . b; label class",
		"a.fa":    "0: A one x | 0: C one x | 0: G one x | 0: T one x | 1: N two; label ",
		"a.fastq": "0: A 0 r1 | 0: C 40 r1; label ",
		"a.png":   "0: 0 | 0: 200 | 0: 0 | 0: 0; label ",
	} {
		r, err := open(t, name, formatTexts[name], table.DefaultOptions())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var rows []string
		var last table.Values
		err = table.Each(r, func(v *table.Values) error {
			row := fmt.Sprintf("%d:", v.Sequence)
			for i, c := range r.Columns() {
				switch {
				case c.Kind == table.Category && v.Texts[i] != "":
					row += " " + v.Texts[i]
				case c.Kind == table.Number && !math.IsNaN(v.Numbers[i]):
					row += fmt.Sprintf(" %g", v.Numbers[i])
				default:
					row += " ."
				}
			}
			rows, last = append(rows, row), *v
			return nil
		})
		got := strings.Join(rows, " | ")
		if r.About().Sequences {
			got += "; label " + r.About().Label
		}
		if last.Step > 0 {
			got += fmt.Sprintf("; %s at %g Hz", last.Name, 1/last.Step)
		}
		if err != nil || got != want {
			t.Errorf("%s: found %s, %v, want %s", name, got, err, want)
		}
	}
}

// TestFormatProblems checks that errors contain the file and the place in it.
func TestFormatProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"x.jsonl":  {"{\"a\": 1}\n[1]\n", "x.jsonl, line 2: found \"[1]\", want a JSON object"},
		"y.jsonl":  {"{\"a\": [1], \"b\": [1, 2]}\n", "lists of 1 and 2 numbers"},
		"cut.npy":  {npy("<f4", "3, 2", []float32{1}), "of an array, want 24: the file is cut off"},
		"huge.npy": {npy("<f8", "99999999999, 99999999999", []float32{1}), "want at most"},
		"c.npy":    {npy("<c8", "2,", []float32{1}), "want numbers of 1 to 8 bytes"},
		"x.npz": {npz("x", npy("|u1", "2,", []byte{1, 2}), "y", npy("|u1", "3,", []byte{1, 2, 3})),
			"equal first dimensions"},
		"x.wav":     {"RIFX", "the head of a WAV file"},
		"adpcm.wav": {wav(2, 1, 4, nil), "found the format 2"},
		"x.ts":      {"@data\n1,x\n", "want a number or ?"},
		"stamps.ts": {"@timeStamps true\n@data\n", "time stamps"},
		"x.fa":      {"ACGT\n", "want a line such as >name"},
		"y.fa":      {">a\nAC1\n", "letter 3"},
		"x.fq":      {"@a\nAC\n+\n!\n", "2 letters and 1 qualities"},
		"x.png":     {"\x89PNG", "x.png"},
		"x.xyz":     {"", "--format names it"},
	} {
		r, err := open(t, name, c.text, table.DefaultOptions())
		if err == nil {
			_, err = read(r)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %q", name, err, c.want)
		}
	}
}

// FuzzFormats checks that any file of any format is read to its end or is an error.
func FuzzFormats(f *testing.F) {
	for name, text := range formatTexts {
		f.Add(strings.TrimPrefix(filepath.Ext(name), "."), []byte(text))
	}
	f.Fuzz(func(t *testing.T, format string, text []byte) {
		path := filepath.Join(t.TempDir(), "x.bin")
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, known := range table.Formats() {
			if "."+format != known.Extensions[0] {
				continue
			}
			opt := table.DefaultOptions()
			opt.Format = known.Name
			if r, err := table.Open([]string{path}, nil, opt, nil); err == nil {
				_, _ = read(r)
				r.Close()
			}
		}
	})
}

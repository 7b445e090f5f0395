package table_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// note returns a WAV file with a tone at a rate. All channels contain the tone, except that the second is silent.
func note(rate, channels, samples int, hertz float64) string {
	var b bytes.Buffer
	for i := range samples {
		for c := range channels {
			x := 0.5 * math.Sin(2*math.Pi*hertz*float64(i)/float64(rate))
			if c == 1 {
				x = 0
			}
			binary.Write(&b, binary.LittleEndian, int16(math.Round(x*32768)))
		}
	}
	return fmt.Sprintf("RIFF%sWAVEfmt %s%s%s%s%s%s%sdata%s", le(uint32(36+b.Len())), le(uint32(16)), le(uint16(1)),
		le(uint16(channels)), le(uint32(rate)), le(uint32(rate*channels*2)), le(uint16(channels*2)), le(uint16(16)),
		le(uint32(b.Len()))) + b.String()
}

func le(x any) string {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, x)
	return b.String()
}

// folderOf writes files to a folder.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text),
			0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sounds returns the samples of all recordings by name.
func sounds(t *testing.T, paths []string, opt table.Options, want []table.Column) (all map[string][]float64,
	r *table.Reader) {
	t.Helper()
	r, err := table.Open(paths, nil, opt, want)
	if err != nil {
		t.Fatal(err)
	}
	all = map[string][]float64{}
	err = table.Each(r, func(v *table.Values) error {
		all[v.Name] = append(all[v.Name], v.Numbers[0])
		return nil
	})
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return all, r
}

// TestRecordingsThatDiffer checks that recordings of a folder are mixed down and resampled to the most common format
// with a single note, that their names are their paths, and that other files are skipped and listed.
func TestRecordingsThatDiffer(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"a/023.wav": note(16000, 1, 1600, 440), "b/023.wav": note(44100, 2, 4410, 440),
		"c/023.wav": note(8000, 1, 800, 440), "c/024.wav": note(16000, 2, 1600, 440),
		"b/high.wav": note(44100, 1, 4410, 12000), "d/025.wav": note(16000, 1, 1600, 440),
		"README.txt": "no sound", "a/notes.md": "x", "a/.hidden.csv": "x",
	})
	all, r := sounds(t, []string{dir}, table.DefaultOptions(), nil)
	notes := strings.Join(r.Notes(), "; ")
	if len(all) != 6 || strings.Count(notes, "README.txt") != 1 ||
		!strings.Contains(notes, "files of other formats are left out (2): README.txt, a/notes.md") ||
		!strings.Contains(notes, "2 of 6 recordings have several channels: they are mixed down to one; "+
			"3 of 6 recordings have other rates: they are resampled to 16000 Hz") {
		t.Fatalf("found %d recordings, notes %s", len(all), notes)
	}
	for name, gain := range map[string]float64{"a/023.wav": 1, "b/023.wav": 0.5, "c/023.wav": 1, "c/024.wav": 0.5,
		"b/high.wav": 0} {
		x := all[name]
		if len(x) != 1600 {
			t.Errorf("%s: found %d samples, want 1600", name, len(x))
			continue
		}
		for i := 200; i < 1400; i++ { // away from the ends
			want := gain * 0.5 * math.Sin(2*math.Pi*440*float64(i)/16000)
			if math.Abs(x[i]-want) > 1e-3 {
				t.Errorf("%s, sample %d: found %g, want %g", name, i, x[i], want)
				break
			}
		}
	}
	opt := table.DefaultOptions()
	opt.Rate = 8000
	if all, r := sounds(t, []string{dir}, opt, nil); len(all["a/023.wav"]) != 800 || r.About().Rate != 8000 {
		t.Errorf("found %d samples at %d Hz, want 800 at the rate of the options", len(all["a/023.wav"]),
			r.About().Rate)
	}
}

// TestBrokenRecordings checks that unreadable recordings of a folder are skipped and listed, unless they are the
// majority. A recording that is named directly is an error.
func TestBrokenRecordings(t *testing.T) {
	files := map[string]string{"a/1.wav": note(8000, 1, 8, 440), "b/2.wav": note(8000, 1, 8, 440), "a/3.wav": "",
		"b/4.wav": "RIFX0000WAVE"}
	dir := folderOf(t, files)
	all, r := sounds(t, []string{dir}, table.DefaultOptions(), nil)
	notes := strings.Join(r.Notes(), "; ")
	if len(all) != 2 || !strings.Contains(notes, "recordings that cannot be read are left out (2): ") ||
		!strings.Contains(notes, "3.wav: the head of a WAV file: found less than its 12 bytes; ") ||
		!strings.Contains(notes, `4.wav: found "RIFX"`) {
		t.Errorf("found %d recordings, notes %s", len(all), notes)
	}
	files["b/5.flac"] = "fLaX"
	for _, paths := range [][]string{{folderOf(t, files)}, {filepath.Join(dir, "a/1.wav"),
		filepath.Join(dir, "a/3.wav")}} {
		_, err := table.Open(paths, nil, table.DefaultOptions(), nil)
		if err == nil || !strings.Contains(err.Error(), "3.wav: the head of a WAV file") {
			t.Errorf("%q: found %v", paths, err)
		}
	}
}

// TestRecordingsOfOneKind checks that properties shared by all recordings do not change, and that recordings are mixed
// down if the known column has one channel, also a single recording.
func TestRecordingsOfOneKind(t *testing.T) {
	dir := folderOf(t, map[string]string{"x.wav": note(8000, 2, 80, 440), "y.wav": note(8000, 2, 80, 440)})
	_, r := sounds(t, []string{dir}, table.DefaultOptions(), nil)
	if got := fmt.Sprint(r.About().Columns[:2], len(r.Notes())); got != "[sample1 sample2] 0" {
		t.Errorf("found %s", got)
	}
	alone, _ := sounds(t, []string{filepath.Join(dir, "x.wav")}, table.DefaultOptions(), []table.Column{{Name: "sample",
		Kind: table.Number}})
	named, _ := sounds(t, []string{filepath.Join(dir, "x.wav"), filepath.Join(dir, "y.wav")}, table.DefaultOptions(),
		[]table.Column{{Name: "sample", Kind: table.Number}})
	if x, y := alone["x"], named[filepath.ToSlash(filepath.Join(dir, "y.wav"))]; len(x) != 80 || len(y) != 80 ||
		math.Abs(x[7]-0.25*math.Sin(2*math.Pi*440*7/8000)) > 1e-4 || y[7] != x[7] {
		t.Errorf("found %v and %v", alone, named)
	}
}

// TestFormatChoosesFiles checks that --format selects the files of a folder with that format. Without it, the most
// common format is used.
func TestFormatChoosesFiles(t *testing.T) {
	dir := folderOf(t, map[string]string{"x.wav": note(8000, 1, 8, 440), "y.wav": note(8000, 1, 8, 440),
		"z.csv": "a\n1\n", "w.txt": "b,c\n1,2\n", "v.log": "a\n1\n"})
	for format, want := range map[string]string{"": "beside 2 of csv", "wav": "[sample]", "flac": "",
		"csv": "want those of"} {
		opt := table.DefaultOptions()
		opt.Format = format
		r, err := table.Open([]string{dir}, nil, opt, nil)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(r.About().Columns[:1])
			if err := table.Each(r, func(*table.Values) error { return nil }); err != nil {
				got = err.Error()
			}
		}
		if !strings.Contains(got, want) && format != "flac" || format == "flac" && err == nil {
			t.Errorf("%q: found %s, want %s", format, got, want)
		}
	}
}

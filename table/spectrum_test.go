package table_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// sound returns a recording of 16 bits.
func sound(rate int, samples []float64) string {
	var data []byte
	for _, x := range samples {
		data = binary.LittleEndian.AppendUint16(data, uint16(int16(math.Round(32767*x))))
	}
	text := []byte(wav(1, 1, 16, data))
	binary.LittleEndian.PutUint32(text[24:], uint32(rate))
	return string(text)
}

func sine(rate int, hertz, seconds float64) (samples []float64) {
	for t := range int(seconds * float64(rate)) {
		samples = append(samples, 0.5*math.Sin(2*math.Pi*hertz*float64(t)/float64(rate)))
	}
	return samples
}

// framesOf returns the rows of the recordings in a folder, with the columns and notes.
func framesOf(t *testing.T, spec *table.Spectrum, want []table.Column, files map[string]string) (rows []table.Values,
	r *table.Reader) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	opt := table.DefaultOptions()
	opt.Spectrum = spec
	r, err := table.Open([]string{dir}, nil, opt, want)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		var v table.Values
		if err := r.Next(&v); err == io.EOF {
			return rows, r
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, v)
	}
}

// TestSpectrum checks that a tone is loudest in the band around it, at its own rate and at another, and that a
// recording shorter than a frame gives one frame. It also checks columns, places and steps.
func TestSpectrum(t *testing.T) {
	spec := &table.Spectrum{}
	rows, r := framesOf(t, spec, nil, map[string]string{"low/a.wav": sound(8000, sine(8000, 440, 0.1)),
		"quick/b.wav": sound(16000, sine(16000, 440, 0.1)), "short/c.wav": sound(8000, sine(8000, 2000, 0.01))})
	if spec.Bands != 32 || spec.Top != 4000 || len(r.Columns()) != 33 || len(rows) != 8+8+1 {
		t.Fatalf("found %v, %d columns and %d rows", spec, len(r.Columns()), len(rows))
	}
	for i, row := range rows {
		best := 0
		for k := range 32 {
			if row.Numbers[k] > row.Numbers[best] {
				best = k
			}
		}
		var hertz, want float64
		if fmt.Sscanf(r.Columns()[best].Name, "mel %g Hz", &hertz); true {
			want = 440
		}
		if i == 16 {
			want = 2000
		}
		if math.Abs(hertz-want) > 0.08*want || math.Abs(row.Step-0.01) > 1e-9 {
			t.Errorf("row %d: found %s loudest, want %g Hz; a step of %g", i, r.Columns()[best].Name, want, row.Step)
		}
		if i < 8 && (row.At != int64(80*i+1) || row.Texts[32] != "low") || i == 16 && row.Texts[32] != "short" {
			t.Errorf("row %d: found it at %v, %q", i, row.Place, row.Texts[32])
		}
		if i > 0 && i < 8 && math.Abs(row.Numbers[best]-rows[i+8].Numbers[best]) > 0.5 {
			t.Errorf("row %d: found %g dB at 8 kHz, %g at 16 kHz", i, row.Numbers[best], rows[i+8].Numbers[best])
		}
	}
	notes := strings.Join(r.Notes(), "; ")
	if !strings.Contains(notes, "log-mel frames: 32 bands up to 4000 Hz, 25 ms") {
		t.Errorf("found the notes %s", notes)
	}
}

// TestSpectrumFormula checks the energies against the definition, with the Fourier transform computed as a sum.
func TestSpectrumFormula(t *testing.T) {
	const rate, frame = 8000, 200
	samples := sine(rate, 700, 0.03)
	for i, x := range sine(rate, 1900, 0.03) {
		samples[i] = math.Round(32767*(samples[i]+0.3*x)) / 32768
	}
	rows, _ := framesOf(t, &table.Spectrum{}, nil, map[string]string{
		"a.wav": sound(rate, scaled(samples, 32768./32767))})
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	top := mel(4000)
	for b := range 32 {
		sum, weights, power := 0.0, 0.0, 0.0
		for k := range 257 {
			at := mel(float64(k)*rate/512) * 33 / top // in units of the distance between corner frequencies
			low, peak, high := hertz(float64(b)*top/33), hertz(float64(b+1)*top/33), hertz(float64(b+2)*top/33)
			if at <= float64(b) || at >= float64(b+2) {
				continue
			}
			f := float64(k) * rate / 512
			w := min((f-low)/(peak-low), (high-f)/(high-peak))
			var re, im float64
			power = 0
			for n := range frame {
				h := 0.5 - 0.5*math.Cos(2*math.Pi*(float64(n)+0.5)/frame)
				re += h * samples[n] * math.Cos(2*math.Pi*float64(k*n)/512)
				im -= h * samples[n] * math.Sin(2*math.Pi*float64(k*n)/512)
				power += h * h
			}
			sum, weights = sum+w*(re*re+im*im), weights+w
		}
		if want := max(-100, 10*math.Log10(sum/weights/power)); math.Abs(rows[0].Numbers[b]-want) > 1e-3 {
			t.Errorf("band %d: found %g dB, want %g", b, rows[0].Numbers[b], want)
		}
	}
}

func hertz(mel float64) float64 { return 700 * (math.Pow(10, mel/2595) - 1) }

func scaled(x []float64, by float64) (all []float64) {
	for _, v := range x {
		all = append(all, v*by)
	}
	return all
}

// TestSpectrumLeavesOut checks that tables, recordings with low rates and those without classes are not changed if that
// is requested, and that no sample is lost. A frame of too many samples is an error.
func TestSpectrumLeavesOut(t *testing.T) {
	auto := func() *table.Spectrum { return &table.Spectrum{MinRate: 4000, Labelled: true} }
	for name, files := range map[string]map[string]string{
		"slow": {"x/a.wav": sound(2000, sine(2000, 100, 0.1))}, "one": {"a.wav": sound(8000, sine(8000, 100, 0.025))},
		"table": {"a.csv": "sample\n" + strings.Repeat("1\n", 200)},
	} {
		rows, r := framesOf(t, auto(), nil, files)
		if len(rows) != 200 || r.Columns()[0].Name != "sample" || r.Spectrum() != nil {
			t.Errorf("%s: found %d rows of %v", name, len(rows), r.Columns())
		}
	}
	// for predictions, frames are required
	spec := &table.Spectrum{Frame: 0.025, Hop: 0.01, Bands: 8, Top: 4000}
	want := []table.Column{{Name: "mel 200 Hz", Kind: table.Number, Optional: true}}
	_, r := framesOf(t, spec, want, map[string]string{"a.wav": sound(2000, sine(2000, 100, 0.1))})
	if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, "at 2000 Hz have no sound above 1000 Hz") {
		t.Errorf("found the notes %s", notes)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(path, []byte("sample\n1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	o := table.DefaultOptions()
	o.Spectrum = spec
	if _, err := table.Open([]string{path}, nil, o, want); err == nil ||
		!strings.Contains(err.Error(), "want WAV or FLAC: training had log-mel frames: 8 bands up to 4000 Hz") {
		t.Errorf("found %v for a table", err)
	}
	path = filepath.Join(dir, "a.wav")
	if err := os.WriteFile(path, []byte(sound(1<<31-1, sine(100, 1, 1))), 0o666); err != nil {
		t.Fatal(err)
	}
	opt := table.DefaultOptions()
	opt.Spectrum = &table.Spectrum{}
	_, err := table.Open([]string{path}, nil, opt, nil)
	if err == nil || !strings.Contains(err.Error(), "in a frame of 0.025 s, want 2 to 262144") {
		t.Errorf("found %v for a recording at 2 GHz", err)
	}
}

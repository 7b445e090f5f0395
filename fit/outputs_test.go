package fit

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/onnxtest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
	"github.com/hippo-ssm/hippo/task"
)

// TestOutputsOfNetwork checks that the outputs for windows are those of each window alone, at the requested positions
// and in the order of the indices, with any number of windows computed together. An output that is not a number is an
// error with its window.
func TestOutputsOfNetwork(t *testing.T) {
	y := number("y", true)
	y.In = false
	for name, p := range map[string]Plan{
		"steps":   {Task: Steps, Length: 7000, Levels: []float64{0.5}, Columns: []Column{number("x", false), y}},
		"regress": {Task: Regress, Levels: []float64{0.25, 0.5}, Columns: []Column{number("x", false), y}},
		"next": {Task: Next, Length: 50, Levels: []float64{0.5}, Columns: []Column{number("x", true), number("z",
			true)}},
		"forecast": {Task: Forecast, Lookback: 40, Horizon: 3, Levels: []float64{0.5}, Columns: []Column{number("x",
			true)}},
	} {
		m := untrained(t, &p, "mean")
		var series [][][]float32
		for _, n := range []int{7000, 60, 7000, 55, 7000} {
			var rows [][]float32
			for i := range n {
				row := []float32{float32(math.Sin(float64(i + n))), float32(i % 5)}
				rows = append(rows, row[:len(p.Columns)])
			}
			series = append(series, rows)
		}
		f := made(t, &p, series...)
		w := f.newWindows(f.wholeSeries(), testPart, 3000, 0)
		indices := []int{}
		for i := range w.Len() {
			indices = append(indices, w.Len()-1-i)
		}
		at := 0
		err := m.outputs(background(), w, indices, func(in window, ex *task.Example, got []float32) error {
			i := indices[at]
			at++
			var one task.Example
			w.Example(i, &one)
			if in != w.at(i) || !slices.Equal(one.Values, ex.Values) || len(one.Numbers) != len(ex.Numbers) {
				t.Errorf("%s: found window %v, want window %d", name, in, i)
			}
			n := len(one.Values) / m.net.Config.Channels
			want := m.net.Predict(model.Input{Values: one.Values, Lengths: []int{n}})
			if p.Task == Forecast {
				want = want[p.Lookback*m.net.Config.Outputs:]
			}
			if len(got) != len(want) {
				t.Fatalf("%s: window %d has %d outputs, want %d", name, i, len(got), len(want))
			}
			for j := range got {
				if math.Abs(float64(got[j]-want[j])) > 1e-5 {
					t.Fatalf("%s: output %d of window %d is %v, want %v", name, j, i, got[j], want[j])
				}
			}
			return nil
		})
		if err != nil || at != len(indices) {
			t.Errorf("%s: %d windows of %d, %v", name, at, len(indices), err)
		}
		stop := fmt.Errorf("stop")
		err = m.outputs(background(), w, indices, func(window, *task.Example, []float32) error { return stop })
		if err != stop {
			t.Errorf("%s: what visits ends with %v", name, err)
		}
		f.rows.row(f.seqs[1].lo + 20)[0] = float32(math.Inf(1))
		err = m.outputs(background(), w, indices, func(window, *task.Example, []float32) error { return nil })
		which := slices.IndexFunc(indices, func(i int) bool { return w.at(i).seq == 1 })
		if want := fmt.Sprintf("sequence 2, window %d: the network returns", indices[which]+1); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %s", name, err, want)
		}
	}
}

// recording writes a WAV file of 16 bits with as many channels as a sample has numbers.
func recording(t *testing.T, path string, rate int, samples [][]int16) {
	t.Helper()
	channels := len(samples[0])
	var data []byte
	for _, row := range samples {
		for _, x := range row {
			data = binary.LittleEndian.AppendUint16(data, uint16(x))
		}
	}
	head := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00"), byte(channels), 0)
	head = binary.LittleEndian.AppendUint32(head, uint32(rate))
	head = binary.LittleEndian.AppendUint32(head, uint32(2*channels*rate))
	head = append(head, byte(2*channels), 0, 16, 0)
	head = binary.LittleEndian.AppendUint32(append(head, "data"...), uint32(len(data)))
	if err := os.WriteFile(path, append(head, data...), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestONNXFramesMade checks that a network of frames and its ONNX model of samples give the same results: with one and
// two channels, with any selection and order of bands, for recordings shorter than a frame and others. Other networks
// take rows.
func TestONNXFramesMade(t *testing.T) {
	const rate = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	for channels, names := range [][]string{{"sample"}, {"sample1", "sample2"}} {
		channels++
		spectrum := table.Spectrum{Frame: 0.032, Hop: 0.0128, Bands: 5, Top: rate / 2}
		p := Plan{Task: Regress, Levels: []float64{0.5}, Spectrum: &spectrum}
		for _, name := range names {
			for b := range spectrum.Bands {
				c := number(spectrum.Column(name, b), false)
				c.Mean, c.Deviation, c.Low, c.High = -30, 10, -200, 200
				p.Columns = append(p.Columns, c)
			}
		}
		last := len(p.Columns) - 1
		p.Columns[0], p.Columns[last] = p.Columns[last], p.Columns[0]
		y := number("y", true)
		y.In = false
		p.Columns = append(p.Columns[1:], y) // one band is omitted
		m := untrained(t, &p, "mean")
		file, card, err := onnxOf(m.net, &p, ONNXWhole)
		if err != nil {
			t.Fatal(err)
		}
		x := onnxtest.Decode(file)
		if card.Rate != rate {
			t.Errorf("found the rate %g", card.Rate)
		}
		for _, n := range []int{30, 64, 65, 300} {
			in := onnxtest.Array{Shape: []int{n, channels}}
			var samples [][]int16
			for range n {
				var row []int16
				for range channels {
					row = append(row, int16(rng.IntN(20000)-10000))
					in.X = append(in.X, float64(row[len(row)-1])/32768)
				}
				samples = append(samples, row)
			}
			path := filepath.Join(t.TempDir(), "x.wav")
			recording(t, path, rate, samples)
			var want []float64
			opt := PredictOptions{Options: table.DefaultOptions()}
			err := m.Predict(background(), []string{path}, nil, opt, func(p *Prediction) error {
				want = append(want, p.Quantiles[0]...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got := x.Run(map[string]onnxtest.Array{"samples": in})["quantiles"].X
			near(t, fmt.Sprintf("%d samples of %d channels", n, channels), got, want)
		}
	}
	for name, change := range map[string]func(p *Plan){
		"":                     func(*Plan) {},
		"no band":              func(p *Plan) { p.Columns[0].Name = "other" },
		"a frame that is long": func(p *Plan) { p.Spectrum.Frame = 2001. / rate },
		"times":                func(p *Plan) { p.Irregular, p.Time, p.Step = true, &table.Column{Name: "t"}, 1 },
		"the calendar":         func(p *Plan) { p.Calendar = []string{"hour"} },
		"samples":              func(p *Plan) { p.Spectrum = nil },
		"a frame of 2000":      func(p *Plan) { p.Spectrum.Frame = 1 },
	} {
		p := Plan{Task: Regress, Levels: []float64{0.5}, Spectrum: &table.Spectrum{Frame: 0.032, Hop: 0.0128, Bands: 1,
			Top: rate / 2}}
		y := number("y", true)
		y.In = false
		p.Columns = []Column{number(p.Spectrum.Column("sample", 0), false), y}
		change(&p)
		for _, form := range ONNXForms {
			_, card, err := onnxOf(untrained(t, &p, "mean").net, &p, form)
			want := form == ONNXWhole && (name == "" || name == "a frame of 2000")
			if err != nil || (card.Rate > 0) != want {
				t.Errorf("%q, %s: samples go in: %v, %v", name, form, card.Rate > 0, err)
			}
		}
	}
}

// TestGuesses checks that a rival is called for each window with the rows of the series that it may see, up to the last
// known value, and for the number of rows to predict.
func TestGuesses(t *testing.T) {
	type asked struct {
		rows []float32
		n    int
		last float64
	}
	y := number("y", true)
	y.In = false
	for name, c := range map[string]struct {
		p    Plan
		sees int
		want []asked // for the first and the last window
	}{
		"forecast": {Plan{Task: Forecast, Lookback: 2, Horizon: 3, Levels: []float64{0.5}, Columns: []Column{number("x",
			true)}}, 0, []asked{{[]float32{0, 1, 2, 3, 4}, 3, 1}, {[]float32{15, 16, 17, 18, 19}, 3, 16}}},
		"forecast from more": {Plan{Task: Forecast, Lookback: 2, Horizon: 3, Levels: []float64{0.5}, Columns: []Column{
			number("x", true)}}, 4, []asked{{[]float32{0, 1, 2, 3, 4}, 3, 1}, {[]float32{13, 14, 15, 16, 17, 18, 19}, 3,
			16}}},
		"whole": {Plan{Task: Regress, Levels: []float64{0.5}, Columns: []Column{number("x", false)}}, 0,
			[]asked{{seq(0, 10),
				1, 0}, {seq(10, 20), 1, 0}}},
		"rows": {Plan{Task: Steps, Length: 6, Levels: []float64{0.5}, Columns: []Column{number("x", false)}}, 0,
			[]asked{{
				seq(0, 6), 6, 0}, {seq(14, 20), 6, 0}}},
		"next": {Plan{Task: Next, Length: 6, Levels: []float64{0.5}, Columns: []Column{number("x", true)}}, 0,
			[]asked{{seq(0,
				5), 5, 0}, {seq(14, 19), 5, 0}}},
	} {
		p := c.p
		if p.Task == Regress || p.Task == Steps {
			p.Columns = append(p.Columns, y)
		}
		var series [][][]float32
		for s := range 2 {
			var rows [][]float32
			for _, x := range seq(10*s, 10*s+10) {
				rows = append(rows, []float32{x, x}[:len(p.Columns)])
			}
			series = append(series, rows)
		}
		f := made(t, &p, series...)
		w := f.newWindows(f.wholeSeries(), testPart, 1, 0)
		var got []asked
		m := seeing(t, &p, c.sees, func(e *encoder, rows []float32, n int, _ []float64) {
			a := asked{n: n}
			for at := 0; at < len(rows); at += p.width() {
				a.rows = append(a.rows, rows[at])
			}
			if p.Task == Forecast {
				a.last = e.last[0]
			}
			got = append(got, a)
		})
		n := 0
		err := m.outputs(background(), w, []int{0, w.Len() - 1}, func(at window, _ *task.Example, y []float32) error {
			if n++; len(y) != got[n-1].n || at != w.at((n-1)*(w.Len()-1)) {
				t.Errorf("%s: found %d outputs of window %v", name, len(y), at)
			}
			return nil
		})
		if fmt.Sprint(got) != fmt.Sprint(c.want) || err != nil || n != 2 {
			t.Errorf("%s: a rival is asked %v, %v, want %v", name, got, err, c.want)
		}
	}
	for _, c := range [][]int{{0, 5}, {3, 5, 0, 1, 2}, {10, 4, 0, 2, 5, 7}} {
		if got := some(c[0], c[1]); !slices.Equal(got, c[2:]) {
			t.Errorf("%d of %d: found %v", c[1], c[0], got)
		}
	}
}

// seq returns the numbers from lo up to hi.
func seq(lo, hi int) (x []float32) {
	for i := lo; i < hi; i++ {
		x = append(x, float32(i))
	}
	return x
}

// TestEncoderRows checks the inputs for a row. Hidden numbers and classes are like missing ones. A row to predict has
// only known values and the forecast to which the output is added. The time since the previous row comes last if
// recurrences use it. Numbers of a window are scaled by its deviation, which has a lower limit.
func TestEncoderRows(t *testing.T) {
	x, k, c := number("x", true), number("k", false), category("c", false, "u", "v")
	x.Mean, x.Deviation, k.Mean, k.Deviation, k.Gaps = 10, 4, 1, 2, true
	p := &Plan{Task: Forecast, Lookback: 4, Horizon: 2, Local: true, Dt: DtSteps, Step: 10, Time: &table.Column{},
		Columns: []Column{x, k, c}, Linear: &linear{Order: 2, Weights: [][]float32{{1, 2, 0, 0}}}}
	e, err := newEncoder(p)
	if err != nil {
		t.Fatal(err)
	}
	row := func(x, k, c, seconds float32) []float32 { return []float32{x, k, c, seconds, 0} }
	e.from(slices.Concat(row(8, 0, 0, 0), row(float32(nan), 0, 0, 0), row(14, 0, 0, 0), row(20, 0, 0, 0)))
	scale := math.Sqrt((36. + 0 + 36) / 3) // for 8, 14 and 20
	if e.last[0] != 20 || math.Abs(e.scale[0]-scale) > 1e-6 {
		t.Errorf("a window is measured from %v by %v, want 20 by %v", e.last[0], e.scale[0], scale)
	}
	sameNumbers(t, "ahead", e.ahead[0], []float64{-6, -12}, 1e-5) // (14 - 20) (1, 2)
	s := float32(scale)
	log := float32(math.Log(3))
	for name, c := range map[string]struct {
		row    []float32
		step   int
		hidden []bool
		want   []float32
	}{
		"seen":    {row(8, 5, 1, 130), -1, nil, []float32{-12 / s, 2, 0, 0, 1, 0, log}},
		"hidden":  {row(8, 5, 1, 130), -1, []bool{true, true, true}, []float32{0, 0, 1, 0, 0, 0, log}},
		"one":     {row(8, 5, 1, 130), -1, []bool{false, true, false}, []float32{-12 / s, 0, 1, 0, 1, 0, log}},
		"asked":   {row(8, 5, 1, 130), 1, nil, []float32{-12 / s, 0, 0, 0, 0, 1, log}},
		"missing": {row(float32(nan), float32(nan), float32(nan), 130), -1, nil, []float32{0, 0, 1, 0, 0, 0, log}},
		"late":    {row(20, 1, 0, 1e5), -1, nil, []float32{0, 0, 0, 1, 0, 0, float32(math.Log(100))}},
	} {
		got := e.row(nil, c.row, 100, c.step, c.hidden)
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, func(a, b float32) bool {
			return math.Abs(float64(a-b)) <
				1e-6
		}) {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
	for _, now := range []float64{0, 3} {
		y := e.target(0, 26, now)
		if want := (26 - now - 20) / scale; math.Abs(y-want) > 1e-6 || math.Abs(e.back(0, y, now)-26) > 1e-6 {
			t.Errorf("26 above %v is %v, want %v, and back %v", now, y, want, e.back(0, y, now))
		}
	}
	e.from(slices.Concat(row(8, 0, 0, 0), row(8, 0, 0, 0), row(8, 0, 0, 0), row(8, 0, 0, 0)))
	if e.scale[0] != smallest*4 || smallest != 0.05 {
		t.Errorf("numbers that are alike are measured by %v, want a twentieth of 4", e.scale[0])
	}
	e.from(slices.Repeat([]float32{float32(nan), 0, 0, 0, 0}, 4))
	if e.scale[0] != 4 || e.last[0] != 10 {
		t.Errorf("without numbers they are measured from %v by %v, want the mean 10 and the deviation 4", e.last[0],
			e.scale[0])
	}
}

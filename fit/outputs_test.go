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

// TestOutputsOfNetwork: the outputs for windows are those of each window alone, at the positions that are asked, in the
// order of the indices, however many are computed together; what is no number is an error with its window.
func TestOutputsOfNetwork(t *testing.T) {
	y := number("y", true)
	y.In = false
	for name, p := range map[string]Plan{
		"steps":    {Task: Steps, Length: 7000, Levels: []float64{0.5}, Columns: []Column{number("x", false), y}},
		"regress":  {Task: Regress, Levels: []float64{0.25, 0.5}, Columns: []Column{number("x", false), y}},
		"next":     {Task: Next, Length: 50, Levels: []float64{0.5}, Columns: []Column{number("x", true), number("z", true)}},
		"forecast": {Task: Forecast, Lookback: 40, Horizon: 3, Levels: []float64{0.5}, Columns: []Column{number("x", true)}},
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

// recording writes a WAV file of 16 bits, with as many channels as a sample has numbers.
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

// TestONNXFramesMade: a network of frames gives what its ONNX model gives of samples: of one channel and of two, of any
// of the bands in any order, of recordings that are shorter than a frame and not; other networks take rows.
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
		p.Columns = append(p.Columns[1:], y) // one band is left out
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

package fit_test

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/internal/testkit/onnxtest"
	"github.com/hippo-ssm/hippo/table"
)

// within is the maximum difference between numbers of an ONNX model and of hippo, relative to the largest.
const within = 1e-4

// exported returns a network in an ONNX form, with its card.
func exported(t *testing.T, dir, form string) (*onnxtest.Model, *fit.ONNXCard) {
	t.Helper()
	file, _, err := fit.ONNX(dir, form)
	if err != nil {
		t.Fatal(err)
	}
	m, card := onnxtest.Decode(file), &fit.ONNXCard{}
	if err := json.Unmarshal([]byte(m.Meta["hippo"]), card); err != nil {
		t.Fatal(err)
	}
	return m, card
}

// given returns a table as the inputs of an ONNX model. It has the rows of the series with the given name in a column.
func given(t *testing.T, text string, names []string, card *fit.ONNXCard, column, series string) onnxtest.Array {
	t.Helper()
	r := csv.NewReader(strings.NewReader(text))
	if strings.Contains(strings.SplitN(text, "\n", 2)[0], ";") {
		r.Comma = ';'
	}
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	x := onnxtest.Array{Shape: []int{0, len(names)}}
	for _, line := range lines[1:] {
		if column != "" && line[slices.Index(lines[0], column)] != series {
			continue
		}
		x.Shape[0]++
		for _, name := range names {
			at := slices.IndexFunc(card.Columns, func(c fit.CardColumn) bool { return c.Name == name })
			cell, v := line[slices.Index(lines[0], name)], math.NaN()
			if c := card.Columns[at]; c.Kind == table.Category {
				v = float64(slices.Index(c.Classes, cell))
			} else if cell != "" && cell != "NA" {
				if v, err = strconv.ParseFloat(strings.Replace(cell, ",", ".", 1), 64); err != nil {
					t.Fatal(err)
				}
			}
			x.X = append(x.X, v)
		}
	}
	return x
}

// rows returns rows [from, to) of an array.
func rows(x onnxtest.Array, from, to int) onnxtest.Array {
	n := len(x.X) / x.Shape[0]
	return onnxtest.Array{Shape: append([]int{to - from}, x.Shape[1:]...), X: x.X[from*n : to*n]}
}

// inSteps runs a model row by row. It returns the outputs at each row.
func inSteps(m *onnxtest.Model, in map[string]onnxtest.Array) (all []map[string]onnxtest.Array) {
	state := m.Zeros("state")
	for i := range in["rows"].Shape[0] {
		now := map[string]onnxtest.Array{"state": state}
		for name, x := range in {
			now[name] = rows(x, i, i+1)
		}
		out := m.Run(now)
		state = out["next_state"]
		all = append(all, out)
	}
	return all
}

// same compares outputs of all rows, or of the last steps, with predictions.
func same(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want { // NaN if there is no prediction
		if math.IsNaN(want[i]) && math.IsNaN(got[i]) {
			want[i], got[i] = 0, 0
		}
	}
	golden.Close(t, what, got, want, within)
}

// TestONNXClasses checks the class of a sequence, with a category and missing numbers, for the whole sequence and after
// each of its rows.
func TestONNXClasses(t *testing.T) {
	for _, pool := range []string{"mean", "last"} {
		text := strings.Replace(strings.Replace(patients(), ",7", ",", 1), ",60.", ",.", 20)
		path := write(t, "visits.csv", text)
		res := run(t, small(t, path, func(c *fit.Config) {
			c.Target, c.Series, c.Group, c.Pool, c.Epochs = []string{"outcome"}, "visit", "patient", pool, 2
			c.Use, c.Final, c.Model.Layers, c.ClassWeights = "network", "train", "s4d,h3", "slow=5,quick=1"
		}))
		whole, card := exported(t, res.Config.Out, fit.ONNXWhole)
		step, _ := exported(t, res.Config.Out, fit.ONNXStep)
		all, _ := predict(t, res.Config.Out, path, false)
		for _, i := range []int{0, 5} {
			x := given(t, text, card.Rows, card, "visit", fmt.Sprint("v", i))
			in := map[string]onnxtest.Array{"rows": x}
			out := whole.Run(in)
			same(t, "the whole", out["probabilities"].X, all[i].Probabilities)
			if class, _ := all[i].Class(); out["class"].X[0] != float64(class) {
				t.Errorf("found class %v, want %d", out["class"].X, class)
			}
			steps := inSteps(step, in)
			same(t, "the last step", steps[len(steps)-1]["probabilities"].X, all[i].Probabilities)
		}
		if strings.Join(card.Classes, " ") != strings.Join(res.Plan.ClassNames(), " ") {
			t.Errorf("found the classes %q", card.Classes)
		}
	}
}

// TestONNXRows checks predictions at each row: classes, numbers, the next row and anomalies, the latter two with
// missing rows, for large numbers and for rows at irregular times.
func TestONNXRows(t *testing.T) {
	holes := strings.Split(spikes(300, 200), "\n")
	for i := range holes {
		if i > 100 && i%9 == 0 {
			holes[i] = "NA"
		} else if v, err := strconv.ParseFloat(holes[i], 64); err == nil {
			holes[i] = fmt.Sprintf("%.4f", v+5e6)
		}
	}
	wave := strings.Join(holes, "\n")
	for name, test := range map[string]struct {
		text   string
		change func(c *fit.Config)
	}{
		"classes": {sensor(400), func(c *fit.Config) { c.Target, c.Ignore = []string{"zustand"}, []string{"Wert"} }},
		"numbers": {sensor(400), func(c *fit.Config) {
			c.Target, c.Ignore, c.Model.Layers = []string{"Wert"}, []string{"zustand"}, "mamba"
		}},
		"irregular": {irregular(400), func(c *fit.Config) { c.Target, c.Calendar = []string{"y"}, "auto" }},
		"next":      {wave, func(c *fit.Config) { c.Task = fit.Next }},
		"anomaly":   {wave, func(c *fit.Config) { c.Task = fit.Anomaly }},
	} {
		path := write(t, "data.csv", test.text)
		res := run(t, small(t, path, func(c *fit.Config) {
			c.Length, c.Epochs, c.Use, c.Final = 50, 2, "network", "train"
			test.change(c)
		}))
		whole, card := exported(t, res.Config.Out, fit.ONNXWhole)
		step, _ := exported(t, res.Config.Out, fit.ONNXStep)
		all, _ := predict(t, res.Config.Out, path, false)
		in := map[string]onnxtest.Array{"rows": given(t, test.text, card.Rows, card, "", "")}
		if name == "irregular" {
			in["seconds"], in["calendar"] = clock(all, card)
		}
		var want, scores []float64
		for _, p := range all {
			want, scores = append(want, p.Probabilities...), append(scores, p.Score)
			for _, q := range p.Quantiles {
				want = append(want, q...)
			}
			if p.Quantiles == nil && p.Probabilities == nil { // the first row, for anomalies
				want = append(want, slices.Repeat([]float64{math.NaN()}, 9)...)
			}
		}
		out := "quantiles"
		if len(card.Classes) > 0 {
			out = "probabilities"
		}
		got, steps := whole.Run(in), inSteps(step, in)
		n := len(want) / len(all)
		same(t, name, slices.Clone(got[out].X), slices.Clone(want))
		for i := range 120 {
			same(t, name+", a step", steps[i][out].X, slices.Clone(want[i*n:(i+1)*n]))
		}
		if name == "anomaly" {
			same(t, "scores", got["score"].X, slices.Clone(scores))
			for i := range 120 {
				same(t, "a score", steps[i]["score"].X, slices.Clone(scores[i:i+1]))
			}
		}
	}
}

// TestONNXFrames checks that recordings that are read as frames can be input as samples, with one and two channels,
// including recordings shorter than a frame.
func TestONNXFrames(t *testing.T) {
	for _, channels := range []int{1, 2} {
		dir := tones(t, 8000, 12)
		files, err := filepath.Glob(filepath.Join(dir, "*", "*.wav"))
		if err != nil {
			t.Fatal(err)
		}
		var sounds [][]float64
		for _, file := range files { // the channels are x and -x/2
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var sound []float64
			wide := append([]byte{}, data[:44]...)
			wide[22], wide[32] = byte(channels), byte(2*channels)
			for k := 44; k < len(data); k += 2 {
				for c := range channels {
					x := int16(binary.LittleEndian.Uint16(data[k:]))
					if c == 1 {
						x /= -2
					}
					wide, sound = binary.LittleEndian.AppendUint16(wide, uint16(x)), append(sound, float64(x)/32768)
				}
			}
			binary.LittleEndian.PutUint32(wide[40:], uint32(len(wide)-44))
			if err := os.WriteFile(file, wide, 0o666); err != nil {
				t.Fatal(err)
			}
			sounds = append(sounds, sound)
		}
		res := run(t, small(t, dir, func(c *fit.Config) { c.Epochs, c.Use, c.Final = 1, "network", "train" }))
		whole, card := exported(t, res.Config.Out, fit.ONNXWhole)
		all, _ := predict(t, res.Config.Out, dir, false)
		for _, i := range []int{0, 13} {
			x := onnxtest.Array{Shape: []int{len(sounds[i]) / channels, channels}, X: sounds[i]}
			got := whole.Run(map[string]onnxtest.Array{"samples": x})["probabilities"].X
			same(t, "a recording", got, all[i].Probabilities)
			whole.Run(map[string]onnxtest.Array{"samples": rows(x, 0, 50)})
		}
		if card.Rate != 8000 {
			t.Errorf("found the rate %g", card.Rate)
		}
	}
}

// irregular returns a signal with rows at irregular times in five days.
func irregular(n int) string {
	var b strings.Builder
	b.WriteString("time,x,y\n")
	at := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i := range n {
		at = at.Add(time.Duration(60+(i*i*7919)%2400) * time.Second)
		hour := float64(at.Hour())
		fmt.Fprintf(&b, "%s,%.3f,%.3f\n", at.Format(time.DateTime), math.Sin(float64(i)), 3+math.Sin(hour/4))
	}
	return b.String()
}

// clock returns the inputs seconds and calendar for rows.
func clock(all []fit.Prediction, card *fit.ONNXCard) (seconds, phases onnxtest.Array) {
	seconds.Shape, phases.Shape = []int{len(all)}, []int{len(all), len(card.Calendar)}
	before := math.NaN()
	for _, p := range all {
		seconds.X = append(seconds.X, p.Time-before)
		before = p.Time
		for _, cycle := range card.Calendar {
			phases.X = append(phases.X, phase(cycle, p.Time))
		}
	}
	return seconds, phases
}

// phase computes the phase as docs/fit.md defines it.
func phase(cycle string, seconds float64) float64 {
	at := time.Unix(int64(seconds), 0).UTC()
	switch cycle {
	case "hour":
		return (float64(at.Hour()) + float64(at.Minute())/60 + float64(at.Second())/3600) / 24
	case "weekday":
		return float64((at.Weekday()+6)%7) / 7
	}
	return float64(at.YearDay()-1) / 366
}

// TestONNXForecast checks a forecast from the last rows of a series, whole and row by row, with values known in
// advance: for logarithms, for fewer rows than the network looks back, with the scale of the window or the series, and
// with the calendar.
func TestONNXForecast(t *testing.T) {
	text := sales(200)
	future := text
	for d := 200; d < 207; d++ {
		future += fmt.Sprintf("%s,shop 0,%g,\n", date(d), 1+0.5*float64(d%2))
	}
	for _, c := range []struct {
		scale, base, calendar, log, use string
		from                            int
	}{{"window", "linear", "none", "on", "network", 150}, {"series", "last", "none", "off", "seasonal", 190},
		{"auto", "linear", "auto", "off", "network", 100}} {
		path := write(t, "sales.csv", text)
		res := run(t, small(t, path, func(o *fit.Config) {
			o.Task, o.Target, o.Series, o.Known = fit.Forecast, []string{"sold"}, "shop", []string{"price"}
			o.Horizon, o.Lookback, o.Epochs, o.BatchSize, o.Intervals = 7, 21, 1, 32, "valid"
			o.Scale, o.Base, o.Calendar, o.Log = c.scale, c.base, c.calendar, c.log
			o.Use, o.Final = c.use, "train"
		}))
		whole, card := exported(t, res.Config.Out, fit.ONNXWhole)
		step, _ := exported(t, res.Config.Out, fit.ONNXStep)
		lines := strings.Split(future, "\n")
		last := write(t, "last.csv", lines[0]+"\n"+strings.Join(lines[1+2*c.from:], "\n"))
		m, err := fit.Open(res.Config.Out)
		if err == nil { // the file contains the network, even if the run has chosen another predictor
			m, err = m.Use("network")
		}
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Concat(quantilesOf(t, m, last, false)[:7]...)
		if (card.Rival != "") != (c.use != "network") {
			t.Errorf("%s: found the rival %q", c.use, card.Rival)
		}
		x := given(t, future, card.Rows, card, "shop", "shop 0")
		in := map[string]onnxtest.Array{"rows": rows(x, c.from, 200)}
		known := rows(given(t, future, card.Known, card, "shop", "shop 0"), 200, 207)
		more := map[string]onnxtest.Array{"known": known}
		var clocks []fit.Prediction
		for d := 200 - 21; d < 207; d++ { // missing rows are a day apart
			at, err := time.Parse(time.DateOnly, date(max(d, c.from)))
			if err != nil {
				t.Fatal(err)
			}
			clocks = append(clocks, fit.Prediction{Time: float64(at.Unix() - 24*3600*int64(max(0, c.from-d)))})
		}
		seconds, phases := clock(clocks, card)
		if more["seconds"] = seconds; len(card.Calendar) > 0 {
			more["calendar"] = phases
		}
		state := step.Zeros("state")
		var out map[string]onnxtest.Array
		for i := c.from; i < 200; i++ {
			now := map[string]onnxtest.Array{"rows": rows(x, i, i+1), "state": state}
			for name, v := range more {
				now[name] = v
			}
			out = step.Run(now)
			state = out["next_state"]
		}
		same(t, c.scale+", in steps", out["quantiles"].X, want)
		for name, v := range more {
			in[name] = v
		}
		same(t, c.scale, whole.Run(in)["quantiles"].X, want)
	}
}

// TestONNXRefused checks that networks without such a form are refused with the reason.
func TestONNXRefused(t *testing.T) {
	res := run(t, small(t, write(t, "wave.csv", spikes(200)), func(c *fit.Config) {
		c.Task, c.Epochs, c.Length, c.Model.Layers = fit.Steps, 1, 20, "attention"
		c.Task, c.Target = fit.Next, []string{"x"}
	}))
	for form, want := range map[string]string{"both": `found "both"`,
		"whole": res.Config.Out + ": onnx: layer 0: found the mixer attention, which keeps earlier"} {
		if _, _, err := fit.ONNX(res.Config.Out, form); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", form, err, want)
		}
	}
}

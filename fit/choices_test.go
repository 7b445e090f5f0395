package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// TestFolder checks that the folder of a run is named after the task, the first file and the targets, with characters
// that any system accepts.
func TestFolder(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, c := range []struct {
		data   string
		task   string
		target []string
		want   string
	}{
		{"a/b.csv", Auto, nil, "fit/b"}, {"a/b.c.csv", Classify, []string{"y", "Z9"}, "fit/b.c-y-Z9"},
		{"-", Auto, nil, "fit/data"}, {".csv", Auto, nil, "fit/data"}, {".", Auto, nil, "fit/data"},
		{"/", Auto, []string{"y"}, "fit/data-y"}, {"b", Forecast, nil, "forecast/b"},
		{"a_.+=,b-0az AZ9/.csv", Auto, nil, "fit/data"}, {"a_.+=,b-0az AZ9{`@[.csv", Auto, nil,
			"fit/a_.+=,b-0az_AZ9____"},
		{"ä.csv", Auto, []string{"°C"}, "fit/_-_C"}, {long + ".csv", Auto, nil, "fit/" + long},
		{long + "y.csv", Auto, nil, "fit/" + long},
	} {
		got := Folder(&Config{Data: []string{c.data, "other.csv"}, Task: c.task, Target: c.target})
		if want := filepath.Join("runs", filepath.FromSlash(c.want)); got != want {
			t.Errorf("%s: found %s, want %s", c.data, got, want)
		}
	}
}

// someExamples is a set of examples with only a size.
type someExamples int

func (n someExamples) Len() int                   { return int(n) }
func (n someExamples) Example(int, *task.Example) {}

// TestChoose checks that settings left open follow from the task and the number of examples: a small network and small
// batches for few examples, about 600 updates, at most 100 epochs, and a warmup of a tenth of them, at most 50.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		task   string
		n      int
		change func(c *Config)
		want   string // layers, width, batch, epochs, warmup
	}{
		{Forecast, 399, nil, "s4d*1 16 8 12 50"}, {Forecast, 400, nil, "s4d*2 32 8 12 50"},
		{Forecast, 639, nil, "s4d*2 32 8 8 50"}, {Forecast, 640, nil, "s4d*2 32 32 30 50"},
		{Classify, 20, nil, "s4d*3 32 8 100 30"}, {Classify, 8, nil, "s4d*3 32 8 100 10"},
		{Classify, 9, nil, "s4d*3 32 8 100 20"}, {Steps, 1_000_000, nil, "s4d*3 32 32 1 50"},
		{Fill, 640, nil, "s4d(bidirectional=true)*2 32 32 30 50"},
		{Next, 640, func(c *Config) { c.Model.Layers, c.Model.DModel = "mamba*1", 7 }, "mamba*1 7 32 30 50"},
		{Forecast, 10, func(c *Config) { c.Model.Layers, c.Model.DModel = "mamba*1", 7 }, "mamba*1 7 8 100 20"},
		{Next, 640, func(c *Config) { c.BatchSize, c.Epochs = 10, 3 }, "s4d*3 32 10 3 19"},
		{Next, 640, func(c *Config) { c.Epochs, c.Steps = 3, 70 }, "s4d*3 32 32 3 7"},
		{Next, 640, func(c *Config) { c.Optim.Warmup = 9 }, "s4d*3 32 32 30 9"},
		{Next, 640, func(c *Config) { c.Optim.WarmupEpochs = 1 }, "s4d*3 32 32 30 0"},
	} {
		cfg := DefaultConfig()
		cfg.Task = c.task
		if c.change != nil {
			c.change(&cfg)
		}
		cfg.choose(&Plan{Task: c.task}, &task.Set{Train: someExamples(c.n)})
		got := fmt.Sprint(cfg.Model.Layers, " ", cfg.Model.DModel, cfg.BatchSize, cfg.Epochs, cfg.Optim.Warmup)
		if got != c.want {
			t.Errorf("%s of %d: found %s, want %s", c.task, c.n, got, c.want)
		}
	}
}

// TestSame checks that two runs are the same if their data and settings are equal, except for the folder and the
// memory.
func TestSame(t *testing.T) {
	of := func(change func(c *Config)) *Config {
		c := DefaultConfig()
		c.Data, c.Out = []string{"a.csv"}, "here"
		change(&c)
		return &c
	}
	for want, change := range map[string]func(c *Config){
		"":                                  func(c *Config) { c.Out, c.Memory = "there", "ignore" },
		`the data ["a.csv"], now ["b.csv"]`: func(c *Config) { c.Data = []string{"b.csv"} },
		"horizon: 0 -> 3, season: 0 -> 7":   func(c *Config) { c.Horizon, c.Season = 3, 7 },
	} {
		err := of(change).same(of(func(*Config) {}))
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// waves returns settings for a small network with data: 120 hours of a wave.
func waves(t *testing.T, change func(c *Config)) Config {
	t.Helper()
	var at []float64
	for i := range 120 {
		at = append(at, float64(i))
	}
	lines := strings.Split(hours(at...), "\n")
	for i := range at {
		lines[i+1] = fmt.Sprintf("%s,%.3f", strings.Split(lines[i+1], ",")[0], 5+math.Sin(float64(i)))
	}
	dir := t.TempDir()
	c := DefaultConfig()
	c.Data, c.Out = []string{filepath.Join(dir, "w.csv")}, filepath.Join(dir, "run")
	if err := os.WriteFile(c.Data[0], []byte(strings.Join(lines, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	c.Task, c.Target, c.Horizon, c.Lookback, c.Season = Forecast, []string{"x"}, 4, 8, 6
	c.Model.Layers, c.Model.DModel, c.Model.DState, c.Log = "s4d*1", 4, 4, "off"
	if change != nil {
		change(&c)
	}
	return c
}

// TestTrial checks that a trial prepares training as in a run and reports it, but leaves no files.
func TestTrial(t *testing.T) {
	for _, base := range []string{"linear", "last"} {
		c := waves(t, func(c *Config) { c.Base = base })
		var told Start
		var notes []string
		failed := errors.New("enough")
		before, _ := filepath.Glob(filepath.Join(os.TempDir(), "hippo-trial-*"))
		err := Trial(context.Background(), c, nil, Events{Start: func(s Start) { told = s },
			Note: func(text string) { notes = append(notes, text) }},
			func(w *labelled.Work, loop *train.Training) error {
				if w.Net.NumParams() != told.Params || loop.Steps() != 0 {
					t.Errorf("found %d parameters and %d updates", w.Net.NumParams(), loop.Steps())
				}
				return failed
			})
		after, _ := filepath.Glob(filepath.Join(os.TempDir(), "hippo-trial-*"))
		if !errors.Is(err, failed) || !slices.Equal(before, after) {
			t.Errorf("found %v, and %v are left", err, after)
		}
		// Of 84 training, 18 validation and 18 test rows, forecasts of 4 rows from the 8 rows before.
		if told.Rows != 120 || told.Series != 1 || told.Params == 0 || told.Windows != [3]int{73, 15, 15} ||
			told.Resumed != 0 || (told.Plan.Linear != nil) != (base == "linear") {
			t.Errorf("told %+v", told)
		}
		want := []string{"column t is the time of a row",
			"the data is divided in time: the first rows of each series " +
				"are the training part, the last the test part (0.7,0.15,0.15)"}
		if !slices.Equal(notes, want) {
			t.Errorf("found the notes %q, want %q", notes, want)
		}
	}
	do := func(*labelled.Work, *train.Training) error { return nil }
	if err := Trial(context.Background(), waves(t, nil), nil, Events{}, do); err != nil {
		t.Errorf("without listeners: %v", err)
	}
	for want, change := range map[string]func(c *Config){
		"levels: found":         func(c *Config) { c.Levels = "2" },
		"no such file":          func(c *Config) { c.Data = []string{"none.csv"} },
		`w.csv: target: found`:  func(c *Config) { c.Target = []string{"y"} },
		"w.csv: found 120 rows": func(c *Config) { c.Lookback = 100 },
		"w.csv: the test part":  func(c *Config) { c.Split = "0.8,0.18,0.02" },
	} {
		err := Trial(context.Background(), waves(t, change), nil, Events{}, do)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
	c := waves(t, func(c *Config) { c.Data, c.Spectrum = []string{"none.csv"}, spectrumMel })
	if err := Trial(context.Background(), c, nil, Events{}, do); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no recording: found %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Trial(ctx, waves(t, nil), nil, Events{}, do); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: found %v", err)
	}
}

// TestFinishedRun checks that the result of a finished run is returned, but only for the same settings. A result that
// cannot be read is an error and is not overwritten.
func TestFinishedRun(t *testing.T) {
	c := waves(t, nil)
	done := &Result{Config: c, Rows: 77}
	if err := errors.Join(os.MkdirAll(c.Out, 0o777), done.write(c.Out)); err != nil {
		t.Fatal(err)
	}
	run := func(change func(c *Config)) (*Result, error) {
		other := c
		change(&other)
		return Run(context.Background(), other, io.MultiReader(), Events{})
	}
	if res, err := run(func(*Config) {}); err != nil || res.Rows != 77 {
		t.Errorf("found %+v, %v", res, err)
	}
	t.Chdir(t.TempDir())
	if err := errors.Join(os.MkdirAll(Folder(&c), 0o777), done.write(Folder(&c))); err != nil {
		t.Fatal(err)
	}
	if res, err := run(func(c *Config) { c.Out = "" }); err != nil || res.Config.Out != Folder(&c) {
		t.Errorf("in the folder that data and target name: found %+v, %v", res, err)
	}
	_, err := run(func(c *Config) { c.Horizon = 5 })
	if want := "found the result of a run with other settings: horizon: 4 -> 5; remove it"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("found %v, want %q", err, want)
	}
	if err := os.WriteFile(filepath.Join(c.Out, ResultFile), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := run(func(*Config) {}); err == nil || !strings.Contains(err.Error(), ResultFile) {
		t.Errorf("of a damaged result: found %v", err)
	}
	if _, err := run(func(c *Config) { c.Data = nil }); err == nil || !strings.Contains(err.Error(),
		"data: found none") {
		t.Errorf("without data: found %v", err)
	}
}

// TestInterrupted checks that a run that is interrupted before its first update can only be continued with the same
// settings, except for the name of the folder and the memory.
func TestInterrupted(t *testing.T) {
	c := waves(t, func(c *Config) { c.Epochs = 1 })
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, c, nil, Events{Step: func(train.Progress) { cancel() }})
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("found %v", err)
	}
	other := c
	other.Season = 7
	_, err = Run(context.Background(), other, nil, Events{})
	if want := "found an unfinished run with other settings: season: 6 -> 7; remove it"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("found %v, want %q", err, want)
	}
	other.Season, other.Use = 6, "none"
	_, err = Run(context.Background(), other, nil, Events{})
	if err == nil {
		t.Error("an unknown contender is taken")
	}
	ctx, cancel = context.WithCancel(context.Background())
	resumed := -1
	_, err = Run(ctx, c, nil, Events{Start: func(s Start) { resumed = s.Resumed; cancel() }})
	if resumed != 1 || !errors.Is(err, ErrInterrupted) {
		t.Errorf("resumed at update %d, %v, want 1 and an interruption", resumed, err)
	}
}

// TestCheck checks settings at their bounds, and the errors for those beyond.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"": func(c *Config) {
			c.Alarms, c.Refit, c.Task, c.Shards = "0.999", 1, Forecast,
				4
		},
		`alarms: found "1", want`:      func(c *Config) { c.Alarms = "1" },
		`alarms: found "0", want`:      func(c *Config) { c.Alarms = "0" },
		`alarms: found "nan", want`:    func(c *Config) { c.Alarms = "nan" },
		`alarms: found "often", want`:  func(c *Config) { c.Alarms = "often" },
		"ignore: found y, which is":    func(c *Config) { c.Target, c.Ignore = []string{"x", "y"}, []string{"y"} },
		"known: found x, which is":     func(c *Config) { c.Target, c.Known = []string{"x", "y"}, []string{"z", "x"} },
		"refit: found 2 for the task":  func(c *Config) { c.Refit = 2 },
		"class_weights: found":         func(c *Config) { c.ClassWeights = "x" },
		`epochs: found "-1", want`:     func(c *Config) { c.Epochs = -1 },
		`shards: found "0", want`:      func(c *Config) { c.Shards = 0 },
		"shards: found 4, want at mos": func(c *Config) { c.BatchSize, c.Shards = 2, 4 },
		`batch_size: found "-2"`:       func(c *Config) { c.BatchSize = -2 },
		"model.d_model: found -8, ":    func(c *Config) { c.Model.DModel = -8 },
		"data: found none, want a fil": func(c *Config) { c.Data = nil },
		// limits that the struct tags define, which also apply to Go programs
		`rows: found "-1", want an in`:  func(c *Config) { c.Rows = -1 },
		`task: found "clasify", want `:  func(c *Config) { c.Task = "clasify" },
		`calendar: found "", want one`:  func(c *Config) { c.Calendar = "" },
		`header: found "maybe", want `:  func(c *Config) { c.Header = "maybe" },
		`eval_limit: found "-1", want`:  func(c *Config) { c.EvalLimit = -1 },
		`optim.warmup_epochs: found "-`: func(c *Config) { c.Optim.WarmupEpochs = -1 },
	} {
		c := DefaultConfig()
		c.Data = []string{"x.csv"}
		change(&c)
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}

// TestPrintImportance checks that there is a line for each of the most important columns, and the number of the others.
func TestPrintImportance(t *testing.T) {
	var none *Importance
	var out strings.Builder
	if err := errors.Join(none.print(&out), (&Importance{}).print(&out)); err != nil || out.Len() > 0 {
		t.Errorf("of nothing: found %q, %v", out.String(), err)
	}
	im := &Importance{How: "by chance", Loss: 0.5}
	for i := range mostPrinted {
		im.Columns = append(im.Columns, ColumnImportance{Column: fmt.Sprint("c", i), Rise: 0.25, Deviation: 0.03,
			Accuracy: 12.34})
	}
	for _, more := range []string{"", "and 2 columns that matter less, in " + ResultFile} {
		out.Reset()
		if err := im.print(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if lines[0] != "which column matters by chance (loss 0.5):" || strings.Count(out.String(), "0.25 ± 0.03") !=
			mostPrinted || strings.Count(out.String(), "12.3") != mostPrinted ||
			strings.Contains(out.String(), "matter less") != (more != "") || !strings.Contains(out.String(), more) {
			t.Errorf("found\n%s", out.String())
		}
		im.Columns = append(im.Columns, ColumnImportance{}, ColumnImportance{})
	}
}

// TestPasts checks the data that smoothers learn from: the last rows of some series, in the units of the data. For
// longer series it is fewer series.
func TestPasts(t *testing.T) {
	p := &Plan{Task: Forecast, Horizon: 1, Lookback: 1, Columns: []Column{number("x", true)}}
	p.Columns[0].Base = 100
	for _, c := range [][3]int{{1000, 8, 6}, {3000, 5, 3}, {600, 8, 8}} { // rows, series, series used
		var series [][][]float32
		for s := range c[1] {
			rows := make([][]float32, c[0])
			for i := range rows {
				rows[i] = []float32{float32(s*10_000 + i)}
			}
			series = append(series, rows)
		}
		f := made(t, p, series...)
		all := f.pasts(f.newWindows(f.wholeSeries(), trainPart, 1, 0), 0)
		if len(all) != c[2] {
			t.Errorf("%v: %d series are seen", c, len(all))
			continue
		}
		for k, s := range some(c[1], c[2]) {
			first := float64(100 + s*10_000 + c[0] - min(c[0], smoothRows))
			if x := all[k]; len(x) != min(c[0], smoothRows) || x[0] != first ||
				x[len(x)-1] != float64(99+s*10_000+c[0]) {
				t.Errorf("%v: of series %d, %d rows from %v are seen, want those from %v", c, s, len(x), x[0], first)
			}
		}
	}
}

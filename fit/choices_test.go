package fit

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/task"
)

// TestFolder: the folder of a run is named by the task, the first file and the targets, in signs that any system takes.
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
		{"a_.+=,b-0az AZ9/.csv", Auto, nil, "fit/data"}, {"a_.+=,b-0az AZ9{`@[.csv", Auto, nil, "fit/a_.+=,b-0az_AZ9____"},
		{"ä.csv", Auto, []string{"°C"}, "fit/_-_C"}, {long + ".csv", Auto, nil, "fit/" + long},
		{long + "y.csv", Auto, nil, "fit/" + long},
	} {
		got := Folder(&Config{Data: []string{c.data, "other.csv"}, Task: c.task, Target: c.target})
		if want := filepath.Join("runs", filepath.FromSlash(c.want)); got != want {
			t.Errorf("%s: found %s, want %s", c.data, got, want)
		}
	}
}

// some is a set of examples of which only their number is known.
type someExamples int

func (n someExamples) Len() int                   { return int(n) }
func (n someExamples) Example(int, *task.Example) {}

// TestChoose: what the user leaves open follows from the task and the number of examples: a small network and small
// batches of few, some 600 updates, at most 100 epochs, and a warmup of a tenth of them, at most 50.
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

// TestSame: two runs are the same where neither data nor settings differ, but for the folder and the memory.
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

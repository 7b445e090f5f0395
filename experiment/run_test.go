package experiment

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// small returns the settings of a small model for a task around a set.
func small(t testing.TB, set *task.Set) *Settings {
	c := Config{Config: labelled.Default()}
	c.Task, c.Recipe, c.Out = "made", "small", filepath.Join(t.TempDir(), "run")
	c.Model.DModel, c.Model.Layers, c.Model.DState = 16, "h3*2", 8
	c.BatchSize, c.Epochs, c.Optim.LR, c.Optim.WarmupEpochs = 20, 8, 1e-2, 0.5
	return &Settings{
		Task: &task.Task{
			Name: "made", Open: func(context.Context, string, any) (*task.Set, error) { return set, nil },
		},
		Recipe: Recipe{Name: "small", Set: func(*labelled.Config) {}},
		Config: c,
	}
}

// checkForecasts checks that saved forecasts are of test examples, and as good as the score.
func checkForecasts(t *testing.T, res *Result) {
	t.Helper()
	if len(res.Forecasts) != 3 {
		t.Fatalf("found %d forecasts, want 3", len(res.Forecasts))
	}
	test := toytask.Made("numbers").Test
	for i, f := range res.Forecasts {
		var ex task.Example
		test.Example(f.Example, &ex)
		if want := []int{16, 50, 83}[i]; f.Example != want || f.Series != "noise" || f.Unit != "deviations" ||
			f.Step != "steps" {
			t.Errorf("found a forecast of example %d: %s in %s by %s, want %d, noise in deviations by steps", f.Example,
				f.Series, f.Unit, f.Step, want)
		}
		if !slices.Equal(f.Truth, ex.Numbers) || !slices.Equal(f.Known, ex.Values[:5]) {
			t.Errorf("example %d: found %v after %v, want %v after %v", f.Example, f.Truth, f.Known, ex.Numbers,
				ex.Values[:5])
		}
		for k, y := range f.Forecast {
			if e := float64(y - f.Truth[k]); len(f.Forecast) != 3 || math.Abs(e) > 1 {
				t.Errorf("example %d: found the forecast %v of %v, want errors as in the score %+v", f.Example,
					f.Forecast, f.Truth, res.Test)
			}
		}
	}
}

func TestRun(t *testing.T) {
	for kind, change := range map[string]func(c *Config){
		"class":   func(c *Config) { c.Pool = "last" },
		"pairs":   func(c *Config) { c.Pool, c.Epochs, c.Optim.LR = "mean", 60, 2e-2 },
		"tokens":  func(c *Config) { c.Positions, c.Shards = "learned", 3 },
		"numbers": func(c *Config) { c.Epochs = 30 },
	} {
		t.Run(kind, func(t *testing.T) {
			s := small(t, toytask.Made(kind))
			change(&s.Config)
			res, err := Run(context.Background(), s, Events{})
			if err != nil {
				t.Fatal(err)
			}
			if kind == "numbers" {
				if !res.Numbers || !(res.Test.Loss < 0.15) || res.Test.Count != 300 || res.Test.MAE <= 0 {
					t.Errorf("test %+v, want a mean squared error below 0.15 (the numbers have variance 1) over 300",
						res.Test)
				}
			} else if res.Test.Accuracy < 97 {
				t.Errorf("test %+v, want at least 97 %%", res.Test)
			}
			if len(res.Extra) != 1 || res.Extra[0].Loss != res.Test.Loss || res.Extra[0].Published != 0 {
				t.Errorf("extra %+v, want the test's loss %v once more, and no published one beside other settings",
					res.Extra, res.Test.Loss)
			}
			if kind == "numbers" {
				checkForecasts(t, res)
			} else if len(res.Forecasts) > 0 {
				t.Errorf("found %d forecasts of classes", len(res.Forecasts))
			}
			tags := res.Test.Tags
			if kind == "tokens" && (len(tags) != 2 || tags[0].Count != 500 || tags[1].Count != 600) {
				t.Errorf("tags %+v, want 500 targets at even positions and 600 at odd ones", tags)
			}
			m, err := model.LoadNetwork(filepath.Join(s.Config.Out, model.BestDir))
			if err != nil || m.NumParams() != res.Params {
				t.Errorf("the network of the run: %v", err)
			}

			again, err := Run(context.Background(), s, Events{
				Step: func(train.Progress) { t.Error("a run that has ended was run again") },
			})
			if err != nil || again.Date != res.Date {
				t.Errorf("again: %v, %v, want the result of %s", again, err, res.Date)
			}
			s.Config.Optim.LR *= 2
			_, err = Run(context.Background(), s, Events{})
			if err == nil || !strings.Contains(err.Error(), "optim.lr") {
				t.Errorf("another learning rate in the same folder: error %v, want one that names optim.lr", err)
			}
		})
	}
}

// TestTaskResume interrupts a run again and again, and checks that its weights and result equal those of an
// uninterrupted run.
func TestTaskResume(t *testing.T) {
	whole := small(t, toytask.Made("class"))
	whole.Config.Model.ResidDropout = 0.1
	want, err := Run(context.Background(), whole, Events{})
	if err != nil {
		t.Fatal(err)
	}
	s := small(t, toytask.Made("class"))
	s.Config.Model.ResidDropout = 0.1
	var got *Result
	parts := 0
	for got == nil {
		ctx, cancel := context.WithCancel(context.Background())
		steps := 0
		got, err = Run(ctx, s, Events{Step: func(train.Progress) {
			if steps++; steps == 37 {
				cancel()
			}
		}})
		cancel()
		if err != nil && !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		parts++
	}
	if parts < 3 {
		t.Fatalf("the run was made in %d parts, want some", parts)
	}
	if got.Test.Loss != want.Test.Loss || got.Steps != want.Steps || len(got.Curve) != len(want.Curve) {
		t.Errorf("in %d parts: loss %v after %d steps, %d points; alone %v, %d, %d", parts, got.Test.Loss, got.Steps,
			len(got.Curve), want.Test.Loss, want.Steps, len(want.Curve))
	}
	for i := range want.Curve {
		if got.Curve[i].TrainLoss != want.Curve[i].TrainLoss || got.Curve[i].Valid.Loss != want.Curve[i].Valid.Loss {
			t.Errorf("point %d: %+v, want %+v", i, got.Curve[i], want.Curve[i])
		}
	}
	file := filepath.Join(model.LastDir, model.WeightsFile)
	a, errA := os.ReadFile(filepath.Join(s.Config.Out, file))
	b, errB := os.ReadFile(filepath.Join(whole.Config.Out, file))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the weights differ (%v, %v)", errA, errB)
	}
}

// TestTaskErrors checks that impossible training returns an error with the reason, and leaves no result.
func TestTaskErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Config, s *task.Set)
		want   string
	}{
		"no examples": {func(_ *Config, s *task.Set) { s.Train = task.Examples{} }, "found 0 examples"},
		"short model": {func(c *Config, _ *task.Set) { c.Model.MaxPositions = 4 }, "takes at most 4"},
		"lengths": {func(c *Config, _ *task.Set) {
			c.Model.Layers = "bucket-attention(bidirectional=true,bucket=7,l_max=70)"
		}, "multiples of 7"},
		"unknown mixer": {func(c *Config, _ *task.Set) { c.Model.Layers = "h4" }, `"h4"`},
		"batch":         {func(c *Config, _ *task.Set) { c.BatchSize = 0 }, `batch_size: found "0"`},
		"shards":        {func(c *Config, _ *task.Set) { c.Shards = 21 }, "shards: found 21"},
		"empty sequence": {func(_ *Config, s *task.Set) {
			s.Train = task.Examples{{Targets: []int32{0}}}
		}, "empty sequence"},
		"targets": {func(_ *Config, s *task.Set) {
			s.Train = task.Examples{{Tokens: []int32{1}}}
		}, "found 0 targets"},
		"too high rate": {func(c *Config, _ *task.Set) { c.Optim.LR, c.Optim.SSMLR = 9, 9; c.Epochs = 200 }, ""},
	} {
		set := toytask.Made("class")
		s := small(t, set)
		test.change(&s.Config, set)
		res, err := Run(context.Background(), s, Events{})
		if test.want == "" { // it may or may not diverge, but no NaN may pass for a result
			var broke *train.NonFiniteError
			if err == nil && math.IsNaN(res.Test.Loss) || err != nil && !errors.As(err, &broke) {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if _, err := ReadResult(s.Config.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a result was left: %v", name, err)
		}
	}
}

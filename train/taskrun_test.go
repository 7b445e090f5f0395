package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// withLengths are examples of different lengths.
type withLengths struct{ task.Examples }

func (e withLengths) Length(i int) int {
	return max(len(e.Examples[i].Tokens), len(e.Examples[i].Second))
}

// made is a set of the given kind that a small model learns within seconds.
func made(kind string) *task.Set {
	rng := rand.New(rand.NewPCG(7, 8))
	draw := map[string]func() task.Example{
		// Which of two tokens stands first? The rest, of any length, are others.
		"class": func() task.Example {
			ex := task.Example{Targets: []int32{rng.Int32N(2)}}
			ex.Tokens = append(ex.Tokens, ex.Targets[0])
			for range rng.IntN(9) {
				ex.Tokens = append(ex.Tokens, 2+rng.Int32N(3))
			}
			return ex
		},
		// Do both sequences begin alike?
		"pairs": func() task.Example {
			a, b := rng.Int32N(2), rng.Int32N(2)
			ex := task.Example{Tokens: []int32{a, 2, 3}, Second: []int32{b, 4}, Targets: []int32{0}}
			if a == b {
				ex.Targets[0] = 1
			}
			return ex
		},
		// What was the last token but one? Tags tell even positions from odd ones.
		"tokens": func() task.Example {
			var ex task.Example
			for i := range 12 {
				ex.Tokens = append(ex.Tokens, rng.Int32N(5))
				ex.Tags = append(ex.Tags, int32(i%2))
				ex.Targets = append(ex.Targets, task.Ignore)
				if i > 0 {
					ex.Targets[i] = ex.Tokens[i-1]
				}
			}
			return ex
		},
		// The last three of eight numbers, shifted by one position.
		"numbers": func() task.Example {
			var ex task.Example
			for range 8 {
				ex.Values = append(ex.Values, float32(rng.NormFloat64()))
			}
			ex.Numbers = append(ex.Numbers, ex.Values[4:7]...)
			return ex
		},
	}[kind]
	split := func(n int) task.Split {
		e := make(task.Examples, n)
		for i := range e {
			e[i] = draw()
		}
		if kind == "class" {
			return withLengths{e}
		}
		return e
	}
	s := &task.Set{Train: split(300), Valid: split(50), Test: split(100), MaxLength: 12}
	switch kind {
	case "class":
		s.Vocab, s.Outputs = 5, 2
	case "pairs":
		s.Vocab, s.Outputs, s.Pairs = 5, 2, true
	case "tokens":
		s.Vocab, s.Outputs, s.Everywhere, s.Tags = 5, 5, true, []string{"even", "odd"}
	case "numbers":
		s.Channels, s.Outputs, s.Everywhere, s.Numbers = 1, 1, true, true
		s.Forecast = &task.Forecast{Series: []string{"noise"}, Unit: "deviations", Step: "steps"}
	}
	s.Extra = []task.Extra{{Name: "again", Split: s.Test, Published: 12}}
	return s
}

// settingsOf is a task around a set, with the settings of a small model.
func settingsOf(t testing.TB, set *task.Set) *TaskSettings {
	c := defaultTask()
	c.Task, c.Recipe, c.Out = "made", "small", filepath.Join(t.TempDir(), "run")
	c.Model.DModel, c.Model.Layers, c.Model.DState = 16, "h3*2", 8
	c.BatchSize, c.Epochs, c.Optim.LR, c.Optim.WarmupEpochs = 20, 8, 1e-2, 0.5
	return &TaskSettings{
		Task:   &task.Task{Name: "made", Open: func(context.Context, string, any) (*task.Set, error) { return set, nil }},
		Config: c,
	}
}

// checkForecasts checks that kept forecasts are those of test examples, as good as the score says.
func checkForecasts(t *testing.T, res *TaskResult) {
	t.Helper()
	if len(res.Forecasts) != 3 {
		t.Fatalf("found %d forecasts, want 3", len(res.Forecasts))
	}
	test := made("numbers").Test
	for i, f := range res.Forecasts {
		var ex task.Example
		test.Example(f.Example, &ex)
		if want := []int{16, 50, 83}[i]; f.Example != want || f.Series != "noise" || f.Unit != "deviations" ||
			f.Step != "steps" {
			t.Errorf("found a forecast of example %d: %s in %s by %s, want %d, noise in deviations by steps", f.Example,
				f.Series, f.Unit, f.Step, want)
		}
		if !slices.Equal(f.Truth, ex.Numbers) || !slices.Equal(f.Known, ex.Values[:5]) {
			t.Errorf("example %d: found %v after %v, want %v after %v", f.Example, f.Truth, f.Known, ex.Numbers, ex.Values[:5])
		}
		for k, y := range f.Forecast {
			if e := float64(y - f.Truth[k]); len(f.Forecast) != 3 || math.Abs(e) > 1 {
				t.Errorf("example %d: found the forecast %v of %v, want errors as in the score %+v", f.Example, f.Forecast,
					f.Truth, res.Test)
			}
		}
	}
}

func TestRunTask(t *testing.T) {
	for kind, change := range map[string]func(c *TaskConfig){
		"class":   func(c *TaskConfig) { c.Pool = "last" },
		"pairs":   func(c *TaskConfig) { c.Pool, c.Epochs, c.Optim.LR = "mean", 60, 2e-2 },
		"tokens":  func(c *TaskConfig) { c.Positions, c.MicroBatch = "learned", 7 },
		"numbers": func(c *TaskConfig) { c.Epochs = 30 },
	} {
		t.Run(kind, func(t *testing.T) {
			s := settingsOf(t, made(kind))
			change(&s.Config)
			res, err := RunTask(context.Background(), s, TaskEvents{})
			if err != nil {
				t.Fatal(err)
			}
			if kind == "numbers" {
				if !res.Numbers || !(res.Test.Loss < 0.15) || res.Test.Count != 300 || res.Test.MAE <= 0 {
					t.Errorf("test %+v, want a mean squared error below 0.15 (the numbers have variance 1) over 300 numbers", res.Test)
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
			if kind == "tokens" && (len(res.Test.Tags) != 2 || res.Test.Tags[0].Count != 500 || res.Test.Tags[1].Count != 600) {
				t.Errorf("tags %+v, want 500 targets at even positions and 600 at odd ones", res.Test.Tags)
			}
			m, err := model.LoadNetwork(filepath.Join(s.Config.Out, model.BestDir))
			if err != nil || m.NumParams() != res.Params {
				t.Errorf("the network of the run: %v", err)
			}

			again, err := RunTask(context.Background(), s, TaskEvents{Step: func(TaskProgress) { t.Error("a run that has ended was run again") }})
			if err != nil || again.Date != res.Date {
				t.Errorf("again: %v, %v, want the result of %s", again, err, res.Date)
			}
			s.Config.Optim.LR *= 2
			if _, err := RunTask(context.Background(), s, TaskEvents{}); err == nil || !strings.Contains(err.Error(), "optim.lr") {
				t.Errorf("another learning rate in the same folder: error %v, want one that names optim.lr", err)
			}
		})
	}
}

// TestTaskResume interrupts a run again and again: the weights and the result are those of a run that was left alone.
func TestTaskResume(t *testing.T) {
	whole := settingsOf(t, made("class"))
	whole.Config.Model.ResidDropout = 0.1
	want, err := RunTask(context.Background(), whole, TaskEvents{})
	if err != nil {
		t.Fatal(err)
	}
	s := settingsOf(t, made("class"))
	s.Config.Model.ResidDropout = 0.1
	var got *TaskResult
	parts := 0
	for got == nil {
		ctx, cancel := context.WithCancel(context.Background())
		steps := 0
		got, err = RunTask(ctx, s, TaskEvents{Step: func(TaskProgress) {
			if steps++; steps == 37 {
				cancel()
			}
		}})
		cancel()
		if err != nil && !errors.Is(err, ErrTaskInterrupted) {
			t.Fatal(err)
		}
		parts++
	}
	if parts < 3 {
		t.Fatalf("the run was made in %d parts, want some", parts)
	}
	if got.Test.Loss != want.Test.Loss || got.Steps != want.Steps || len(got.Curve) != len(want.Curve) {
		t.Errorf("in %d parts: loss %v after %d steps, %d points; alone %v, %d, %d", parts, got.Test.Loss, got.Steps, len(got.Curve),
			want.Test.Loss, want.Steps, len(want.Curve))
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

// TestTaskErrors: what cannot be trained says why, and leaves no result.
func TestTaskErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *TaskConfig, s *task.Set)
		want   string
	}{
		"no examples":    {func(_ *TaskConfig, s *task.Set) { s.Train = task.Examples{} }, "found 0 examples"},
		"short model":    {func(c *TaskConfig, _ *task.Set) { c.Model.MaxPositions = 4 }, "takes at most 4"},
		"half a bucket":  {func(c *TaskConfig, _ *task.Set) { c.Model.Layers = "sinkhorn(bidirectional=true,bucket=4)" }, "takes multiples of 4 only"},
		"unknown mixer":  {func(c *TaskConfig, _ *task.Set) { c.Model.Layers = "h4" }, `"h4"`},
		"batch":          {func(c *TaskConfig, _ *task.Set) { c.BatchSize = 0 }, "batch_size: found 0"},
		"micro-batch":    {func(c *TaskConfig, _ *task.Set) { c.MicroBatch = 21 }, "micro_batch: found 21"},
		"empty sequence": {func(_ *TaskConfig, s *task.Set) { s.Train = task.Examples{{Targets: []int32{0}}} }, "empty sequence"},
		"targets":        {func(_ *TaskConfig, s *task.Set) { s.Train = task.Examples{{Tokens: []int32{1}}} }, "found 0 targets"},
		"too high rate":  {func(c *TaskConfig, _ *task.Set) { c.Optim.LR, c.Optim.SSMLR = 9, 9; c.Epochs = 200 }, ""},
	} {
		set := made("class")
		s := settingsOf(t, set)
		test.change(&s.Config, set)
		res, err := RunTask(context.Background(), s, TaskEvents{})
		if test.want == "" { // it may or may not break down, but no NaN may pass for a result
			var broke *NonFiniteError
			if err == nil && math.IsNaN(res.Test.Loss) || err != nil && !errors.As(err, &broke) {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if _, err := ReadTaskResult(s.Config.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a result was left: %v", name, err)
		}
	}
}

// TestEpochOrder: every example once, those of a batch of similar lengths, and another order in another epoch.
func TestEpochOrder(t *testing.T) {
	split := made("class").Train
	seen := make([]bool, split.Len())
	spread := 0
	for _, batch := range epochOrder(split, 20, 1, 0) {
		shortest, longest := math.MaxInt, 0
		for _, i := range batch {
			if seen[i] {
				t.Fatalf("example %d twice", i)
			}
			seen[i] = true
			n := split.(task.Lengths).Length(i)
			shortest, longest = min(shortest, n), max(longest, n)
		}
		spread = max(spread, longest-shortest)
	}
	for i, s := range seen {
		if !s {
			t.Fatalf("example %d is missing", i)
		}
	}
	if spread > 3 {
		t.Errorf("lengths in a batch differ by %d, want 3 at most", spread)
	}
	if a, b := epochOrder(split, 20, 1, 0), epochOrder(split, 20, 1, 1); a[0][0] == b[0][0] && a[1][0] == b[1][0] && a[2][0] == b[2][0] {
		t.Error("two epochs have the same order")
	}
}

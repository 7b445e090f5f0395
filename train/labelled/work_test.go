package labelled

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

// small returns the settings of a small network without a folder.
func small() Config {
	c := Default()
	c.Model.DModel, c.Model.Layers, c.Model.DState, c.Model.ResidDropout = 8, "s4d", 4, 0
	c.BatchSize = 32
	return c
}

// opened returns the work of a small network.
func opened(t *testing.T, set *task.Set, change func(c *Config)) (*Work, *train.Training) {
	t.Helper()
	c := small()
	change(&c)
	w, l, err := Open(c, &c, set, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return w, l
}

// TestPlan checks that updates, measurements and the warmup follow the settings, in epochs of 300 examples.
func TestPlan(t *testing.T) {
	set := toytask.Made("class")
	for _, c := range []struct {
		change                   func(c *Config)
		steps, every, warm, size int
	}{
		{func(*Config) {}, 100, 5, 0, 32}, // 10 epochs of ⌈300/32⌉ updates
		{func(c *Config) { c.Steps, c.Shards = 7, 5 }, 7, 1, 0, 7},
		{func(c *Config) { c.EvalEvery, c.Optim.WarmupEpochs, c.Optim.Warmup = 2.57, 3.5, 3 }, 100, 26, 38, 32},
		{func(c *Config) { c.EvalEvery, c.BatchSize = 0.01, 300 }, 10, 1, 0, 300},
		{func(c *Config) { c.BatchSize, c.Epochs, c.Shards = 299, 2, 2 }, 4, 1, 0, 150},
	} {
		w, l := opened(t, set, c.change)
		p := l.Plan
		if p.Steps != c.steps || p.EvalEvery != c.every || p.LogEvery != c.every || p.Optim.Warmup != c.warm ||
			w.size != c.size || p.UnitsPerStep != float64(w.Config.BatchSize) || !p.Examples || !p.KeepBest ||
			p.StepsPerEpoch != float64(w.perEpoch) {
			t.Errorf("found %+v, %d at a time, want %+v", p, w.size, c)
		}
	}
	noValid := *set
	noValid.Valid = nil
	w, l := opened(t, &noValid, func(c *Config) {
		c.Seed, c.Precision, c.Time, c.Clock, c.Patience, c.EMA = 9, "bf16", time.Hour, "cpu", 4, 0.5
	})
	p := l.Plan
	if p.KeepBest || p.Seed != 9 || p.Precision != "bf16" || p.Time != time.Hour || p.Clock != "cpu" ||
		p.Patience != 4 || p.EMA != 0.5 || w.watched().Len() != 100 {
		t.Errorf("found %+v", p)
	}
	if score, err := w.TakeBest(l); score != nil || err != nil {
		t.Errorf("the best of no validation: %v, %v", score, err)
	}
	for _, empty := range []func(s *task.Set){func(s *task.Set) { s.Train = task.Examples{} },
		func(s *task.Set) { s.Test = task.Examples{} }} {
		s := *set
		empty(&s)
		c := small()
		if _, _, err := Open(c, &c, &s, nil); err == nil || !strings.Contains(err.Error(), "examples to train on and") {
			t.Errorf("of no example: found %v", err)
		}
	}
}

// TestWorkReads checks that each epoch has every example once, split over its updates, and that the score of a split's
// first examples matches the definition, however many are computed together.
func TestWorkReads(t *testing.T) {
	set := toytask.Made("class")
	w, l := opened(t, set, func(c *Config) { c.BatchSize = 64 })
	for epoch := range 2 {
		var seen []int
		for step := range 5 {
			n, err := w.Read(5*epoch + step)
			want := 64
			if len(w.indices) == 300%64 {
				want = 300 % 64
			}
			if err != nil || n != want || n != len(w.indices) {
				t.Errorf("update %d has %d examples, %v", step, n, err)
			}
			if order := epochOrder(set.Train, 64, w.Config.Seed, epoch); !slices.Equal(w.indices, order[step]) {
				t.Errorf("update %d of epoch %d has other examples than its order says", step, epoch)
			}
			seen = append(seen, w.indices...)
		}
		slices.Sort(seen)
		if len(seen) != 300 || seen[0] != 0 || seen[299] != 299 {
			t.Errorf("epoch %d has %d examples", epoch, len(seen))
		}
	}
	if _, n, err := w.Loss(w.NewTape(), train.Shard{Step: 9, First: 2, End: 5}); n != 3 || err != nil ||
		len(w.batch.in.Seeds) != 3 {
		t.Errorf("a shard of 3 has %d targets and %d seeds of dropout, %v", n, len(w.batch.in.Seeds), err)
	}
	score := func(limit, size int, split task.Split) train.Score {
		w.size = size
		s, err := w.score(context.Background(), w.NewTape(), split, limit)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	right, loss := 0, 0.0
	var ex task.Example
	for i := range 10 {
		set.Test.Example(i, &ex)
		y := w.Net.Predict(model.Input{Tokens: ex.Tokens, Lengths: []int{len(ex.Tokens)}})
		a, b := float64(y[0]), float64(y[1])
		if int(ex.Targets[0]) == 1 {
			a, b = b, a
		}
		if a > b {
			right++
		}
		loss += math.Log1p(math.Exp(b-a)) / 10
	}
	for _, size := range []int{3, 5, 64} {
		s := score(10, size, set.Test)
		if s.Count != 10 || s.Accuracy != float64(10*right) || math.Abs(s.Loss-loss) > 1e-5 {
			t.Errorf("%d at a time: found %+v, want %d right and the loss %v", size, s, right, loss)
		}
	}
	if all, most := score(0, 64, set.Test), score(1000, 64, set.Test); !reflect.DeepEqual(all, most) ||
		all.Count != 100 {
		t.Errorf("of all: %+v, of at most 1000: %+v", all, most)
	}
	if score, err := w.TakeBest(l); score != nil || err != nil {
		t.Errorf("the best before any update: %v, %v", score, err)
	}
	w.Config.EvalLimit, w.size = 7, 20
	if s, err := w.Measure(context.Background(), w.NewTape(), false); err != nil || s.Count != 7 {
		t.Errorf("measured on 7: %+v, %v", s, err)
	}
	if x, err := w.Try(context.Background(), w.NewTape()); err != nil || math.Abs(x-score(20, 20,
		set.Valid).Loss) > 1e-9 {
		t.Errorf("the loss of one batch of the validation part is %v, %v", x, err)
	}
	if s, err := w.Score(context.Background(), w.NewTape(), set.Test); err != nil || s.Count != 100 {
		t.Errorf("the score of all: %+v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Score(ctx, w.NewTape(), set.Test); !errors.Is(err, context.Canceled) {
		t.Errorf("what is cancelled: %v", err)
	}
	if got := w.Longest(set.Test); got > 10 || got < 8 || w.Longest(splitOf(task.Example{Tokens: []int32{1},
		Second: []int32{1, 2}})) != 2 {
		t.Errorf("the longest has %d positions", got)
	}
	if s, _ := w.Remeasure(context.Background(), nil, "", train.Score{Count: 3}); s.Count != 3 {
		t.Errorf("measured again: %+v", s)
	}
}

// TestEnough checks that a run ends at the configured accuracy if targets are classes, and that the loss of guessing is
// that of equal probabilities.
func TestEnough(t *testing.T) {
	w := &Work{Set: &task.Set{Outputs: 4}, Config: Config{Stop: 80}}
	for accuracy, want := range map[float64]bool{79.9: false, 80: true, 81: true} {
		if got := w.Enough(train.Score{Accuracy: accuracy}); got != want {
			t.Errorf("%g %%: enough is %v", accuracy, got)
		}
	}
	if got := w.Guess(); math.Abs(got-math.Log(4)) > 1e-12 {
		t.Errorf("guessing has the loss %v", got)
	}
	if w.Config.Stop = 0.5; !w.Enough(train.Score{Accuracy: 50}) {
		t.Error("not enough for half a percent")
	}
	if w.Config.Stop = 0; w.Enough(train.Score{Accuracy: 100}) {
		t.Error("enough where nothing is asked for")
	}
	if w.Config.Stop, w.Set.Numbers = 1, true; w.Enough(train.Score{Accuracy: 100}) || !math.IsInf(w.Guess(), 1) {
		t.Error("enough, or a guess, of numbers")
	}
}

// TestTrains checks that a run learns, keeps the best weights, is estimated and can be resumed, and that other settings
// are refused.
func TestTrains(t *testing.T) {
	set, out := toytask.Made("class"), filepath.Join(t.TempDir(), "run")
	change := func(c *Config) { c.Out, c.Optim.LR, c.Epochs, c.Model.Layers = out, 2e-2, 4, "s4d*2" }
	w, l := opened(t, set, change)
	start := time.Now()
	e, err := w.Estimate(l)
	if 2*e.StepSeconds > time.Since(start).Seconds() {
		t.Errorf("an update takes %v s, two of them and one more %v", e.StepSeconds, time.Since(start))
	}
	if err != nil || e.Params != w.Net.NumParams() || e.Steps != 40 || !(e.StepSeconds > 0) || e.RunSeconds !=
		40*e.StepSeconds || l.Steps() != 3 || e.Memory == 0 {
		t.Errorf("found the estimate %+v after %d updates, %v", e, l.Steps(), err)
	}
	w, l = opened(t, set, change)
	if err := l.Open(train.Events{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if interrupted, err := w.Train(ctx, l); !interrupted || err != nil {
		t.Errorf("interrupted: %v, %v", interrupted, err)
	}
	if interrupted, err := w.Train(context.Background(), l); interrupted || err != nil {
		t.Fatal(interrupted, err)
	}
	best, err := w.TakeBest(l)
	if err != nil || best == nil || best.Accuracy < 90 {
		t.Fatalf("the best score is %+v, %v", best, err)
	}
	if s, err := w.Measure(context.Background(), w.NewTape(), true); err != nil || s.Accuracy != best.Accuracy {
		t.Errorf("the best weights score %+v, %v, want %+v", s, err, best)
	}
	file := filepath.Join(out, model.BestDir, model.WeightsFile)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := w.KeepAsBest(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	_, again := opened(t, set, change)
	if again.Steps() != 40 {
		t.Errorf("a run that is taken up has %d updates", again.Steps())
	}
	c := small()
	change(&c)
	other := errors.New("other settings")
	if _, _, err := Open(c, &c, set, func([]byte) error { return other }); !errors.Is(err, other) {
		t.Errorf("other settings: %v", err)
	}
	limited, l := opened(t, set, func(c *Config) { c.Time = time.Hour })
	if e, err := limited.Estimate(l); err != nil || e.RunSeconds != float64(e.Steps)*e.StepSeconds {
		t.Errorf("a limit that is not reached: %+v, %v", e, err)
	}
	limited, l = opened(t, set, func(c *Config) { c.Time = time.Nanosecond })
	if e, err := limited.Estimate(l); err != nil || e.RunSeconds != 1e-9 {
		t.Errorf("a limit of time: %+v, %v", e, err)
	}
}

// TestNetworkOf checks that the shape of a network fits the set, with positions for the longest sequence and the class
// token, and that sequences that the network cannot process are refused.
func TestNetworkOf(t *testing.T) {
	set := toytask.Made("class")
	c := small()
	n := c.Network(set)
	if n.Vocab != 5 || n.Outputs != 2 || n.Everywhere || n.Pairs || n.Steps || n.Pool != "mean" || n.Signal != nil ||
		n.Model.MaxPositions != 0 {
		t.Errorf("found %+v", n)
	}
	c.Positions = "learned"
	for pool, want := range map[string]int{"mean": 12, "cls": 13} {
		if c.Pool = pool; c.Network(set).Model.MaxPositions != want {
			t.Errorf("pool %s: found %d positions, want %d", pool, c.Network(set).Model.MaxPositions, want)
		}
	}
	everywhere := *set
	if everywhere.Everywhere = true; c.Network(&everywhere).Model.MaxPositions != 12 {
		t.Error("a class token where there is an output at each position")
	}
	if c.Model.MaxPositions = 20; c.Network(set).Model.MaxPositions != 20 {
		t.Error("positions as asked for")
	}
	for i, fill := range []func(s *task.Set){func(s *task.Set) { s.Inputs = []task.Channel{{Name: "i"}} },
		func(s *task.Set) { s.Results = []task.Channel{{Name: "r"}} }, func(s *task.Set) { s.Classes = []string{"c"} },
		func(s *task.Set) { s.About = []byte("{}") }} {
		s := *set
		fill(&s)
		got := c.Network(&s).Signal
		want := &model.Signal{Classes: s.Classes, About: s.About, Inputs: channels(s.Inputs),
			Outputs: channels(s.Results)}
		if !reflect.DeepEqual(got, want) || i == 0 && got.Inputs[0].Name != "i" {
			t.Errorf("found %+v, want %+v", got, want)
		}
	}
	c = small()
	c.Model.MaxPositions, c.Positions = 11, "learned"
	if _, err := newNetwork(&c, set); err == nil || !strings.Contains(err.Error(),
		"found sequences of 12 positions, but "+
			"the model takes at most 11") {
		t.Errorf("longer sequences: %v", err)
	}
	few := *set
	few.MaxLength, c.Model.MaxPositions = 2, 1
	if errOf(newNetwork(&c, &few)) == nil {
		t.Error("two positions where one is the most")
	}
	few.Train = uneven{splitOf(task.Example{}, task.Example{}, task.Example{Tokens: make([]int32, 13)})}
	if few.MaxLength, c.Model.MaxPositions = 12, 12; errOf(newNetwork(&c, &few)) == nil {
		t.Error("the last example is longer than the network takes")
	}
	if c.Model.MaxPositions = 12; errOf(newNetwork(&c, set)) != nil {
		t.Error("as long as can be")
	}
	c = small()
	ofWeights := func(shards int) int {
		n := must(newNetwork(&c, set)).NumParams()
		return train.ParamCount{All: n, Trained: n, Values: 4 * n}.Bytes(shards)
	}
	long := *set
	long.MaxLength = 1 << 45
	var lack *train.MemoryError
	if _, err := newNetwork(&c, &long); !errors.As(err, &lack) ||
		lack.Activations != leastActivations(must(newNetwork(&c,
			set)))*long.MaxLength || lack.Need != lack.Activations+lack.Weights || lack.Weights != ofWeights(c.Shards) {
		t.Errorf("more than fits into memory: %v", err)
	}
	if c.Memory = train.MemoryIgnore; errOf(newNetwork(&c, &long)) != nil {
		t.Error("memory is to be ignored")
	}
	c.Model.Layers = "s4d*3"
	m := must(newNetwork(&c, toytask.Made("numbers")))
	if got := leastActivations(m); got != 4*(1+8*8*3) {
		t.Errorf("%d bytes for each position", got)
	}
}

// uneven is a split whose lengths are known.
type uneven struct{ task.Split }

func (u uneven) Length(i int) int {
	var ex task.Example
	u.Example(i, &ex)
	return len(ex.Tokens)
}

func errOf(_ *model.Network, err error) error { return err }
func must(m *model.Network, err error) *model.Network {
	if err != nil {
		panic(err)
	}
	return m
}

// TestValidate checks the bounds of settings, and that all problems are reported at once.
func TestValidate(t *testing.T) {
	good := Default()
	if o := good.Optim; o.LR != 1e-3 || o.SSMLR != 1e-3 || o.Beta1 != 0.9 || o.Beta2 != 0.999 || o.Eps != 1e-8 ||
		o.WeightDecay != 0.01 || good.Model.EmbedDropout != 0 || good.Model.AttnDropout != 0 {
		t.Errorf("settings start from %+v", good)
	}
	good = small()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(c *Config){
		`epochs: found "0", want an integer from 1 up`: func(c *Config) { c.Epochs = 0 },
		"steps: ":                   func(c *Config) { c.Steps = -1 },
		"patience: ":                func(c *Config) { c.Patience = -1 },
		"batch_size: ":              func(c *Config) { c.BatchSize, c.Shards = 0, 1 },
		"shards: found \"0\", want": func(c *Config) { c.Shards = 0 },
		"shards: found 33, want at": func(c *Config) { c.Shards = 33 },
		"eval_every: found \"-1\"":  func(c *Config) { c.EvalEvery = -1 },
		"eval_every: found \"NaN\"": func(c *Config) { c.EvalEvery = math.NaN() },
		"eval_limit: ":              func(c *Config) { c.EvalLimit = -1 },
		"stop: ":                    func(c *Config) { c.Stop = -1 },
		"ema: found \"1\"":          func(c *Config) { c.EMA = 1 },
		"memory: ":                  func(c *Config) { c.Memory = "x" },
		"time: found \"-1s\"":       func(c *Config) { c.Time = -time.Second },
		"clock: ":                   func(c *Config) { c.Clock = "x" },
		"pool: ":                    func(c *Config) { c.Pool = "x" },
		"positions: found \"x\"":    func(c *Config) { c.Positions = "x" },
		"precision: ":               func(c *Config) { c.Precision = "x" },
		"optim.lr: ":                func(c *Config) { c.Optim.LR = -1 },
		"optim.warmup: ":            func(c *Config) { c.Optim.Warmup = -1 },
		"optim.warmup_epochs: ":     func(c *Config) { c.Optim.WarmupEpochs = -1 },
		"model.d_model: ":           func(c *Config) { c.Model.DModel = 0 },
		"": func(c *Config) {
			c.Epochs, c.BatchSize, c.Shards, c.Positions = 1, 1, 1, "learned"
		},
	} {
		c := small()
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
	c := small()
	c.Epochs, c.Clock, c.Pool = 0, "x", "y"
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "3 problems") {
		t.Errorf("found %v, want three problems", err)
	}
}

// TestDivergedIsTold checks that a run whose final loss is far above that of guessing notes it.
func TestDivergedIsTold(t *testing.T) {
	w, l := opened(t, toytask.Made("class"), func(c *Config) {
		c.Out, c.Optim.LR, c.Steps, c.Optim.Clip, c.Optim.Schedule = filepath.Join(t.TempDir(), "run"), 30, 20,
			0, "constant"
	})
	var told []string
	if err := l.Open(train.Events{Note: func(text string) { told = append(told, text) }}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Train(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	if want := l.Diverged(l.Final.Loss); want == nil || !slices.Contains(told, want.Error()) {
		t.Errorf("found %q told, want %v", told, want)
	}
}

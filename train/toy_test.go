package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// toy is a work with two weights, which are trained towards the mean of the examples' targets. Its scores are scripted.
type toy struct {
	w        *nn.Param // (2)
	frozen   *nn.Param
	run      *Training
	examples int
	count    func(s Shard) int             // number of targets of a shard; if nil, the number of examples
	score    func(step int) (Score, error) // scripted scores
	read     func(step int) error
	try      func() (float64, error)
	enough   float64 // loss at which the run ends
	guess    float64
	long     bool
	fixed    []float32 // the targets of all examples, if not nil
	fails    func(s Shard) error
	went     []Shard
	measured []bool // for each measurement, whether it was a final one
}

func newToy() *toy {
	w := &toy{w: nn.NewParam(nn.Weight, nn.Constant(0), 2), frozen: nn.NewBuffer(nn.Constant(7), 1), examples: 4,
		guess: math.Inf(1)}
	nn.InitAll(w, "", 1)
	w.w.CopyFrom([]float32{3, -2})
	return w
}

func (w *toy) Params(prefix string, visit nn.Visitor) {
	visit(prefix+"w", w.w)
	visit(prefix+"frozen", w.frozen)
}
func (w *toy) NewTape() *autograd.Tape { return autograd.NewTape(cpu.Backend{}) }

func (w *toy) Read(step int) (int, error) {
	if w.read != nil {
		return w.examples, w.read(step)
	}
	return w.examples, nil
}

// wanted returns the target of the examples of a shard.
func (w *toy) wanted(s Shard) []float32 {
	if w.fixed != nil {
		return w.fixed
	}
	return []float32{float32(s.First) + float32(s.Step%3), float32(s.End) / 2}
}

func (w *toy) targets(s Shard) int {
	if w.count != nil {
		return w.count(s)
	}
	return s.End - s.First
}

func (w *toy) Loss(t *autograd.Tape, s Shard) (*tensor.Tensor, int, error) {
	if w.fails != nil {
		if err := w.fails(s); err != nil {
			return nil, 0, err
		}
	}
	return t.SquaredError(w.w.Tensor, w.wanted(s)), w.targets(s), nil
}

func (w *toy) Long() bool { return w.long }

func (w *toy) Through(t *autograd.Tape, s Shard, weigh func(int) float64, check func(float64) error) (float64, int,
	error) {
	out, n, err := w.Loss(t, s)
	if err != nil {
		return math.NaN(), 0, err
	}
	if err := check(out.Value()); err != nil {
		return out.Value(), 0, err
	}
	mean := out.Value()
	t.BackwardTimes(out, float32(weigh(n)))
	return mean, n, nil
}

func (w *toy) Went(s Shard) { w.went = append(w.went, s) }

func (w *toy) Try(context.Context, *autograd.Tape) (float64, error) {
	if w.try != nil {
		return w.try()
	}
	return float64(w.w.Elements()[0]), nil
}

func (w *toy) Measure(ctx context.Context, _ *autograd.Tape, last bool) (Score, error) {
	if err := ctx.Err(); err != nil {
		return Score{}, err
	}
	w.measured = append(w.measured, last)
	if w.score != nil {
		return w.score(w.run.step)
	}
	return Score{Loss: 1 / float64(1+w.run.step)}, nil
}

// Remeasure returns the score with a loss 0.001 higher.
func (w *toy) Remeasure(_ context.Context, _ *autograd.Tape, dir string, s Score) (Score, error) {
	if w.run.Plan.KeepBest && !disk.Exists(filepath.Join(dir, "w.json")) {
		return Score{}, fmt.Errorf("%s has no model", dir)
	}
	s.Loss += 0.001
	return s, nil
}
func (w *toy) Enough(s Score) bool { return s.Loss < w.enough }
func (w *toy) Guess() float64      { return w.guess }
func (w *toy) SaveModel(dir string) error {
	return disk.WriteJSON(filepath.Join(dir, "w.json"), w.w.Elements())
}
func (w *toy) Place(string) (any, error) { return "somewhere", nil }
func (w *toy) Return(place []byte, _ string) error {
	if string(place) != `"somewhere"` {
		return fmt.Errorf("found the place %s", place)
	}
	return nil
}

// toyPlan returns a plan of ten updates.
func toyPlan(t testing.TB) Plan {
	c := &struct {
		Name string `json:"name"`
	}{"toy"}
	return Plan{
		Kind: "toy", Config: c, Out: filepath.Join(t.TempDir(), "run"), Precision: "float32", Shards: 2, Steps: 10,
		Optim: Optim{LR: 0.1, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Schedule: "linear", Warmup: 2,
			DecayRule: "release"},
		StepsPerEpoch: 4, UnitsPerStep: 8, EvalEvery: 3, LogEvery: 4,
	}
}

// start begins a run of a work and records its events.
func start(t testing.TB, p Plan, w *toy) (l *Training, happened *[]string) {
	t.Helper()
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	w.run = l
	happened = new([]string)
	tell := func(format string, args ...any) { *happened = append(*happened, fmt.Sprintf(format, args...)) }
	if err := l.Open(Events{
		Step: func(p Progress) { tell("step %d", p.Step) },
		Eval: func(p Progress) {
			best := ""
			if p.Best {
				best = ", the best"
			}
			tell("eval %d: %.4g%s", p.Step, p.ValidLoss, best)
		},
		Sample: func(step int, text string) { tell("sample %d: %s", step, text) },
		Saved:  func(dir string, step int) { tell("saved %d in %s", step, filepath.Base(dir)) },
		Note:   func(text string) { tell("note %s", text) },
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return l, happened
}

// without returns the events that do not begin with word.
func without(happened []string, word string) (left []string) {
	for _, s := range happened {
		if !strings.HasPrefix(s, word) {
			left = append(left, s)
		}
	}
	return left
}

func sameList(t *testing.T, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: found\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// metricsOf returns the lines of metrics of a run.
func metricsOf(t *testing.T, out string) (lines []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, v)
	}
	return lines
}

// clock returns a clock that advances by a second at every reading.
func clock(start time.Duration) func() time.Duration {
	return func() time.Duration {
		start += time.Second
		return start
	}
}

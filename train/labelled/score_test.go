package labelled

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// splitOf returns a split of examples, without lengths.
func splitOf(all ...task.Example) task.Split { return task.Examples(all) }

// TestFill checks that a batch holds the requested examples one after the other, with the second halves of pairs after
// all first halves, and counts targets. Errors for examples that do not fit the set name their number.
func TestFill(t *testing.T) {
	nan := float32(math.NaN())
	tokens := splitOf(task.Example{Tokens: []int32{9}, Targets: []int32{9}, Tags: []int32{9}},
		task.Example{Tokens: []int32{1, 2}, Targets: []int32{3, task.Ignore}, Tags: []int32{0, 1}},
		task.Example{Tokens: []int32{4, 5, 6}, Targets: []int32{7, 8, 9}, Tags: []int32{1, 1, 0}})
	pairs := splitOf(task.Example{Tokens: []int32{1, 2}, Second: []int32{3}, Targets: []int32{1}},
		task.Example{Tokens: []int32{4}, Second: []int32{5, 6}, Targets: []int32{0}})
	numbers := splitOf(task.Example{Values: []float32{1, 2, 3, 4}, Numbers: []float32{5, nan}},
		task.Example{Values: []float32{6, 7, 8, 9, 10, 11}, Numbers: []float32{12, 13, 14, 15, nan, 17}})
	for name, c := range map[string]struct {
		set     task.Set
		split   task.Split
		indices []int
		want    batch
	}{
		"tokens": {task.Set{Vocab: 10, Everywhere: true}, tokens, []int{2, 1}, batch{n: 2, targets: []int32{7, 8, 9, 3,
			task.Ignore}, tags: []int32{1, 1, 0, 0, 1}, count: 4, lengths: []int{3, 2}}},
		"pairs": {task.Set{Vocab: 1, Pairs: true}, pairs, []int{0, 1}, batch{n: 2, targets: []int32{1, 0}, count: 2,
			lengths: []int{2, 1, 1, 2}}},
		"numbers": {task.Set{Channels: 2, Outputs: 2, Numbers: true, Everywhere: true}, numbers, []int{1, 0},
			batch{n: 2,
				numbers: []float32{12, 13, 14, 15, nan, 17, 5, nan}, asked: []int{3, 1}, count: 6,
				lengths: []int{3, 2}}},
		"quantiles": {task.Set{Channels: 2, Outputs: 2, Levels: []float32{0.1, 0.5}, Numbers: true, Everywhere: true},
			numbers, []int{0}, batch{n: 1, numbers: []float32{5, nan}, asked: []int{2}, count: 1, lengths: []int{2}}},
	} {
		b := &batch{set: &c.set}
		for range 2 { // the second time reuses the memory of the first
			if err := b.fill(c.split, c.indices); err != nil {
				t.Fatal(name, err)
			}
		}
		found := []any{b.n, b.targets, b.tags, b.asked, b.count, b.lengths, b.in.Lengths, fmt.Sprint(b.numbers)}
		w := &c.want
		want := []any{w.n, w.targets, w.tags, w.asked, w.count, w.lengths, w.lengths, fmt.Sprint(w.numbers)}
		for i := range found {
			if got, want := fmt.Sprint(found[i]), fmt.Sprint(want[i]); got != want {
				t.Errorf("%s: part %d is %v, want %v", name, i, got, want)
			}
		}
		input := map[string]string{"tokens": "[4 5 6 1 2] []", "pairs": "[1 2 4 3 5 6] []",
			"numbers": "[] [6 7 8 9 10 11 1 2 3 4]", "quantiles": "[] [1 2 3 4]"}
		if got := fmt.Sprint(b.in.Tokens, b.in.Values); got != input[name] {
			t.Errorf("%s: the input is %s, want %s", name, got, input[name])
		}
		if b.in.Seeds != nil {
			t.Errorf("%s: measured with dropout", name)
		}
		b.train(5, train.Shard{Step: 3, First: 40})
		seeds := engine.RowSeeds(5, 3, 40, b.n)
		if c.set.Pairs {
			seeds = append(seeds, engine.RowSeeds(math.MaxUint64-5, 3, 40, 2)...)
		}
		if !slices.Equal(b.in.Seeds, seeds) {
			t.Errorf("%s: found the seeds %v, want %v", name, b.in.Seeds, seeds)
		}
	}
	one := task.Set{Vocab: 10, Outputs: 2}
	everywhere, asked, whole := task.Set{Vocab: 10, Everywhere: true}, task.Set{Channels: 1, Outputs: 2, Numbers: true,
		Everywhere: true}, task.Set{Channels: 1, Outputs: 2, Numbers: true}
	good := task.Example{Tokens: []int32{1}, Values: []float32{1, 2}, Targets: []int32{1}, Numbers: []float32{1, 2}}
	for _, c := range []struct {
		set  task.Set
		bad  task.Example
		want string
	}{
		{one, task.Example{}, "found an empty sequence among examples [0 1]"},
		{one, task.Example{Tokens: []int32{1}}, "example 1: found 0 targets and 0 tags, want 1"},
		{one, task.Example{Tokens: []int32{1, 2}, Targets: []int32{1, 2}}, "example 1: found 2 targets and 0 " +
			"tags, want 1"},
		{everywhere, task.Example{Tokens: []int32{1, 2}, Targets: []int32{1, 2}, Tags: []int32{1}},
			"example 1: found 2 targets and 1 tags, want 2"},
		{asked, task.Example{Values: []float32{1}, Numbers: []float32{1}}, "example 1: found 0 rows of numbers " +
			"asked of 1 " +
			"positions"},
		{asked, task.Example{Values: []float32{1}, Numbers: []float32{1, 2, 3, 4}},
			"found 2 rows of numbers asked of 1"},
		{asked, task.Example{Values: []float32{1, 2}, Numbers: []float32{1, 2, 3, 4}}, ""},
		{whole, task.Example{Values: []float32{1, 2}, Numbers: []float32{1, 2, 3, 4}}, "2 rows of numbers asked of 1"},
		{task.Set{Vocab: 10, Pairs: true}, task.Example{Tokens: []int32{1}, Targets: []int32{1}}, "found an empty"},
	} {
		second := good
		if c.set.Pairs {
			second.Second = []int32{1}
		}
		err := (&batch{set: &c.set}).fill(splitOf(second, c.bad), []int{0, 1})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("found the error %v, want %q", err, c.want)
		}
	}
}

// TestTally checks that losses are weighted by their targets, the largest output is the predicted class, ignored
// targets do not count, tags are counted separately, and that numbers give the absolute error of the median.
func TestTally(t *testing.T) {
	set := &task.Set{Outputs: 3, Tags: []string{"a", "b", "c"}}
	s := tally{tagRight: make([]int, 3), tagCount: make([]int, 3)}
	s.add(&batch{set: set, count: 3, targets: []int32{1, task.Ignore, 0, 2}, tags: []int32{0, 0, 2, task.Ignore}},
		tensor.FromSlice([]float32{0, 2, 1, 9, 0, 0, -3, -1, -2, 1, 1, 5}, 4, 3), 0.5)
	for range 2 {
		s.add(&batch{set: set, count: 1, targets: []int32{0}, tags: []int32{2}}, tensor.FromSlice([]float32{4, 4, 4}, 1,
			3), 2.5)
	}
	want := train.Score{Loss: (3*0.5 + 2*2.5) / 5, Accuracy: 80, Count: 5, Tags: []train.TagScore{
		{Name: "a", Accuracy: 100, Count: 1}, {Name: "c", Accuracy: 100 * 2 / 3., Count: 3}}}
	if got := s.score(set); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
	if one := (&tally{loss: 3, count: 1, right: 1}).score(&task.Set{}); one.Loss != 3 || one.Accuracy != 100 {
		t.Errorf("of one: found %+v", one)
	}
	if got := new(tally).score(&task.Set{}); got.Loss != 0 || got.Accuracy != 0 {
		t.Errorf("of nothing: found %+v", got)
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		levels []float32
		out    []float32
		want   float64
	}{
		{nil, []float32{1, 2, 9}, (2 + 5) / 2.},
		{[]float32{0.1, 0.4, 0.9}, []float32{30, 1, 7, 30, 2, 7, 30, 9, 7}, (2 + 5) / 2.},
		{[]float32{0.1, 0.7, 0.9}, []float32{30, 1, 7, 30, 2, 7, 30, 9, 7}, (2 + 5) / 2.},
		{[]float32{0.25, 0.75}, []float32{1, 30, 2, 30, 9, 30}, (2 + 5) / 2.}, // the first of two equally near levels
		{[]float32{0.45, 0.9}, []float32{1, 30, 2, 30, 9, 30}, (2 + 5) / 2.},
		{[]float32{0.1, 0.55}, []float32{30, 1, 30, 2, 30, 9}, (2 + 5) / 2.},
		{[]float32{0.49, 0.512}, []float32{1, 30, 2, 30, 9, 30}, (2 + 5) / 2.},
		{[]float32{0.488, 0.511}, []float32{30, 1, 30, 2, 30, 9}, (2 + 5) / 2.},
	} {
		set, s := &task.Set{Numbers: true, Levels: c.levels}, tally{}
		s.add(&batch{set: set, count: 2, numbers: []float32{3, nan, 4}}, tensor.FromSlice(c.out, len(c.out)), 0.25)
		if got := s.score(set); got.MAE != c.want || got.Loss != 0.25 || got.Count != 2 || got.Accuracy != 0 {
			t.Errorf("levels %v: found %+v, want a mean absolute error of %v", c.levels, got, c.want)
		}
	}
}

// TestForward checks that only outputs for numbers to predict, at the end of each example, are returned, and that the
// loss is the mean squared error or the mean pinball loss of the levels.
func TestForward(t *testing.T) {
	nan := float32(math.NaN())
	for _, levels := range [][]float32{nil, {0.25, 0.5}, {0.75}} {
		set := toytask.Made("numbers") // two numbers at each position
		set.Levels, set.Channels, set.Outputs = levels, 2, 2*max(1, len(levels))
		w := &Work{Set: set}
		c := small()
		w.Net = must(newNetwork(&c, set))
		w.Net.Init(1)
		w.size, w.batch.set = 3, set
		ex := []task.Example{{Values: []float32{1, 2, 3, 4, 5, 6}, Numbers: []float32{1.5, -1, 2, 3}},
			{Values: []float32{4, 5, 6, 7}, Numbers: []float32{2, nan}}, {Values: []float32{7, 8},
				Numbers: []float32{nan, 1}}}
		b := &batch{set: set}
		if err := b.fill(task.Examples(ex), []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		all := w.Net.Predict(b.in)
		y, loss := w.forward(w.NewTape(), b)
		got, want, sum := make([]float32, y.Len()), []float32{}, 0.0
		y.CopyTo(got)
		for i, r := range []int{1, 2, 4, 5} { // rows that have numbers to predict
			row := all[r*set.Outputs:][:set.Outputs]
			want = append(want, row...)
			for j, x := range row {
				d := float64(b.numbers[2*i+j/max(1, len(levels))] - x)
				switch {
				case d != d:
				case levels == nil:
					sum += d * d / 6
				default:
					level := float64(levels[j%len(levels)])
					sum += math.Max(level*d, (level-1)*d) / 6 / float64(len(levels))
				}
			}
		}
		for i := range want {
			if len(got) != len(want) || math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Fatalf("levels %v: found %v, want %v", levels, got, want)
			}
		}
		if math.Abs(loss.Value()-sum) > 1e-5 {
			t.Errorf("levels %v: found the loss %v, want %v", levels, loss.Value(), sum)
		}
		known, truth, forecast, err := w.Forecast(context.Background(), w.NewTape(), task.Examples(ex), 0)
		if err != nil || !slices.Equal(known, []float32{1, 2}) || !slices.Equal(truth, ex[0].Numbers) ||
			len(forecast) != 2*set.Outputs || math.Abs(float64(forecast[0]-want[0])) > 1e-5 {
			t.Errorf("levels %v: the forecast is %v of %v after %v, %v", levels, forecast, truth, known, err)
		}
		tape := w.NewTape()
		if _, err := w.Score(context.Background(), tape, task.Examples(ex)); err != nil || tape.Recording() {
			t.Errorf("measuring records for gradients: %v, %v", tape.Recording(), err)
		}
	}
	set := toytask.Made("numbers")
	set.Everywhere = false
	c := small()
	w := &Work{Set: set, Net: must(newNetwork(&c, set))}
	w.Net.Init(1)
	b := &batch{set: set}
	if err := b.fill(splitOf(task.Example{Values: []float32{1, 2}, Numbers: []float32{3}}), []int{0}); err != nil {
		t.Fatal(err)
	}
	off := 3 - float64(w.Net.Predict(b.in)[0])
	if y, loss := w.forward(w.NewTape(), b); y.Len() != 1 || math.Abs(loss.Value()-off*off) > 1e-5 {
		t.Errorf("a number of a sequence: found the loss %v", loss.Value())
	}
	b = &batch{set: &task.Set{Weights: []float32{1, 2}}, targets: []int32{task.Ignore}}
	if loss := crossEntropy(w.NewTape(), tensor.FromSlice([]float32{1, 2}, 1, 2), b); loss.Value() != 0 {
		t.Errorf("of no target: found the loss %v", loss.Value())
	}
}

package train_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
	"github.com/hippo-ssm/hippo/train/text"
)

// network returns a run of a small network on a set.
func network(t testing.TB, set *task.Set, change func(*labelled.Config)) (*labelled.Work, *train.Training) {
	t.Helper()
	c := labelled.Default()
	c.Out = filepath.Join(t.TempDir(), "run")
	c.Model.DModel, c.Model.Layers, c.Model.DState = 16, "h3*2", 8
	c.BatchSize, c.Epochs, c.Optim.LR, c.Optim.WarmupEpochs = 20, 8, 1e-2, 0.5
	change(&c)
	w, l, err := labelled.Open(c, &c, set, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return w, l
}

// small returns the configuration of a language model that trains in milliseconds.
func small(t testing.TB) text.Config {
	t.Helper()
	c, err := text.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.Model.DModel, c.Model.NLayer, c.Model.DState, c.Model.NumHeads, c.Model.AttnIdx = 16, 2, 8, 2, []int{1}
	c.Train.BatchSize, c.Train.SeqLen, c.Train.Shards, c.Cache = 2, 32, 2, "none"
	file := filepath.Join(t.TempDir(), "text.txt")
	words := strings.Repeat("the quick brown fox jumps over the lazy dog; ", 60)
	if err := os.WriteFile(file, []byte(words), 0o666); err != nil {
		t.Fatal(err)
	}
	c.Data = []string{file}
	return c
}

// language returns the loop of a new run.
func language(t testing.TB, c text.Config, d *text.Dataset) *train.Training {
	t.Helper()
	w, err := text.New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// uneven returns a data set in which the first seven of every ten examples have only their last token as a target.
func uneven() *task.Set {
	set := toytask.Made("tokens")
	for i, ex := range set.Train.(task.Examples) {
		for j := range ex.Targets[:len(ex.Targets)-1] {
			if i%10 < 7 {
				ex.Targets[j] = task.Ignore
			}
		}
	}
	return set
}

// TestShardsOfUnevenTargets checks that, however an update is split into shards, its loss and gradient are those of the
// mean over all targets, even if the examples have different numbers of targets.
func TestShardsOfUnevenTargets(t *testing.T) {
	set := uneven()
	run := func(shards int) (loss float64, grads [][]float64) {
		w, l := network(t, set, func(c *labelled.Config) { c.Shards, c.Model.ResidDropout = shards, 0.2 })
		n, err := w.Read(0)
		if err != nil || n != 20 {
			t.Fatal(n, err)
		}
		loss, count, sum, err := l.Gradient(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range sum.Each() {
			mean := make([]float64, g.Len())
			for i, v := range g.Elements() {
				mean[i] = float64(v) / count
			}
			grads = append(grads, mean)
		}
		return loss, grads
	}
	want, wantGrads := run(1)
	for _, shards := range []int{2, 7, 20} {
		loss, grads := run(shards)
		if math.Abs(loss-want) > 1e-6*want {
			t.Errorf("%d shards: loss %v, want %v", shards, loss, want)
		}
		for i, g := range wantGrads {
			largest, worst := 0.0, 0.0
			for j, v := range g {
				largest, worst = max(largest, math.Abs(v)), max(worst, math.Abs(v-grads[i][j]))
			}
			if worst > 1e-4*max(largest, 1e-3) {
				t.Errorf("%d shards: the gradient of parameter %d differs by %.2g of its largest element", shards, i,
					worst/largest)
			}
		}
	}
}

// TestShardsInAnyOrder checks that an update's loss and gradient have the same bits whichever worker computes which
// shard, in any order and on any number of cores. The shards of the task have different numbers of targets.
func TestShardsInAnyOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	c := small(t)
	c.Train.Shards, c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 5, 0.1, 0.1, 0.2
	d, err := c.OpenData(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, begin := range map[string]func() *train.Training{
		"language": func() *train.Training {
			return language(t, c, d)
		},
		"task": func() *train.Training {
			_, l := network(t, uneven(), func(c *labelled.Config) { c.Shards, c.Model.ResidDropout = 7, 0.2 })
			return l
		},
	} {
		var want string
		for _, cores := range []int{1, 4} {
			runtime.GOMAXPROCS(cores)
			inOrder := begin()
			n, err := inOrder.Read()
			if err != nil {
				t.Fatal(err)
			}
			loss, count, sum, err := inOrder.Gradient(n)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(math.Float64bits(loss), count, train.Elements(sum))
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s: other bits on %d cores", name, cores)
			}
			for seed := range uint64(3) {
				if byTwo(t, begin, seed) != want {
					t.Errorf("%s: other bits when two workers compute the shards on %d cores, order %d", name,
						cores, seed)
				}
			}
		}
	}
}

// byTwo computes the first update of a run with two workers, each with its own run and tape. The workers take the
// shards in a random order.
func byTwo(t *testing.T, begin func() *train.Training, seed uint64) string {
	t.Helper()
	main := begin()
	var workers [2]*train.Training
	var examples int
	for i := range workers {
		workers[i] = begin()
		var err error
		if examples, err = workers[i].Read(); err != nil {
			t.Fatal(err)
		}
	}
	shards := main.Shards(examples)
	main.BeginSum(len(shards))
	losses, weights := make([]float64, len(shards)), make([]float64, len(shards))
	todo := make(chan train.Shard, len(shards))
	for _, i := range rand.New(rand.NewPCG(seed, 3)).Perm(len(shards)) {
		todo <- shards[i]
	}
	close(todo)
	var mu sync.Mutex // guards the sum
	var sum *autograd.Gradients
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			for s := range todo {
				g := w.NewGradients()
				mean, weight, err := w.Shard(s, len(shards) == 1, g)
				if err != nil {
					t.Error(err)
				}
				losses[s.Index], weights[s.Index] = mean, weight
				mu.Lock()
				if whole := main.AddShard(s.Index, g); whole != nil {
					sum = whole
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	loss, count := 0.0, 0.0
	for i, mean := range losses {
		loss, count = loss+weights[i]*mean, count+weights[i]
	}
	return fmt.Sprint(math.Float64bits(loss/count), count, train.Elements(sum))
}

// TestAverageFormula compares the averages after three updates with the formula.
func TestAverageFormula(t *testing.T) {
	c := small(t)
	c.Train.EMA = 0.3
	d, err := c.OpenData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := language(t, c, d)
	want := l.Weights()
	for n := 1; n <= 6; n++ {
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		keep := min(0.3, float64(1+n)/float64(10+n))
		for i, w := range l.Weights() {
			for j, x := range w.Elements() {
				want[i].Elements()[j] += float32(1-keep) * (x - want[i].Elements()[j])
			}
		}
	}
	for i, a := range l.Averages() {
		for j, x := range a.Elements() {
			if want := want[i].Elements()[j]; math.Abs(float64(x-want)) > 1e-6 {
				t.Fatalf("parameter %d has the average %v at %d, want %v", i, x, j, want)
			}
		}
	}
}

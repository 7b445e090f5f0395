package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
)

// labelled is a run of a small network on a set.
func labelled(t testing.TB, set *task.Set, change func(*LabelledConfig)) *Labelled {
	t.Helper()
	c := DefaultLabelled()
	c.Out = filepath.Join(t.TempDir(), "run")
	c.Model.DModel, c.Model.Layers, c.Model.DState = 16, "h3*2", 8
	c.BatchSize, c.Epochs, c.Optim.LR, c.Optim.WarmupEpochs = 20, 8, 1e-2, 0.5
	change(&c)
	w, err := OpenLabelled(c, &c, set, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// uneven is a data set: the first seven of every ten examples ask for their last token alone.
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

// TestShardsOfUnevenTargets: however an update is cut into shards, its loss and its gradient are those of the mean over
// all targets, though some examples ask for many and others for few.
func TestShardsOfUnevenTargets(t *testing.T) {
	set := uneven()
	run := func(shards int) (loss float64, grads [][]float64) {
		w := labelled(t, set, func(c *LabelledConfig) { c.Shards, c.Model.ResidDropout = shards, 0.2 })
		forUpdates(w.tape, w.precision)
		w.indices = make([]int, 20)
		for i := range w.indices {
			w.indices[i] = i
		}
		loss, count, sum, err := w.gradient(len(w.indices))
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

// TestShardsInAnyOrder: which worker computes which shard of an update, in what order and on how many cores, changes no
// bit of its loss and gradient. The shards of the task ask for different numbers of targets.
func TestShardsInAnyOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	c := small(t)
	c.Train.Shards, c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 5, 0.1, 0.1, 0.2
	d, err := c.OpenData(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, begin := range map[string]func() *Training{
		"language": func() *Training {
			tr, err := NewTrainer(c, d)
			if err != nil {
				t.Fatal(err)
			}
			return tr.Training
		},
		"task": func() *Training {
			return labelled(t, uneven(), func(c *LabelledConfig) { c.Shards, c.Model.ResidDropout = 7, 0.2 }).Training
		},
	} {
		var want string
		for _, cores := range []int{1, 4} {
			runtime.GOMAXPROCS(cores)
			inOrder := begin()
			forUpdates(inOrder.tape, inOrder.precision)
			n, err := inOrder.work.Read(0)
			if err != nil {
				t.Fatal(err)
			}
			loss, count, sum, err := inOrder.gradient(n)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(math.Float64bits(loss), count, elements(sum))
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

// byTwo computes the first update of a run by two workers, each with a run and a tape of its own, which take the shards
// in a random order.
func byTwo(t *testing.T, begin func() *Training, seed uint64) string {
	t.Helper()
	main := begin()
	var workers [2]*Training
	var examples int
	for i := range workers {
		workers[i] = begin()
		forUpdates(workers[i].tape, workers[i].precision)
		var err error
		if examples, err = workers[i].work.Read(0); err != nil {
			t.Fatal(err)
		}
	}
	shards := main.shards(examples)
	main.sum.begin(len(shards))
	losses, weights := make([]float64, len(shards)), make([]float64, len(shards))
	todo := make(chan Shard, len(shards))
	for _, i := range rand.New(rand.NewPCG(seed, 3)).Perm(len(shards)) {
		todo <- shards[i]
	}
	close(todo)
	var mu sync.Mutex // of the sum
	var sum *autograd.Gradients
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			for s := range todo {
				g := autograd.NewGradients(w.opt.Backend(), w.opt.Tensors()...)
				mean, weight, err := w.shard(w.tape, s, len(shards) == 1, g)
				if err != nil {
					t.Error(err)
				}
				losses[s.Index], weights[s.Index] = mean, weight
				mu.Lock()
				if whole := main.sum.put(s.Index, g); whole != nil {
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
	return fmt.Sprint(math.Float64bits(loss/count), count, elements(sum))
}

// elements are those of all gradients.
func elements(g *autograd.Gradients) (all [][]float32) {
	for _, x := range g.Each() {
		all = append(all, x.Elements())
	}
	return all
}

// TestTreeOfShards: sums are those of a tree over the shards' places, which takes as much memory as it has levels.
func TestTreeOfShards(t *testing.T) {
	x := tensor.New(3)
	s := newShardSum(optim.NewAdamW(cpu.Backend{}, []optim.Param{{Name: "x", Tensor: x}}, 0.9, 0.99, 1e-8, 1))
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 3, 5, 7, 8, 13, 256} {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(math.Exp(20 * rng.NormFloat64())) // so that the order of additions shows
		}
		var tree func(lo, hi int) float32
		tree = func(lo, hi int) float32 {
			if hi-lo == 1 {
				return values[lo]
			}
			half := 1
			for 2*half < hi-lo {
				half *= 2
			}
			return tree(lo, lo+half) + tree(lo+half, hi)
		}
		for _, order := range [][]int{nil, rng.Perm(n), rng.Perm(n)} {
			s.free = nil
			s.begin(n)
			lent := map[*autograd.Gradients]bool{}
			var sum *autograd.Gradients
			for i := range n {
				if order != nil {
					i = order[i]
				}
				g := s.take()
				lent[g] = true
				g.Each()[0].Elements()[1] = values[i]
				sum = s.put(i, g)
			}
			if sum == nil || elements(sum)[0][1] != tree(0, n) || len(s.waiting) > 0 {
				t.Fatalf("%d shards in the order %v: found %v, want %v", n, order, sum, tree(0, n))
			}
			if order == nil && len(lent) != sumsOf(n) {
				t.Errorf("%d shards take %d gradients, want %d", n, len(lent), sumsOf(n))
			}
			for _, g := range s.free {
				if slices.ContainsFunc(elements(g)[0], func(v float32) bool { return v != 0 }) {
					t.Errorf("%d shards: gradients %v were given back, want zeros", n, elements(g))
				}
			}
		}
	}
}

package labelled

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/testkit/toytask"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestEpochOrder checks that an epoch has every example once, that lengths within a batch are similar, and that another
// epoch has another order.
func TestEpochOrder(t *testing.T) {
	split := toytask.Made("class").Train
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
	if a, b := epochOrder(split, 20, 1, 0), epochOrder(split, 20, 1, 1); a[0][0] == b[0][0] && a[1][0] == b[1][0] &&
		a[2][0] == b[2][0] {
		t.Error("two epochs have the same order")
	}
}

// TestEpochOrderIsKept checks that the order of an epoch is the same as in earlier versions, which resumed runs
// require: a permutation by the seed, sorted in pools of sixteen batches if lengths are known, with these batches
// shuffled.
func TestEpochOrderIsKept(t *testing.T) {
	with := toytask.Made("class").Train
	lengths := with.(task.Lengths)
	for _, c := range []struct {
		seed        uint64
		epoch, size int
	}{{1, 0, 20}, {7, 3, 11}} {
		rng := rand.New(rand.NewPCG(c.seed, 0x6f72646572+uint64(c.epoch))) // "order"
		order := rng.Perm(300)
		plain := slices.Collect(slices.Chunk(slices.Clone(order), c.size))
		if got := epochOrder(splitOf(make([]task.Example, 300)...), c.size, c.seed,
			c.epoch); !reflect.DeepEqual(got, plain) {
			t.Errorf("without lengths: found %v, want %v", got[0], plain[0])
		}
		for lo := 0; lo < 300; lo += 16 * c.size {
			slices.SortStableFunc(order[lo:min(300, lo+16*c.size)], func(a, b int) int {
				return lengths.Length(a) - lengths.Length(b)
			})
		}
		want := slices.Collect(slices.Chunk(order, c.size))
		rng.Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
		if got := epochOrder(with, c.size, c.seed, c.epoch); !reflect.DeepEqual(got, want) {
			t.Errorf("by lengths: found %v, want %v", got[0], want[0])
		}
	}
}

// TestOldSettings checks that micro_batch of earlier versions is read and converted to shards.
func TestOldSettings(t *testing.T) {
	for micro, want := range map[int]int{0: 1, 1: 32, 7: 5, 8: 4, 31: 2, 32: 1, 40: 1} {
		l := Default()
		l.Model.DModel, l.Model.Layers = 16, "h3"
		if err := json.Unmarshal(fmt.Appendf(nil, `{"micro_batch": %d}`, micro), &l); err != nil {
			t.Fatal(err)
		}
		if err := l.Validate(); err != nil || l.Shards != want || l.MicroBatch != 0 {
			t.Errorf("micro_batch %d of 32: %d shards, %v, want %d", micro, l.Shards, err, want)
		}
	}
	if l := (Config{MicroBatch: 3}); l.Validate() == nil || l.Shards != 1 {
		t.Errorf("micro_batch of an empty batch: %d shards, want 1", l.Shards)
	}
}

// TestWeightedCrossEntropy checks that the loss is the mean of -w log p over targets, and that the gradient matches it.
func TestWeightedCrossEntropy(t *testing.T) {
	tape := autograd.NewTape(native.Backend)
	tape.Record(true)
	scores := []float32{1, 2, 0, -1, 0.5, 0, 3, 0, 1, 0, 0, 0}
	b := &batch{set: &task.Set{Weights: []float32{0.5, 3, 7}}, targets: []int32{1, 0, task.Ignore, 1}, count: 3}
	y := tensor.FromSlice(scores, 4, 3)
	y.SetNeedsGrad(true)
	loss := crossEntropy(tape, y, b)
	tape.Backward(loss)
	grad := make([]float32, 12)
	tape.Grad(y).CopyTo(grad)
	want, slope := 0.0, make([]float64, 12)
	for r, id := range b.targets {
		if id == task.Ignore {
			continue
		}
		w, sum := float64(b.set.Weights[id])/3, 0.0
		for _, x := range scores[3*r : 3*r+3] {
			sum += math.Exp(float64(x))
		}
		for k, x := range scores[3*r : 3*r+3] {
			p := math.Exp(float64(x)) / sum
			slope[3*r+k] = w * p
			if k == int(id) {
				slope[3*r+k] -= w
				want -= w * math.Log(p)
			}
		}
	}
	if got := loss.Value(); math.Abs(got-want) > 1e-5 {
		t.Errorf("found the loss %g, want %g", got, want)
	}
	for i, g := range grad {
		if math.Abs(float64(g)-slope[i]) > 1e-5 {
			t.Errorf("gradient %d: found %g, want %g", i, g, slope[i])
		}
	}
}

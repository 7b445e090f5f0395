package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// spattenOn runs SpAtten over the qkv (n, 3·d) of one sequence, in chunks of the given lengths.
func spattenOn(qkv []float32, state *engine.SpAttenState, o engine.SpAttenOptions, hd int,
	lengths ...int) (y []float32) {
	width := 3 * o.Heads * hd
	for _, n := range lengths {
		eng := New(&engine.Step{})
		x := tensor.FromSlice(qkv[len(y)*3:][:n*width], n, width)
		y = append(y, eng.SpAtten(x, o, engine.NewRows(n), []*engine.SpAttenState{state}).Data()...)
	}
	return y
}

// TestSpAttenCascade checks that a pruned head gives zeros from then on, that heads are pruned one after the other
// until the requested number is left, and that a token that is kept was kept before.
func TestSpAttenCascade(t *testing.T) {
	const l, heads, hd = 40, 4, 2
	const width = 3 * heads * hd
	o := engine.SpAttenOptions{Heads: heads, Block: 5, Keep: 6, KeepHeads: 2}
	qkv := normal(l*width, 3)
	state := newSpAttenState(hd, o)
	silent := func(y []float32, h int) bool {
		return !slices.ContainsFunc(y[h*hd:][:hd], func(x float32) bool { return x != 0 })
	}
	wasSilent, kept := make([]bool, heads), map[[hd]float32]bool{}
	for i := range l {
		y := spattenOn(qkv[i*width:], state, o, hd, 1)
		count := 0
		for h := range heads {
			if wasSilent[h] && !silent(y, h) {
				t.Errorf("position %d: head %d is back", i, h)
			}
			if wasSilent[h] = silent(y, h); wasSilent[h] {
				count++
			}
		}
		if want := min(i/o.Block, heads-o.KeepHeads); count != want {
			t.Errorf("position %d: %d heads are pruned, want %d", i, count, want)
		}
		if (i+1)%o.Block != 0 || i < 2*o.Block {
			continue
		}
		now := map[[hd]float32]bool{}
		for j := range o.Keep {
			key := [hd]float32(state.K.Data()[j*hd:][:hd])
			now[key] = true
			fresh := false // whether the key is one of the last block
			for n := i + 1 - o.Block; n <= i; n++ {
				fresh = fresh || key == [hd]float32(qkv[n*width+heads*hd:][:hd])
			}
			if !fresh && !kept[key] && len(kept) > 0 {
				t.Errorf("position %d: a token that was pruned is back", i)
			}
		}
		kept = now
		if len(kept) != o.Keep {
			t.Errorf("position %d: %d tokens are kept, want %d", i, len(kept), o.Keep)
		}
	}
}

func newSpAttenState(hd int, o engine.SpAttenOptions) *engine.SpAttenState {
	s := &engine.SpAttenState{K: tensor.New(o.Heads, o.Rows(), hd), V: tensor.New(o.Heads, o.Rows(), hd),
		Importance: tensor.New(o.Rows()), Heads: tensor.New(o.Heads), Position: tensor.New(2)}
	if o.Progressive > 0 {
		s.Low = tensor.New(o.Heads, o.Rows(), hd)
	}
	return s
}

// normal returns n random numbers.
func normal(n int, seed uint64) []float32 {
	rng, x := rand.New(rand.NewPCG(seed, 7)), make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestQuantise checks that the upper and the lower bits of a key add up to it within half a step, and that each has
// four bits.
func TestQuantise(t *testing.T) {
	want := []float32{-1, -0.993, -0.5, -0.03, 0, 0.004, 0.06, 0.25, 0.7, 0.99, 1}
	key, low := slices.Clone(want), make([]float32, len(want))
	quantise(key, low)
	const step = 1.0 / 119
	for i, x := range want {
		if d := math.Abs(float64(key[i] + low[i] - x)); d > 0.501*step {
			t.Errorf("%g becomes %g + %g, off by %g steps", x, key[i], low[i], d/step)
		}
		upper, lower := float64(key[i])/(16*step), float64(low[i])/step
		if math.Abs(upper-math.Round(upper)) > 1e-4 || math.Abs(upper) > 8 || lower < -8.001 || lower > 7.001 {
			t.Errorf("%g has %g upper and %g lower steps", x, upper, lower)
		}
	}
	zeros := make([]float32, 3)
	quantise(zeros, low[:3])
	if slices.Max(zeros) != 0 || slices.Max(low[:3]) != 0 {
		t.Errorf("zeros become %v + %v", zeros, low[:3])
	}
}

// TestProgressive checks that quantised keys give nearly the results of exact keys: those of the upper bits alone if a
// weight is above the threshold, else those of all bits. The results are the same however the sequence is cut.
func TestProgressive(t *testing.T) {
	const l, heads, hd = 60, 2, 8
	qkv := normal(l*3*heads*hd, 4)
	run := func(threshold float32, keep int, lengths ...int) []float32 {
		o := engine.SpAttenOptions{Heads: heads, Block: 7, Keep: keep, KeepHeads: heads, Progressive: threshold}
		return spattenOn(qkv, newSpAttenState(hd, o), o, hd, lengths...)
	}
	off := func(x, y []float32) (d float64) {
		for i := range x {
			d = max(d, math.Abs(float64(x[i]-y[i])))
		}
		return d
	}
	const half = 0.5
	whole, upper, all, some := run(0, l, l), run(1e-9, l, l), run(2, l, l), run(half, l, l)
	if d := off(all, whole); d == 0 || d > 0.05 {
		t.Errorf("8 bits are off by %g", d)
	}
	if d := off(upper, whole); d < 2*off(all, whole) {
		t.Errorf("the upper 4 bits are off by %g, all 8 by %g", d, off(all, whole))
	}
	refined, left := 0, 0
	for i := 0; i < len(some); i += hd {
		switch {
		case off(some[i:][:hd], all[i:][:hd]) < 1e-6:
			refined++
		case off(some[i:][:hd], upper[i:][:hd]) < 1e-6:
			left++
		default:
			t.Errorf("row %d is neither of the upper bits nor of all", i/hd)
		}
	}
	if refined == 0 || left == 0 {
		t.Errorf("%d rows are of all bits, %d of the upper ones", refined, left)
	}
	if d := off(run(half, 10, 4, 1, 1, 15, l-21), run(half, 10, l)); d > 1e-6 {
		t.Errorf("in chunks it differs by %g", d)
	}
}

// TestSpAttenRefines checks that scores are refined if no weight of their softmax, with the scale, is above
// Progressive.
func TestSpAttenRefines(t *testing.T) {
	s := &spatten{SpAttenOptions: engine.SpAttenOptions{Progressive: 0.9}, hd: 1}
	for scale, again := range map[float32]bool{0.5: true, 1: false, 2: false} { // weights 0.881, 0.982, 0.9997
		s.scale = scale
		scores := []float32{0, -4}
		s.refine(scores, []float32{3}, []float32{1, 2})
		want := []float32{0, -4}
		if again {
			want = []float32{3, 2}
		}
		if !slices.Equal(scores, want) {
			t.Errorf("scale %v: scores %v, want %v", scale, scores, want)
		}
	}
}

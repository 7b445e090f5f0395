package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// twoCaches returns the caches of two sequences.
func twoCaches(window int) []*engine.ConvCache {
	return []*engine.ConvCache{{Window: window}, {Window: window}}
}

// TestConvCacheAnyChunking checks that chunks that are appended in place give the result of the whole sequence, for any
// window, and that the cache keeps the last inputs.
func TestConvCacheAnyChunking(t *testing.T) {
	const b, d, l = 2, 3, 700
	rng := rand.New(rand.NewPCG(1, 2))
	u, skip, whole := randomTensor(rng, b*l, d), randomTensor(rng, d), engine.EqualRows(b, l)
	for _, window := range []int{1, 2, 63, 64, 130, l, 4 * l} {
		t.Run(fmt.Sprint("window=", window), func(t *testing.T) {
			k, tape := randomTensor(rng, min(window, l), d), NewTape()
			want := tape.LongConv(u, k, skip, whole).Data()
			scale := float64(slices.Max(want))
			for _, chunks := range [][]int{{1}, {7}, {directUpTo, 1}, {200, 3, 150}, {l}} {
				caches := twoCaches(window)
				for lo, i := 0, 0; lo < l; i++ {
					n := min(l-lo, chunks[i%len(chunks)])
					part := tape.Cut(u, whole, []int{lo, lo}, []int{n, n})
					y := tape.CachedLongConv(part, k, skip, engine.EqualRows(b, n), caches)
					for j, v := range y.Data() {
						if w := want[(j/(n*d)*l+lo)*d+j%(n*d)]; math.Abs(float64(v-w)) > 3e-6*scale {
							t.Fatalf("chunks %v: y[%d] after %d positions is %g, want %g", chunks, j, lo, v, w)
						}
					}
					lo += n
					for _, c := range caches {
						if c.Past() != min(lo, window-1) {
							t.Fatalf("chunks %v: after %d positions it keeps %d", chunks, lo, c.Past())
						}
						if room := c.U.Dim(0) - ahead(); room > max(64, 2*window+n, 2*lo) {
							t.Fatalf("chunks %v: room for %d positions after %d", chunks, room, lo)
						}
					}
				}
				for i, c := range caches {
					past := c.Past()
					if past > 0 && !slices.Equal(c.Clone().U.Data(), u.Data()[((i+1)*l-past)*d:(i+1)*l*d]) {
						t.Fatalf("chunks %v: it does not keep the last inputs", chunks)
					}
				}
			}
		})
	}
}

// TestConvCacheClone checks that a copy, and a cache of which only the inputs are left, continue with the same bits,
// wherever in a block they were taken, and that another kernel takes effect at once.
func TestConvCacheClone(t *testing.T) {
	const d, l, more = 5, 300, 70
	tape := NewTape()
	in := tensors(row{}.inputs([][]int{{l + more, d}, {l + more + ahead(), d}, {l + more + ahead(), d}, {d}}, 1))
	u, k, other, skip := in[0], in[1], in[2], in[3]
	goOn := func(c *engine.ConvCache, k *tensor.Tensor, from, to int) (y []float32) {
		for i := from; i < to; i++ {
			y = append(y, tape.CachedLongConv(tape.Slice(u, i, 1), k, skip, engine.NewRows(1),
				[]*engine.ConvCache{c}).Data()...)
		}
		return y
	}
	for _, at := range []int{l - 200, l - 3, l, l + 1} {
		c := engine.ConvCache{Window: l + more + ahead()}
		goOn(&c, k, 0, at)
		clone, restored, changed := c.Clone(), engine.ConvCache{U: c.Clone().U, Len: at, Window: c.Window}, c.Clone()
		want := goOn(&c, k, at, l+more)
		if !slices.Equal(goOn(&clone, k, at, l+more), want) {
			t.Errorf("a copy after %d positions goes on differently", at)
		}
		if !slices.Equal(goOn(&restored, k, at, l+more), want) {
			t.Errorf("after %d positions the inputs alone go on differently", at)
		}
		whole := tape.LongConv(u, other, skip, engine.NewRows(l+more)).Data()
		for i, v := range goOn(&changed, other, at, at+1) {
			if w := whole[at*d+i]; math.Abs(float64(v-w)) > 1e-4 {
				t.Errorf("after %d positions with another kernel y is %g, want %g", at, v, w)
			}
		}
	}
}

// TestConvCachesOfAnyAge checks that sequences of different ages that step together, one of them only now and then,
// have the same bits as each alone.
func TestConvCachesOfAnyAge(t *testing.T) {
	const d, l, steps = 16, 400, 120
	rng := rand.New(rand.NewPCG(3, 4))
	k, skip, tape := randomTensor(rng, l+steps+ahead(), d), randomTensor(rng, d), NewTape()
	ages := []int{390, 1, 150, 127, 31}
	var inputs []*tensor.Tensor
	for _, age := range ages {
		inputs = append(inputs, randomTensor(rng, age+steps, d))
	}
	prompted := func(i int) *engine.ConvCache {
		c := &engine.ConvCache{Window: l + steps}
		tape.CachedLongConv(tape.Slice(inputs[i], 0, ages[i]), k, skip, engine.NewRows(ages[i]), []*engine.ConvCache{c})
		return c
	}
	var alone [][]float32
	for i, x := range inputs {
		c, y := prompted(i), []float32(nil)
		for at := ages[i]; at < ages[i]+steps; at++ {
			y = append(y, tape.CachedLongConv(tape.Slice(x, at, 1), k, skip, engine.NewRows(1),
				[]*engine.ConvCache{c}).Data()...)
		}
		alone = append(alone, y)
	}
	caches, done := make([]*engine.ConvCache, len(ages)), make([]int, len(ages))
	for i := range ages {
		caches[i] = prompted(i)
	}
	for step := 0; done[0] < steps; step++ {
		var which []int
		var now []*engine.ConvCache
		var x []float32
		for i := range ages {
			if done[i] < steps && (i != 0 || step%2 == 0) {
				at := (ages[i] + done[i]) * d
				which, now, x = append(which, i), append(now, caches[i]), append(x, inputs[i].Data()[at:at+d]...)
			}
		}
		y := tape.CachedLongConv(tensor.FromSlice(x, len(which), d), k, skip, engine.EqualRows(len(which), 1),
			now).Data()
		for j, i := range which {
			if !slices.Equal(y[j*d:(j+1)*d], alone[i][done[i]*d:(done[i]+1)*d]) {
				t.Fatalf("step %d of sequence %d: other bits than alone", done[i], i)
			}
			done[i]++
		}
	}
}

// TestConvCacheGrowsSeldom checks that a cache that grows by one position at a time doubles its memory when it moves.
func TestConvCacheGrowsSeldom(t *testing.T) {
	const l = 5000
	c, x := &engine.ConvCache{Window: l}, tensor.New(1, 1)
	sizes := map[int]bool{}
	for range l {
		appendInputs(c, x, span{0, 1})
		sizes[c.U.Dim(0)] = true
	}
	if len(sizes) > 10 { // 64 · 2⁷ > 5000
		t.Errorf("it has moved to %d sizes of memory", len(sizes))
	}
}

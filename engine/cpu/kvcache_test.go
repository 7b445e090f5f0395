//go:build todo

package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// attend runs attention over qkv (b, l, 3·d) in chunks, beside a cache of a precision.
func attend(c *engine.KVCache, qkv *tensor.Tensor, o engine.AttentionOptions, chunks ...int) []float32 {
	b, l, width := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)
	y := make([]float32, b*l*width/3)
	for at, i := 0, 0; at < l; i++ {
		n := min(chunks[min(i, len(chunks)-1)], l-at)
		part := tensor.New(b, n, width)
		for r := range b {
			copy(part.Data()[r*n*width:][:n*width], qkv.Data()[(r*l+at)*width:])
		}
		out := NewTape().Attention(part, c, o)
		for r := range b {
			copy(y[(r*l+at)*width/3:][:n*width/3], out.Data()[r*n*width/3:])
		}
		at += n
	}
	return y
}

// relative is the distance of x from y in the mean square, of the size of y.
func relative(x, y []float32) float64 {
	diff, size := 0.0, 0.0
	for i, v := range y {
		diff += math.Pow(float64(x[i]-v), 2)
		size += float64(v) * float64(v)
	}
	return math.Sqrt(diff / size)
}

// Tolerances of attention over rounded keys and values, in the mean square. Scores are some units large, so that the rounding of keys
// shows: bfloat16 rounds a number by up to 1/256 of it, 1/900 in the mean, int8 by up to 1/254 of the largest of its row, 1/170 of
// the mean of normal ones.
var roundedTol = map[engine.Precision]float64{engine.BF16: 0.004, engine.Int8: 0.012}

// TestRoundedCache: attention over a cache of another precision is near that in float32, and no nearer than rounding makes it; it is
// the same in any chunks; and copies and what was saved go on with the same bits.
func TestRoundedCache(t *testing.T) {
	const b, l, heads = 2, 90, 4
	for _, v := range []struct {
		name string
		hd   int
		o    engine.AttentionOptions
	}{
		{"plain", 32, engine.AttentionOptions{}},
		{"rotary", 16, engine.AttentionOptions{Rotary: engine.Rotary{Dim: 16}}},
		{"odd", 5, engine.AttentionOptions{}},
		{"alibi", 32, engine.AttentionOptions{ALiBi: true}},
		{"window", 32, engine.AttentionOptions{Window: 20, Rotary: engine.Rotary{Dim: 8}}},
		{"blocks", 16, engine.AttentionOptions{Blocks: &engine.Blocks{Size: 4, Window: 1, Global: 1, Random: 2, Seed: 1}}},
	} {
		v.o.Heads = heads
		rng := rand.New(rand.NewPCG(1, 3))
		qkv := tensor.New(b, l, 3*heads*v.hd)
		for i := range qkv.Data() {
			qkv.Data()[i] = float32(1.3 * rng.NormFloat64())
		}
		exact := attend(&engine.KVCache{}, qkv, v.o, l)
		for p, tol := range roundedTol {
			t.Run(fmt.Sprintf("%s/%v", v.name, p), func(t *testing.T) {
				c := roundedCache(p)
				whole := attend(c, qkv, v.o, l)
				if d := relative(whole, exact); d > tol || d < tol/8 {
					t.Errorf("%.5f away from float32, want at most %v and more than an eighth", d, tol)
				}
				for _, chunks := range [][]int{{1}, {7}, {l - 9, 1, 3, 1}, {30, 1}} {
					if d := relative(attend(roundedCache(p), qkv, v.o, chunks...), whole); d > 1e-5 {
						t.Errorf("in chunks of %v it is %v away from what it is at once", chunks, d)
					}
				}
				sameGoesOn(t, c, qkv, v.o)
			})
		}
	}
}

// roundedCache is an empty cache of precision p.
func roundedCache(p engine.Precision) *engine.KVCache {
	if p == engine.Float32 {
		return &engine.KVCache{}
	}
	return &engine.KVCache{Rounded: &roundedRows{precision: kernel.Precision(p)}}
}

// sameGoesOn compares what a cache gives with what its copies give.
func sameGoesOn(t *testing.T, c *engine.KVCache, qkv *tensor.Tensor, o engine.AttentionOptions) {
	t.Helper()
	n := o.Remembered(c.Len)
	cut := c.Clone(n)
	restored := engine.KVCache{Start: c.Start + c.Len - n}
	if c.Rounded != nil {
		restored.Rounded = c.Rounded.Empty(0, 0)
	}
	k, v := c.Tensors(n)
	if !restored.Fill(1, v) || !restored.Fill(0, k) || restored.Fill(0, tensor.New(k.Dim(0), k.Dim(1), n+1, k.Dim(3))) {
		t.Fatal("Fill took other numbers of positions than those that belong together")
	}
	if k.Dim(2) != n || restored.Len != n || cut.Len != n {
		t.Fatalf("%d, %d and %d positions, want %d", k.Dim(2), restored.Len, cut.Len, n)
	}
	want := attend(c, qkv, o, 2, 1)
	if !slices.Equal(attend(&cut, qkv, o, 2, 1), want) {
		t.Error("a copy goes on with other bits")
	}
	if !slices.Equal(attend(&restored, qkv, o, 2, 1), want) {
		t.Error("restored from what was saved it goes on with other bits")
	}
	c.Keep(3)
	if k, _ := c.Tensors(100); c.Len != 3 || k.Dim(2) != 3 {
		t.Errorf("%d positions after Keep(3)", c.Len)
	}
}

// TestBlocksOfKeysInAnyChunks: blocks of keys begin at multiples of their length from the first key on, so that what a
// query gets does not depend on the chunk that it comes in, to the last bit, in any precision of the keys.
func TestBlocksOfKeysInAnyChunks(t *testing.T) {
	const l, heads, hd = 2*keyBlock + 70, 2, 3
	rng := rand.New(rand.NewPCG(1, 5))
	x := tensor.New(1, l, 3*heads*hd)
	for i := range x.Data() {
		x.Data()[i] = float32(1.5 * rng.NormFloat64())
	}
	o := engine.AttentionOptions{Heads: heads}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
		whole := attend(roundedCache(p), x, o, l)
		for _, chunks := range [][]int{{512}, {keyBlock - 20, 100, 777}} {
			t.Run(fmt.Sprint(p, chunks), func(t *testing.T) {
				if !slices.Equal(attend(roundedCache(p), x, o, chunks...), whole) {
					t.Error("it gives other bits than at once")
				}
			})
		}
	}
}

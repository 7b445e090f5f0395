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

// sequence is a sequence of random positions (n, width), with a cache of the positions that have been attended to.
type sequence struct {
	engine.KVCache
	x        *tensor.Tensor
	position int
}

// newSequence returns n positions for a cache of precision p.
func newSequence(p engine.Precision, seed uint64, n, width int) *sequence {
	rng, x := rand.New(rand.NewPCG(1, seed)), tensor.New(n, width)
	for i := range x.Data() {
		x.Data()[i] = float32(1.3 * rng.NormFloat64())
	}
	return &sequence{KVCache: *roundedCache(p), x: x}
}

// roundedCache returns an empty cache of precision p.
func roundedCache(p engine.Precision) *engine.KVCache {
	if p == engine.Float32 {
		return &engine.KVCache{}
	}
	return &engine.KVCache{Rounded: &roundedRows{precision: kernel.Precision(p)}}
}

// fork returns the sequence with a copy of its cache.
func (s *sequence) fork() *sequence {
	return &sequence{KVCache: s.Clone(), x: s.x, position: s.position}
}

// attend attends to the next positions of some sequences in one call, lens[i] of sequence i, and returns the results of
// each.
func attend(o engine.AttentionOptions, lens []int, sequences ...*sequence) [][]float32 {
	rows, width := &engine.Rows{}, sequences[0].x.Dim(-1)
	var caches []*engine.KVCache
	var x []float32
	for i, s := range sequences {
		rows.Add(lens[i], s.position)
		caches = append(caches, &s.KVCache)
		x = append(x, s.x.Data()[s.position*width:][:lens[i]*width]...)
		s.position += lens[i]
	}
	y := New(&engine.Step{}).Attention(tensor.FromSlice(x, rows.Total(), width), rows, caches, o, 0)
	var out [][]float32
	for i := range sequences {
		out = append(out, y.Data()[rows.From(i)*y.Dim(-1):][:lens[i]*y.Dim(-1)])
	}
	return out
}

// chunks attends to the rest of a sequence in chunks of the given lengths. The last length is repeated.
func (s *sequence) chunks(o engine.AttentionOptions, lens ...int) (y []float32) {
	for i := 0; s.position < s.x.Dim(0); i++ {
		n := min(lens[min(i, len(lens)-1)], s.x.Dim(0)-s.position)
		y = append(y, attend(o, []int{n}, s)[0]...)
	}
	return y
}

// relative returns the root mean square of x - y, relative to that of y.
func relative(x, y []float32) float64 {
	diff, size := 0.0, 0.0
	for i, v := range y {
		diff += math.Pow(float64(x[i]-v), 2)
		size += float64(v) * float64(v)
	}
	return math.Sqrt(diff / size)
}

// roundedTol holds the tolerances of attention over rounded keys and values, in the root mean square. Scores are
// several units large, so that the rounding of keys shows. bfloat16 rounds a number by up to 1/256 of it, 1/900 on
// average; int8 by up to 1/254 of the largest of its row, 1/170 of the mean of normal ones.
var roundedTol = map[engine.Precision]float64{engine.BF16: 0.004, engine.Int8: 0.012}

// cacheVariant is a way to attend to the contents of a cache, with heads of the given width.
type cacheVariant struct {
	hd int
	o  engine.AttentionOptions
}

// sequence returns newSequence for the variant.
func (v *cacheVariant) sequence(p engine.Precision, seed uint64, n int) *sequence {
	s := newSequence(p, seed, n, v.o.Packed()*v.hd)
	s.KeysAsValues = v.o.KeysAsValues
	return s
}

// cacheVariants returns variants for each way in which keys are seen.
func cacheVariants() map[string]cacheVariant {
	type o = engine.AttentionOptions
	blocks := &engine.Blocks{Size: 4, Window: 1, Global: 1, Random: 2, Seed: 1}
	return map[string]cacheVariant{
		"plain":  {32, o{Heads: 4}},
		"rotary": {16, o{Heads: 4, Rotary: engine.Rotary{Dim: 16}}},
		"odd":    {5, o{Heads: 4}},
		"alibi":  {32, o{Heads: 4, ALiBi: true}},
		"window": {32, o{Heads: 4, Window: 20, Rotary: engine.Rotary{Dim: 8}}},
		"blocks": {16, o{Heads: 4, Blocks: blocks}},
		"group":  {64, o{Heads: 4, KVHeads: 2, Window: 40}},
		"pairs":  {64, o{Heads: 4, KVHeads: 2}},
		"latent": {40, o{Heads: 4, KVHeads: 1, KeysAsValues: true, Scale: 0.2}},
	}
}

// TestRoundedCache checks that attention over a cache of another precision differs from that in float32 by the
// rounding, neither more nor less, and is the same in any chunks, in int8 to the bit.
func TestRoundedCache(t *testing.T) {
	const l = 90
	for name, v := range cacheVariants() {
		sequence := func(p engine.Precision) *sequence { return v.sequence(p, 3, l) }
		exact := sequence(engine.Float32).chunks(v.o, l)
		for p, tol := range roundedTol {
			t.Run(fmt.Sprintf("%s/%v", name, p), func(t *testing.T) {
				whole := sequence(p).chunks(v.o, l)
				if d := relative(whole, exact); d > tol || d < tol/8 {
					t.Errorf("%.5f away from float32, want at most %v and more than an eighth", d, tol)
				}
				for _, lens := range [][]int{{1}, {7}, {l - 9, 1, 3, 1}, {30, 1}} {
					if d := relative(sequence(p).chunks(v.o, lens...), whole); d > 1e-5 || d > 0 && p == engine.Int8 {
						t.Errorf("in chunks of %v it is %v away from what it is at once", lens, d)
					}
				}
			})
		}
	}
}

// TestCacheGoesOn checks that a copy of a cache, and one that was restored from saved data, continue with the bits of
// the cache, at any position in a page.
func TestCacheGoesOn(t *testing.T) {
	for name, v := range cacheVariants() {
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
			for _, at := range []int{1, 60, engine.PageLen, 3*engine.PageLen - 5, 3*engine.PageLen + 2} {
				t.Run(fmt.Sprint(name, "/", p, "/", at), func(t *testing.T) {
					s := v.sequence(p, 4, at+80)
					attend(v.o, []int{at}, s)
					n := v.o.Remembered(at)
					copied, restored := s.fork(), &sequence{KVCache: *roundedCache(p), x: s.x, position: at}
					restored.KeysAsValues = v.o.KeysAsValues
					k, w := s.Tensors(n)
					if w != nil && !restored.Fill(1, w) || !restored.Fill(0, k) ||
						restored.Fill(0, tensor.New(v.o.KeyHeads(), n+1, v.hd)) {
						t.Fatal("Fill took other numbers of positions than those that belong together")
					}
					if k.Dim(-2) != n || restored.Len != n || copied.Len != n {
						t.Fatalf("%d, %d and %d positions, want %d", k.Dim(-2), restored.Len, copied.Len, n)
					}
					want := s.chunks(v.o, 2, 1, 70, 1)
					if !slices.Equal(copied.chunks(v.o, 2, 1, 70, 1), want) {
						t.Error("a copy goes on with other bits")
					}
					if !slices.Equal(restored.chunks(v.o, 2, 1, 70, 1), want) {
						t.Error("restored from what was saved it goes on with other bits")
					}
					k, w = s.Tensors(1 << 30)
					ofCopy, values := copied.Tensors(1 << 30)
					if !slices.Equal(ofCopy.Data(), k.Data()) ||
						(w != nil || values != nil) && !slices.Equal(values.Data(), w.Data()) {
						t.Error("a copy that went on has other keys and values")
					}
					if s.Keep(1); s.Len != 1 {
						t.Errorf("%d positions after Keep(1)", s.Len)
					}
				})
			}
		}
	}
}

// TestKeptCacheGoesOn checks that a cache that was cut continues with the bits of its copies, and of one restored from
// it.
func TestKeptCacheGoesOn(t *testing.T) {
	o := engine.AttentionOptions{Heads: 2, Rotary: engine.Rotary{Dim: 8}}
	s := newSequence(engine.Float32, 5, 400, 3*2*16)
	attend(o, []int{300}, s)
	s.Keep(150)
	copied, restored := s.fork(), &sequence{x: s.x, position: s.position}
	k, v := s.Tensors(150)
	restored.Fill(0, k)
	restored.Fill(1, v)
	want := s.chunks(o, 1, 2, 90, 1)
	if !slices.Equal(copied.chunks(o, 1, 2, 90, 1), want) || !slices.Equal(restored.chunks(o, 1, 2, 90, 1), want) {
		t.Error("it goes on with other bits")
	}
}

// TestBlocksOfKeysInAnyChunks checks that the result of a query does not depend on the chunk that contains it, to the
// last bit, in any precision of the keys, because blocks of keys begin at multiples of their length from the first key
// on.
func TestBlocksOfKeysInAnyChunks(t *testing.T) {
	const l, heads, hd = 2*keyBlock + 70, 2, 3
	o := engine.AttentionOptions{Heads: heads, KVHeads: 1}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
		whole := newSequence(p, 5, l, o.Packed()*hd).chunks(o, l)
		cuts := [][]int{{512}, {keyBlock - 20, 100, 777}}
		if p == engine.Int8 { // also single queries
			cuts = append(cuts, []int{keyBlock - 1, 1, 1, 30, 1, keyBlock - 70, 1})
		}
		for _, lens := range cuts {
			t.Run(fmt.Sprint(p, lens), func(t *testing.T) {
				if !slices.Equal(newSequence(p, 5, l, o.Packed()*hd).chunks(o, lens...), whole) {
					t.Error("it gives other bits than at once")
				}
			})
		}
	}
}

// TestRowsOfAnyAge checks that sequences of any ages, some with one query and some with a chunk of a prompt, give the
// same bits in one call as each by itself, in any order.
func TestRowsOfAnyAge(t *testing.T) {
	ages := []int{0, 1, 3100, 63, 64, 65, 0, 200, 500}
	lens := []int{1, 1, 1, 1, 1, 130, 70, 2, 1}
	for name, v := range cacheVariants() {
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
			t.Run(fmt.Sprint(name, "/", p), func(t *testing.T) {
				var all []*sequence
				for i, age := range ages {
					s := v.sequence(p, uint64(i), age+lens[i])
					if age > 0 {
						attend(v.o, []int{age}, s)
					}
					all = append(all, s)
				}
				var want [][]float32
				for i, s := range all {
					want = append(want, attend(v.o, lens[i:i+1], s.fork())[0])
				}
				for _, order := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8}, {5, 8, 2, 7, 0, 6, 4, 1, 3}} {
					var rows []*sequence
					var n []int
					for _, i := range order {
						rows, n = append(rows, all[i].fork()), append(n, lens[i])
					}
					for k, y := range attend(v.o, n, rows...) {
						if !slices.Equal(y, want[order[k]]) {
							t.Errorf("row %d at place %d has other bits than alone", order[k], k)
						}
					}
				}
			})
		}
	}
}

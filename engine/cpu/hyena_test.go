//go:build todo

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

// TestConvCacheAnyChunking: chunks that are appended in place give what the whole sequence does, whatever the window, and what is
// kept is the last inputs.
func TestConvCacheAnyChunking(t *testing.T) {
	const b, d, l = 2, 3, 700
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(shape ...int) *tensor.Tensor {
		x := tensor.New(shape...)
		for i := range x.Data() {
			x.Data()[i] = float32(rng.NormFloat64())
		}
		return x
	}
	u, skip := random(b, l, d), random(d)
	for _, window := range []int{1, 2, 63, 64, 130, l, 4 * l} {
		t.Run(fmt.Sprint("window=", window), func(t *testing.T) {
			k, tape := random(min(window, l), d), NewTape()
			want := tape.LongConv(u, k, skip).Data()
			scale := float64(slices.Max(want))
			for _, chunks := range [][]int{{1}, {7}, {directUpTo, 1}, {200, 3, 150}, {l}} {
				c := engine.ConvCache{Window: window}
				for lo, i := 0, 0; lo < l; i++ {
					n := min(l-lo, chunks[i%len(chunks)])
					part := tape.Positions(u, lo, n)
					y := tape.CachedLongConv(part, k, skip, &c)
					for s := range b {
						for j, v := range y.Data()[s*n*d:][:n*d] {
							if w := want[(s*l+lo)*d+j]; math.Abs(float64(v-w)) > 3e-6*scale {
								t.Fatalf("chunks %v: y[%d, %d] = %g, want %g", chunks, s, lo+j/d, v, w)
							}
						}
					}
					lo += n
					if c.Past() != min(lo, window-1) {
						t.Fatalf("chunks %v: after %d positions it keeps %d", chunks, lo, c.Past())
					}
					if room := c.U.Dim(1) - ahead(); room > max(64, 2*window+n, 2*lo) {
						t.Fatalf("chunks %v: room for %d positions after %d", chunks, room, lo)
					}
				}
				if past := c.Past(); past > 0 {
					if got, wantU := c.Clone().U.Data(), tape.Positions(u, l-past, past).Data(); !slices.Equal(got, wantU) {
						t.Fatalf("chunks %v: it does not keep the last inputs", chunks)
					}
				}
			}
		})
	}
}

// TestConvCacheClone: a copy, and one that only its inputs are left of, go on with the same bits, wherever in a block they were taken;
// another kernel is seen at once.
func TestConvCacheClone(t *testing.T) {
	const b, d, l, more = 2, 5, 300, 70
	tape := NewTape()
	in := tensors(row{}.inputs([][]int{{b, l + more, d}, {l + more + ahead(), d}, {l + more + ahead(), d}, {d}}, 1))
	u, k, other, skip := in[0], in[1], in[2], in[3]
	goOn := func(c *engine.ConvCache, k *tensor.Tensor, from, to int) (y []float32) {
		for i := from; i < to; i++ {
			y = append(y, tape.CachedLongConv(tape.Positions(u, i, 1), k, skip, c).Data()...)
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
		whole := tape.LongConv(u, other, skip).Data()
		for i, v := range goOn(&changed, other, at, at+1) {
			if w := whole[(i/d*(l+more)+at)*d+i%d]; math.Abs(float64(v-w)) > 1e-4 {
				t.Errorf("after %d positions with another kernel y is %g, want %g", at, v, w)
			}
		}
	}
}

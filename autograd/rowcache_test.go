package autograd_test

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// cachedRows is an operation over a single row with caches.
type cachedRows struct {
	name   string
	widths []int // widths of the inputs along the sequence
	caches int
	op     func(t *autograd.Tape, x ts, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor
}

// allCachedRows returns the operations that use row caches, for sequences of up to n positions.
func allCachedRows(n int) []cachedRows {
	params := (&row{}).tensors([][]int{{9}, {n, n}, {n}, {2, 3}, {2, 3}},
		(&row{}).random([][]int{{9}, {n, n}, {n}, {2, 3}, {2, 3}}, 8))
	one := func(c *engine.RowCache) []*engine.RowCache { return []*engine.RowCache{c} }
	return []cachedRows{
		{"SquaredReLUAttention", []int{3, 3, 4}, 2,
			func(t *autograd.Tape, x ts, r *engine.Rows, c []*engine.RowCache) *tensor.Tensor {
				return t.SquaredReLUAttention(x[0], x[1], x[2], params[0], r, one(c[0]), one(c[1]))
			}},
		{"SpatialMix", []int{3}, 1,
			func(t *autograd.Tape, x ts, r *engine.Rows, c []*engine.RowCache) *tensor.Tensor {
				return t.SpatialMix(x[0], params[1], params[2], r, one(c[0]))
			}},
		{"BucketAttention", []int{6, 12}, 2,
			func(t *autograd.Tape, x ts, r *engine.Rows, c []*engine.RowCache) *tensor.Tensor {
				p := engine.BucketParams{NullK: params[3], NullV: params[4]}
				o := engine.BucketOptions{Heads: 2, Bucket: 24, Top: 2, Temperature: 0.75}
				cache := &engine.BucketCache{Q: c[0], KV: c[1], Sums: &engine.BucketSums{}}
				return t.BucketAttention(x[0], x[1], p, o, r, []*engine.BucketCache{cache})
			}},
	}
}

// run returns the results of the positions from start on, in chunks, and updates the caches. Chunk i is recorded if
// records(i) is true.
func (c *cachedRows) run(caches []*engine.RowCache, in [][]float64, start int, chunks []int,
	b engine.Backend, records func(i int) bool) (y []float32) {
	for i, n := range chunks {
		tape := autograd.NewTape(b)
		tape.Record(records(i))
		x := make(ts, len(in))
		for k, w := range c.widths {
			part := make([]float32, n*w)
			for j := range part {
				part[j] = float32(in[k][start*w+j])
			}
			x[k] = tensor.FromSlice(part, n, w)
		}
		r := &engine.Rows{}
		r.Add(n, start)
		y = append(y, numbers(c.op(tape, x, r, caches))...)
		if records(i) { // as between steps of training
			for _, cache := range caches {
				cache.Detach()
			}
		}
		tape.Reset()
		start += n
	}
	return y
}

// TestRowCachesInChunks checks that a sequence longer than a page has the same results in chunks, recorded or not, as
// in one call. Clones of the caches continue with the same bits, and so do caches that were saved.
func TestRowCachesInChunks(t *testing.T) {
	const n, ahead = 300, 20
	for _, c := range allCachedRows(n + ahead) {
		for engine, b := range engines {
			c.inChunks(t, engine, b, n, ahead)
		}
	}
}

func (c *cachedRows) inChunks(t *testing.T, name string, b engine.Backend, n, ahead int) {
	never, always := func(int) bool { return false }, func(int) bool { return true }
	newCaches := func() []*engine.RowCache {
		return ramp(c.caches, func(int) *engine.RowCache { return &engine.RowCache{} })
	}
	in := (&row{}).random(ramp(len(c.widths), func(i int) []int { return []int{n + ahead, c.widths[i]} }), 2)
	whole := c.run(newCaches(), in, 0, []int{n + ahead}, b, always)
	for _, chunks := range [][]int{{n}, {127, 1, 1, 1, 100, 70}, {1, 250, 49}} {
		for when, records := range map[string]func(int) bool{
			"never": never, "always": always, "at times": func(i int) bool { return i%2 == 1 },
		} {
			t.Run(fmt.Sprintf("%s/%s/%v/recorded %s", c.name, name, chunks, when), func(t *testing.T) {
				caches := newCaches()
				y := c.run(caches, in, 0, chunks, b, records)
				clones := ramp(c.caches, func(i int) *engine.RowCache { c := caches[i].Clone(); return &c })
				saved := newCaches()
				for i := range saved {
					saved[i].Fill(caches[i].Rows())
				}
				rest := []int{1, ahead - 1}
				next := c.run(caches, in, n, rest, b, never)
				want := ramp(len(whole), func(i int) float64 { return float64(whole[i]) })
				near(t, "the whole", append(y, next...), want, 2e-5)
				for what, others := range map[string][]*engine.RowCache{"a clone": clones, "what is saved": saved} {
					if !same([][]float32{c.run(others, in, n, rest, b, never)}, [][]float32{next}) {
						t.Errorf("%s goes on with other bits", what)
					}
				}
			})
		}
	}
}

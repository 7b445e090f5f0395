package autograd_test

import (
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// bucketVariant is a shape of BucketAttention with its options.
type bucketVariant struct {
	name           string
	lens           []int
	keeps          []bool
	past           int // positions in the caches of rows that have one
	heads, hd      int
	bucket, top    int
	linear         int // number of candidates of the linear sort net; 0 compares summaries instead
	ahead, slipped bool
	big            []int // lengths of the rows at the large shape
	bigKeeps       []bool
	bigPast        int
}

func (v *bucketVariant) sequences() sequences {
	d := v.heads * v.hd
	s := sequences{name: "BucketAttention/" + v.name, lens: v.lens, keeps: v.keeps,
		starts: behindPast(v.lens, v.keeps, v.past), along: []int{d, 2 * d},
		params: [][]int{{v.heads, v.hd}, {v.heads, v.hd}, {v.heads, 2 * v.hd, max(v.linear, 1)}},
		states: [][]int{{v.past, d}, {v.past, 2 * d}}}
	o := engine.BucketOptions{Heads: v.heads, Bucket: v.bucket, Top: v.top, Temperature: 0.75, Ahead: v.ahead,
		KeysAsValues: v.slipped}
	s.op = func(t *autograd.Tape, x, params ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		p := engine.BucketParams{NullK: params[0], NullV: params[1]}
		if v.ahead {
			p.NullK, p.NullV = nil, nil
		}
		if v.linear > 0 {
			p.Sort = params[2]
		}
		return withRowCaches(states, 2, func(c [][]*engine.RowCache) *tensor.Tensor {
			caches := make([]*engine.BucketCache, r.Count())
			for i := range caches {
				if c[0][i] != nil {
					caches[i] = &engine.BucketCache{Q: c[0][i], KV: c[1][i], Sums: &engine.BucketSums{}}
				}
			}
			return t.BucketAttention(x[0], x[1], p, o, r, caches)
		})
	}
	return s
}

func init() {
	registerSequences(func() []sequences {
		var all []sequences
		equal, mixed := slices.Repeat([]int{240}, 4), []int{240, 1, 130, 77}
		some := []bool{true, true, false, true}
		for _, v := range []bucketVariant{
			{name: "compare", lens: []int{11, 11}, bucket: 3, top: 2, big: equal},
			{name: "compare_past", lens: []int{4, 4}, keeps: []bool{true, true}, past: 7, bucket: 3, top: 1,
				big: mixed, bigKeeps: some, bigPast: 150},
			{name: "compare_short", lens: []int{2}, bucket: 4, top: 2, big: mixed},
			{name: "compare_one", lens: []int{1}, keeps: []bool{true}, past: 6, bucket: 3, top: 2, big: mixed},
			{name: "compare_ages", lens: []int{1, 5, 2}, keeps: []bool{true, false, true}, past: 5, bucket: 3, top: 2,
				big: mixed, bigKeeps: some, bigPast: 129},
			{name: "linear", lens: []int{10, 10}, bucket: 3, top: 1, linear: 6, big: slices.Repeat([]int{10}, 4)},
			{name: "linear_ages", lens: []int{1, 7, 4}, keeps: []bool{true, false, true}, past: 5, bucket: 3, top: 1,
				linear: 6, big: []int{10, 1, 4, 8}, bigKeeps: []bool{false, true, true, false}, bigPast: 6},
			{name: "compare_ahead", lens: []int{12, 6}, bucket: 3, top: 2, ahead: true, big: equal},
			{name: "linear_ahead_slipped", lens: []int{12, 12}, bucket: 3, top: 1, linear: 4, ahead: true,
				slipped: true, big: slices.Repeat([]int{12}, 4)},
		} {
			v.heads, v.hd = 2, 2
			s, large := v.sequences(), v
			large.lens, large.keeps, large.past, large.hd = v.big, v.bigKeeps, v.bigPast, 64
			big := large.sequences()
			s.big = &big
			all = append(all, s)
		}
		return all
	})
}

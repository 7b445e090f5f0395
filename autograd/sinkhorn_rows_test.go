//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// sinkhornVariant is a shape of SinkhornAttention with what it is asked for.
type sinkhornVariant struct {
	name           string
	b, n, l        int
	heads, hd      int
	bucket, top    int
	linear         int // candidates that the linear sort net knows, 0 to compare
	ahead, slipped bool
}

func (v sinkhornVariant) options() engine.SinkhornOptions {
	return engine.SinkhornOptions{Heads: v.heads, Bucket: v.bucket, Top: v.top, Temperature: 0.75, Ahead: v.ahead, KeysAsValues: v.slipped}
}

// sinkhornRows cover SinkhornAttention.
func sinkhornRows() []row {
	var all []row
	for _, v := range []sinkhornVariant{
		{name: "compare", b: 2, n: 11, l: 11, heads: 2, hd: 2, bucket: 3, top: 2},
		{name: "compare_last", b: 2, n: 11, l: 4, heads: 2, hd: 2, bucket: 3, top: 1},
		{name: "compare_short", b: 1, n: 2, l: 2, heads: 2, hd: 2, bucket: 4, top: 2},
		{name: "linear", b: 2, n: 10, l: 10, heads: 2, hd: 2, bucket: 3, top: 1, linear: 6},
		{name: "compare_ahead", b: 1, n: 12, l: 12, heads: 2, hd: 2, bucket: 3, top: 2, ahead: true},
		{name: "linear_ahead_slipped", b: 2, n: 12, l: 12, heads: 2, hd: 2, bucket: 3, top: 1, linear: 4, ahead: true, slipped: true},
	} {
		shapes := func(b, n, heads, hd int) [][]int {
			d := heads * hd
			s := [][]int{{b, v.l, d}, {b, v.l, 2 * d}, {heads, hd}, {heads, hd}, {heads, 2 * hd, max(v.linear, 1)}, {b, n - v.l, d}, {b, n - v.l, 2 * d}}
			if v.l < n {
				return s
			}
			s[0][1], s[1][1] = n, n
			return s[:5]
		}
		r := row{name: "SinkhornAttention/" + v.name, in: shapes(v.b, v.n, v.heads, v.hd), big: shapes(4, 240, 2, 64)}
		switch {
		case v.linear > 0: // as many buckets as the sort net knows
			r.big = shapes(4, v.n, 2, 64)
		case v.ahead:
			r.big = shapes(4, 80*v.bucket, 2, 64)
		}
		r.op = func(t *autograd.Tape, in ts) ts {
			p := engine.SinkhornParams{NullK: in[2], NullV: in[3]}
			if v.ahead {
				p.NullK, p.NullV = nil, nil
			}
			if v.linear > 0 {
				p.Sort = in[4]
			}
			var c *engine.SinkhornCache
			if v.l < v.n {
				c = &engine.SinkhornCache{Q: &engine.RowCache{X: in[5], Len: in[5].Dim(1)}, KV: &engine.RowCache{X: in[6], Len: in[6].Dim(1)}, Sums: &engine.SinkhornSums{}}
			}
			return ts{t.SinkhornAttention(in[0], in[1], c, p, v.options())}
		}
		all = append(all, r)
	}
	return all
}

func init() {
	register(sinkhornRows)
}

//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// transformed is a length from which on the CPU's engine convolves by transforms: it does from 97.
const transformed = 100

// longConvRows cover GatedLongConv: inputs v, k, D, q, k.
func longConvRows() []row {
	shapes := func(b, l, taps, d int) [][]int {
		return [][]int{{b, l, d}, {taps, d}, {d}, {b, l, d}, {b, l, d}}
	}
	build := func(name string, in, big [][]int, skip, q, k bool) row {
		r := row{name: "GatedLongConv/" + name, in: in, big: big}
		switch {
		case !skip:
			r.in, r.big = in[:2], big[:2]
		case !q && !k:
			r.in, r.big = in[:3], big[:3]
		}
		r.op = func(t *autograd.Tape, in ts) ts {
			g := engine.Gates{V: in[0]}
			if q {
				g.Q = in[3]
			}
			if k {
				g.K = in[4]
			}
			var through *tensor.Tensor
			if skip {
				through = in[2]
			}
			return ts{t.GatedLongConv(g, in[1], through)}
		}
		return r
	}
	const far = transformed
	whole := shapes(2, 300, 300, 40)
	return []row{
		build("plain", shapes(2, 9, 9, 3), whole, true, false, false),
		build("short_kernel", shapes(2, 11, 4, 2), shapes(2, 600, 9, 64), true, false, false),
		build("no_skip", shapes(1, 8, 8, 2), whole, false, false, false),
		build("two_tiles", shapes(2, 5, 5, 18), shapes(2, 400, 150, 18), true, false, false),
		build("one", shapes(1, 1, 1, 1), shapes(256, 1, 1, 512), true, false, false),
		build("long_kernel", shapes(1, 6, 9, 2), shapes(1, 200, 290, 33), true, false, false),
		build("transformed", shapes(1, far, far, 2), shapes(5, far, far, 17), true, false, false),
		build("transformed_short_kernel", shapes(1, far, far-1, 1), shapes(1, 500, far, 17), false, false, false),
		build("q", shapes(1, 7, 7, 2), shapes(2, 96, 96, 128), true, true, false),
		build("k", shapes(1, 7, 7, 2), shapes(2, 96, 96, 128), true, false, true),
		build("both", shapes(2, 7, 7, 2), shapes(2, 96, 96, 128), true, true, true),
		build("q_transformed", shapes(1, far, far, 1), whole, true, true, false),
		build("k_transformed", shapes(1, far, far, 1), whole, true, false, true),
		build("both_transformed", shapes(1, far, far, 2), whole, true, true, true),
	}
}

// cachedLongConvRows cover CachedLongConv: inputs u, k, D, those in the cache.
func cachedLongConvRows() []row {
	shapes := func(b, past, n, taps, d int) [][]int { return [][]int{{b, n, d}, {taps, d}, {d}, {b, past, d}} }
	build := func(name string, window int, in, big [][]int) row {
		return row{name: "CachedLongConv/" + name, in: in, big: big,
			op: func(t *autograd.Tape, in ts) ts {
				c := &engine.ConvCache{U: in[3], Len: in[3].Dim(1), Window: max(window, in[1].Dim(0))}
				y := t.CachedLongConv(in[0], in[1], in[2], c)
				return ts{y, t.Positions(c.U, c.Len-c.Past(), c.Past())}
			}}
	}
	return []row{
		build("plain", 400, shapes(2, 4, 5, 9, 3), shapes(2, 150, 200, 350, 40)),
		build("window", 0, shapes(2, 4, 3, 3, 2), shapes(2, 150, 90, 70, 64)),
		build("one", 20, shapes(1, 3, 1, 4, 2), shapes(4, 300, 1, 250, 256)),
		// not recorded, it is summed ahead
		build("one_of_many", 0, shapes(1, 140, 1, 141, 1), shapes(2, 300, 1, 300, 40)),
		build("transformed", 400, shapes(1, 60, 50, 110, 1), shapes(2, 60, 200, 260, 33)),
		{
			name: "CachedLongConv/chunks",
			in:   [][]int{{2, 7, 3}, {7, 3}, {3}}, big: [][]int{{2, 300, 40}, {300, 40}, {40}},
			op: func(t *autograd.Tape, in ts) ts {
				c, out := &engine.ConvCache{Window: in[1].Dim(0)}, ts{}
				for lo, hi := 0, 0; lo < in[0].Dim(1); lo = hi {
					hi = min(lo+(in[0].Dim(1)+2)/3, in[0].Dim(1))
					out = append(out, t.CachedLongConv(t.Positions(in[0], lo, hi-lo), in[1], in[2], c))
				}
				return out
			},
		},
	}
}

// bothWaysRows cover BothWays: inputs u, k, ahead, D.
func bothWaysRows() []row {
	shapes := func(b, l, taps, ahead, d int) [][]int { return [][]int{{b, l, d}, {taps, d}, {ahead, d}, {d}} }
	build := func(name string, in, big [][]int) row {
		return row{name: "BothWays/" + name, in: in, big: big,
			op: func(t *autograd.Tape, in ts) ts { return ts{t.BothWays(in[0], in[1], in[2], in[3])} }}
	}
	whole := shapes(2, 250, 250, 250, 37)
	return []row{
		build("plain", shapes(2, 9, 9, 9, 3), whole),
		build("short_kernels", shapes(2, 11, 4, 2, 2), shapes(2, 250, 100, 40, 37)),
		build("long_kernels", shapes(1, 6, 9, 8, 2), shapes(1, 200, 300, 210, 37)),
		build("two_tiles", shapes(2, 5, 5, 5, 18), whole),
		build("one", shapes(1, 1, 1, 1, 1), shapes(64, 1, 1, 1, 512)),
		build("two", shapes(1, 2, 2, 2, 1), shapes(32, 2, 2, 2, 512)),
		build("full", shapes(1, 16, 16, 16, 2), shapes(1, 256, 256, 256, 64)),
		{
			name: "BothWays/no_skip", in: [][]int{{2, 9, 3}, {9, 3}, {9, 3}}, big: whole[:3],
			op: func(t *autograd.Tape, in ts) ts { return ts{t.BothWays(in[0], in[1], in[2], nil)} },
		},
	}
}

// kernelRowsRows cover KernelRows of what is rows already; those of an engine's layout are with the systems that make
// them.
func kernelRowsRows() []row {
	return []row{{
		name: "KernelRows", in: [][]int{{2, 9, 3}, {9, 3}}, big: [][]int{{2, 300, 40}, {300, 40}},
		op: func(t *autograd.Tape, in ts) ts {
			return ts{t.GatedLongConv(engine.Gates{V: in[0]}, t.KernelRows(in[1], in[1].Dim(1)), nil)}
		},
	}}
}

func init() {
	register(longConvRows)
	register(cachedLongConvRows)
	register(bothWaysRows)
	register(kernelRowsRows)
}

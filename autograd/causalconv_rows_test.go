//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// causalConvRows cover CausalConv: inputs x, w, bias, state.
func causalConvRows() []row {
	build := func(name string, b, l, d, k int, bias, state bool, a engine.Activation) row {
		r := row{name: "CausalConv/" + name, in: [][]int{{b, l, d}, {d, 1, k}, {d}, {b, k - 1, d}},
			big: [][]int{{2, 700, 128}, {128, 1, k}, {128}, {2, k - 1, 128}}}
		r.op = func(t *autograd.Tape, in ts) ts {
			w, s := in[2], in[3]
			if !bias {
				w = nil
			}
			if !state {
				s = nil
			}
			y, next := t.CausalConv(in[0], in[1], w, s, a)
			if !state {
				return ts{y}
			}
			return ts{y, next}
		}
		return r
	}
	return []row{
		build("plain", 2, 6, 3, 4, true, false, engine.SiLU), build("state", 2, 6, 3, 4, true, true, engine.SiLU),
		build("shorter_than_the_taps", 2, 2, 3, 4, false, true, engine.None),
		build("one_tap", 1, 3, 2, 1, true, false, engine.SiLU),
	}
}

func init() {
	register(causalConvRows)
}

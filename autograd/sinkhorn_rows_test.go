package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

func init() {
	register(func() []row {
		balance := func(name string, rounds int, causal bool) row {
			o := engine.BalanceOptions{Heads: 2, Rounds: rounds, Causal: causal}
			return row{name: "SinkhornBalance/" + name, in: [][]int{{4, 2 * 5}}, big: [][]int{{48, 2 * 64}},
				op: func(t *autograd.Tape, x ts) ts { return ts{t.SinkhornBalance(x[0], o)} }}
		}
		mix := func(name string, in [][]int, heads int) row {
			return row{name: "MixBlocks/" + name, in: in, big: [][]int{{16 * 32, 128}, {16, heads * 16}},
				op: func(t *autograd.Tape, x ts) ts {
					block := 3
					if x[0].Rows()%block != 0 {
						block = 32
					}
					return ts{t.MixBlocks(x[0], x[1], heads, block)}
				}}
		}
		return []row{
			balance("plain", 5, false), balance("causal", 5, true),
			mix("plain", [][]int{{4 * 3, 6}, {2, 2 * 4}}, 2), mix("fewer", [][]int{{2 * 3, 4}, {3, 1 * 5}}, 1),
		}
	})
}

//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// linearAttentionRows cover every feature map, with and without a state: inputs q, k, v, and S and Z where there are
// such. The CPU's engine works by chunks of 64 positions.
func linearAttentionRows() []row {
	build := func(name string, phi engine.FeatureMap, b, l, heads, e, m int, state bool) row {
		shapes := func(b, l, heads, e, m int) [][]int {
			s := [][]int{{b, l, heads * e}, {b, l, heads * e}, {b, l, heads * m}}
			if state {
				s = append(s, []int{b, heads, e, m}, []int{b, heads, e})
			}
			return s
		}
		r := row{name: "LinearAttention/" + name, in: shapes(b, l, heads, e, m), big: shapes(3, 150, heads, 24, 20)}
		if state { // away from denominators near zero
			r.scale = []float64{1, 1, 1, 1, 0.2}
		}
		r.op = func(t *autograd.Tape, in ts) ts {
			o := engine.LinearOptions{Heads: heads, Phi: phi, Eps: 0.5}
			if !state {
				y, _ := t.LinearAttention(in[0], in[1], in[2], engine.LinearState{}, o)
				return ts{y}
			}
			y, next := t.LinearAttention(in[0], in[1], in[2], engine.LinearState{S: in[3], Z: in[4]}, o)
			return ts{y, next.S, next.Z}
		}
		return r
	}
	return []row{
		build("elu1", engine.ELU1, 2, 7, 2, 3, 4, false), build("relu", engine.ReLU, 1, 5, 1, 4, 3, false),
		build("relu2", engine.ReLU2, 1, 5, 1, 4, 3, false), build("softplus", engine.PhiSoftplus, 1, 5, 2, 4, 3, false),
		build("two_chunks", engine.ELU1, 1, 67, 1, 2, 1, false), build("state", engine.ELU1, 2, 3, 2, 3, 4, true),
		build("state_two_chunks", engine.ReLU, 1, 66, 1, 2, 1, true),
		build("state_one", engine.ELU1, 1, 1, 2, 2, 2, true),
	}
}

func init() {
	register(linearAttentionRows)
}

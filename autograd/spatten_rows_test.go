//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// spattenVariant is a shape of SpAtten with what it is asked for. past is where the chunk begins.
type spattenVariant struct {
	name              string
	b, l, past        int
	heads, hd, rotary int
	block, keep, left int
}

func (v spattenVariant) options() engine.SpAttenOptions {
	return engine.SpAttenOptions{Heads: v.heads, Rotary: engine.Rotary{Dim: v.rotary}, Block: v.block, Keep: v.keep, KeepHeads: v.left}
}

// spattenRows cover SpAtten.
func spattenRows() []row {
	var all []row
	for _, v := range []spattenVariant{
		{name: "plain", b: 2, l: 11, heads: 2, hd: 2, block: 3, keep: 4, left: 2},
		{name: "heads", b: 1, l: 10, heads: 3, hd: 2, rotary: 2, block: 2, keep: 3, left: 1},
		{name: "past", b: 2, l: 7, past: 4, heads: 2, hd: 2, rotary: 2, block: 3, keep: 3, left: 1},
		{name: "short", b: 1, l: 2, past: 1, heads: 2, hd: 2, block: 2, keep: 2, left: 2},
	} {
		o := v.options()
		shapes := func(b, l, heads, hd int) [][]int {
			s := [][]int{{b, l, 3 * heads * hd}}
			if v.past > 0 {
				s = append(s, []int{b, heads, o.Rows(), hd}, []int{b, heads, o.Rows(), hd})
			}
			return s
		}
		r := row{name: "SpAtten/" + v.name, in: shapes(v.b, v.l, v.heads, v.hd), big: shapes(4, 256, v.heads, 64)}
		r.op = func(t *autograd.Tape, in ts) ts {
			if v.past == 0 {
				y, _ := t.SpAtten(in[0], engine.SpAttenState{}, o)
				return ts{y}
			}
			b := in[0].Dim(0)
			importance, heads, position := v.start(b)
			state := engine.SpAttenState{K: in[1], V: in[2], Importance: tensor.FromSlice(importance, b, o.Rows()),
				Heads: tensor.FromSlice(heads, b, v.heads), Position: tensor.FromSlice(position, b, 2)}
			y, next := t.SpAtten(in[0], state, o)
			return ts{y, next.K, next.V}
		}
		all = append(all, r)
	}
	return all
}

// start is a state's importance of tokens and of heads, and its position, after past positions.
func (v spattenVariant) start(b int) (importance, heads, position []float32) {
	o := v.options()
	for range b {
		for i := range o.Rows() {
			x := float32(0)
			if i < o.Left(v.past) {
				x = float32(i*7%5) + 0.5
			}
			importance = append(importance, x)
		}
		for h := range v.heads {
			heads = append(heads, float32(2*v.heads-h))
		}
		position = append(position, 0, float32(v.past))
	}
	return importance, heads, position
}

func init() {
	register(spattenRows)
}

//go:build todo

package autograd_test

import (
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// attentionVariant is a shape of Attention with what it is asked for.
type attentionVariant struct {
	name                  string
	b, l, past, heads, hd int
	rotary                int
	xpos                  float64
	dropout               float64
	alibi                 bool
	window                int
	blocks                *engine.Blocks
	ahead                 bool
	lengths               []int
}

func (v attentionVariant) options() engine.AttentionOptions {
	return engine.AttentionOptions{Heads: v.heads, Rotary: engine.Rotary{Dim: v.rotary, XPos: v.xpos}, Dropout: v.dropout, ALiBi: v.alibi, Window: v.window, Blocks: v.blocks, Ahead: v.ahead, Lengths: v.lengths}
}

// row is the variant's row of the table.
func (v attentionVariant) row() row {
	d := v.heads * v.hd
	r := row{name: "Attention/" + v.name, in: [][]int{{v.b, v.l, 3 * d}}, big: [][]int{{2, 200, 3 * 64}}}
	if v.past > 0 {
		r.in = append(r.in, []int{v.b, v.heads, v.past, v.hd}, []int{v.b, v.heads, v.past, v.hd})
		r.big = append(r.big, []int{2, v.heads, 40, 64 / v.heads}, []int{2, v.heads, 40, 64 / v.heads})
	}
	if v.xpos > 0 { // keys grow without bound as ζ^(-position/xpos)
		r.big[0][1] = 64
	}
	r.op = func(t *autograd.Tape, in ts) ts {
		o := v.options()
		if v.dropout > 0 {
			t.Train(rand.New(rand.NewPCG(8, 9)))
		}
		if v.past == 0 {
			return ts{t.Attention(in[0], nil, o)}
		}
		c := &engine.KVCache{K: in[1], V: in[2], Len: in[1].Dim(2)}
		y := t.Attention(in[0], c, o)
		if !t.Recording() { // there may be room for more, and more than can still be seen
			if v.window > 0 {
				return ts{y}
			}
			k, w := c.Tensors(c.Len)
			return ts{y, k, w}
		}
		return ts{y, c.K, c.V}
	}
	return r
}

// attentionRows cover Attention.
func attentionRows() []row {
	var all []row
	for _, v := range []attentionVariant{
		{name: "plain", b: 2, l: 5, heads: 2, hd: 3},
		{name: "rotary", b: 1, l: 5, heads: 2, hd: 4, rotary: 2},
		{name: "two_tiles", b: 1, l: 64 + 3, heads: 1, hd: 2},
		{name: "two_tiles_past", b: 1, l: 64 + 21, past: 3, heads: 2, hd: 2, alibi: true, dropout: 0.2},
		{name: "xpos", b: 1, l: 5, past: 2, heads: 2, hd: 6, rotary: 4, xpos: 3},
		{name: "past", b: 2, l: 3, past: 4, heads: 2, hd: 2, rotary: 2},
		{name: "dropout", b: 1, l: 6, heads: 2, hd: 2, dropout: 0.3},
		{name: "alibi", b: 2, l: 5, heads: 4, hd: 2, alibi: true},
		{name: "alibi_past", b: 1, l: 3, past: 4, heads: 2, hd: 2, alibi: true},
		{name: "window", b: 1, l: 64 + 5, heads: 1, hd: 2, window: 3},
		{name: "window_past", b: 2, l: 4, past: 5, heads: 2, hd: 2, rotary: 2, window: 4},
		{name: "window_alibi", b: 1, l: 7, past: 1, heads: 2, hd: 2, alibi: true, window: 4},
		{name: "window_one", b: 1, l: 3, heads: 1, hd: 2, window: 1},
		{name: "blocks", b: 2, l: 17, heads: 2, hd: 2, blocks: &engine.Blocks{Size: 2, Window: 1, Global: 1, Random: 2, Seed: 1}},
		{name: "blocks_alibi_past", b: 1, l: 11, past: 7, heads: 2, hd: 2, alibi: true, blocks: &engine.Blocks{Size: 3, Global: 1, Random: 1}},
		{name: "ahead", b: 2, l: 64 + 3, heads: 2, hd: 2, rotary: 2, ahead: true},
		{name: "ahead_lengths", b: 2, l: 64 + 5, heads: 1, hd: 2, ahead: true, lengths: []int{64 + 1, 1}},
		{name: "ahead_dropout", b: 1, l: 6, heads: 2, hd: 2, ahead: true, dropout: 0.3},
		{name: "blocks_ahead", b: 1, l: 19, heads: 2, hd: 2, blocks: &engine.Blocks{Size: 2, Window: 1, Global: 1, Random: 2, Ahead: true}},
	} {
		all = append(all, v.row())
	}
	return all
}

func init() {
	register(attentionRows)
}

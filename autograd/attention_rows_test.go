package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// attentionVariant is a shape of Attention with its options.
type attentionVariant struct {
	name      string
	lens      []int
	keeps     []bool // rows that have a cache
	past      int    // number of positions in the cache
	first     int    // position of the first of these
	heads, hd int
	o         engine.AttentionOptions
}

// attentionSequences returns a variant as an operation over rows. Rows that have a cache begin after it, at a position
// that is not a multiple of a block. Others begin at 0.
func attentionSequences(v attentionVariant) sequences {
	v.o.Heads = v.heads
	kept := []int{v.o.KeyHeads(), v.past, v.hd}
	s := sequences{name: "Attention/" + v.name, lens: v.lens, keeps: v.keeps, along: []int{v.o.Packed() * v.hd},
		trains: v.o.Dropout > 0, states: [][]int{kept, kept}[:v.o.Kinds()]}
	for i := range v.lens {
		start := 0
		if s.keep(i) {
			start = v.first + v.past
			if v.o.Rotary.XPos == 0 { // keys grow without bound as ζ^(-position/xpos)
				start += 7 * i
			}
		}
		s.starts = append(s.starts, start)
	}
	s.op = func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		o := v.o
		caches := make([]*engine.KVCache, len(states))
		for i, s := range states {
			if s != nil {
				caches[i] = &engine.KVCache{K: s[0], Len: s[0].Dim(-2), KeysAsValues: o.KeysAsValues}
				if !o.KeysAsValues {
					caches[i].V = s[1]
				}
			}
		}
		y = ts{t.Attention(u[0], r, caches, o)}
		for _, c := range caches {
			var after ts
			switch {
			case c == nil:
			case t.Recording():
				after = ts{c.K, c.V}[:o.Kinds()]
			case o.Window == 0: // with a window, positions outside it have been removed
				k, v := c.Tensors(c.Len)
				after = ts{k, v}[:o.Kinds()]
			}
			next = append(next, after)
		}
		return y, next
	}
	return s
}

// attentionVariants returns variants that cover the options of Attention. Some of the rows have caches.
func attentionVariants() []attentionVariant {
	type o = engine.AttentionOptions
	some, all := []bool{true, false, true}, []bool{true, true}
	turned := engine.Rotary{Dim: 2}
	blocks := func(size, random int) *engine.Blocks {
		return &engine.Blocks{Size: size, Window: 1, Global: 1, Random: random, Seed: 1}
	}
	ahead := *blocks(2, 2)
	ahead.Ahead = true
	return []attentionVariant{
		{name: "plain", lens: []int{5, 5}, heads: 2, hd: 3},
		{name: "lengths", lens: []int{3, 1, 6}, heads: 2, hd: 2, o: o{Rotary: turned}},
		{name: "rotary", lens: []int{5}, heads: 2, hd: 4, o: o{Rotary: turned}},
		{name: "two_tiles", lens: []int{64 + 3}, heads: 1, hd: 2},
		{name: "two_tiles_past", lens: []int{64 + 21}, keeps: []bool{true}, past: 3, heads: 2, hd: 2,
			o: o{ALiBi: true, Dropout: 0.2}},
		{name: "xpos", lens: []int{5}, keeps: []bool{true}, past: 2, heads: 2, hd: 6,
			o: o{Rotary: engine.Rotary{Dim: 4, XPos: 3}}},
		{name: "yarn", lens: []int{5}, keeps: []bool{true}, past: 2, heads: 2, hd: 6,
			o: o{Rotary: engine.Rotary{Dim: 4, Base: 50, Scaling: engine.RotaryScaling{Kind: "yarn", Factor: 4,
				Original: 40, Low: 1, High: 8, Magnitude: 1.2}}}},
		{name: "past", lens: []int{3, 3}, keeps: all, past: 4, heads: 2, hd: 2, o: o{Rotary: turned}},
		{name: "ages", lens: []int{3, 2, 1}, keeps: some, past: 4, heads: 2, hd: 2, o: o{Rotary: turned}},
		{name: "step", lens: []int{1}, keeps: []bool{true}, past: 5, heads: 2, hd: 4, o: o{Rotary: turned}},
		{name: "dropout", lens: []int{6, 2}, heads: 2, hd: 2, o: o{Dropout: 0.3}},
		{name: "alibi", lens: []int{5, 5}, heads: 4, hd: 2, o: o{ALiBi: true}},
		{name: "alibi_past", lens: []int{3, 1, 2}, keeps: some, past: 4, heads: 2, hd: 2, o: o{ALiBi: true}},
		{name: "window", lens: []int{64 + 5}, heads: 1, hd: 2, o: o{Window: 3}},
		{name: "window_past", lens: []int{4, 4}, keeps: all, past: 5, heads: 2, hd: 2, o: o{Rotary: turned, Window: 4}},
		{name: "window_alibi", lens: []int{7}, keeps: []bool{true}, past: 1, heads: 2,
			hd: 2, o: o{ALiBi: true, Window: 4}},
		{name: "window_one", lens: []int{3, 1, 2}, keeps: some, past: 2, heads: 1, hd: 2, o: o{Window: 1}},
		{name: "blocks", lens: []int{17, 17}, heads: 2, hd: 2, o: o{Blocks: blocks(2, 2)}},
		{name: "blocks_alibi_past", lens: []int{11, 1, 4}, keeps: some, past: 7, heads: 2, hd: 2,
			o: o{ALiBi: true, Blocks: blocks(3, 1)}},
		{name: "shared", lens: []int{5, 5}, heads: 4, hd: 2, o: o{KVHeads: 2, Rotary: turned}},
		{name: "shared_past", lens: []int{3, 1, 2}, keeps: some, past: 4, heads: 4, hd: 2, o: o{KVHeads: 1,
			Scale: 0.4}},
		{name: "shared_tiles", lens: []int{64 + 3}, heads: 4, hd: 2, o: o{KVHeads: 2, Scale: 0.9, Dropout: 0.2}},
		{name: "shared_step", lens: []int{1}, keeps: []bool{true}, past: 5, heads: 4, hd: 4,
			o: o{KVHeads: 2, Rotary: turned}},
		{name: "shared_window", lens: []int{4, 4}, keeps: all, past: 5, heads: 4, hd: 2,
			o: o{KVHeads: 2, Rotary: turned, Window: 4}},
		{name: "latent", lens: []int{64 + 3, 2}, heads: 4, hd: 3, o: o{KVHeads: 1, KeysAsValues: true, Scale: 0.4}},
		{name: "latent_past", lens: []int{3, 1, 2}, keeps: some, past: 4, heads: 4, hd: 2,
			o: o{KVHeads: 2, KeysAsValues: true, Dropout: 0.2}},
		{name: "latent_step", lens: []int{1}, keeps: []bool{true}, past: 5, heads: 3, hd: 4,
			o: o{KVHeads: 1, KeysAsValues: true}},
		{name: "latent_window", lens: []int{4, 4}, keeps: all, past: 5, heads: 2, hd: 2,
			o: o{KeysAsValues: true, ALiBi: true, Window: 4}},
		{name: "ahead", lens: []int{64 + 3, 64 + 3}, heads: 2, hd: 2, o: o{Rotary: turned, Ahead: true}},
		{name: "ahead_lengths", lens: []int{64 + 1, 1}, heads: 1, hd: 2, o: o{Ahead: true}},
		{name: "ahead_dropout", lens: []int{6}, heads: 2, hd: 2, o: o{Ahead: true, Dropout: 0.3}},
		{name: "blocks_ahead", lens: []int{19}, heads: 2, hd: 2, o: o{Blocks: &ahead}},
	}
}

// large returns the variant at shapes that cores share: two rows of 200 positions if all small rows have the same
// length, else rows of different lengths, with single queries next to long chunks.
func (v attentionVariant) large() attentionVariant {
	equal := true
	for _, l := range v.lens {
		equal = equal && l == v.lens[0]
	}
	cached := v.keeps != nil
	v.lens, v.keeps, v.hd = []int{200, 200}, nil, 64/v.heads
	if v.o.Rotary.XPos > 0 {
		v.lens = []int{64, 64}
	}
	if !equal {
		v.lens = []int{1, 130, 64, 1, 65, 200}
	}
	if cached {
		v.past, v.keeps = 40, ramp(len(v.lens), func(i int) bool { return i != 2 })
	}
	return v
}

func init() {
	registerSequences(func() []sequences {
		var all []sequences
		for _, v := range attentionVariants() {
			s, big := attentionSequences(v), attentionSequences(v.large())
			s.big = &big
			all = append(all, s)
		}
		return all
	})
}

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// spattenVariant is a shape of SpAtten with its options. past is the number of positions before rows that have a state.
// Each of these rows ends a block, so that the places after the tokens, which are random before, are cleared.
type spattenVariant struct {
	name              string
	lens              []int
	keeps             []bool
	past              int
	heads, hd, rotary int
	block, keep, left int
	values            int
	cascade           bool
}

func (v *spattenVariant) options() engine.SpAttenOptions {
	rotary := engine.Rotary{Dim: v.rotary}
	return engine.SpAttenOptions{Heads: v.heads, Rotary: rotary, Block: v.block, Keep: v.keep, KeepHeads: v.left,
		Values: v.values, Cascade: v.cascade}
}

// above returns the pruning of the layer before: of 3 tokens the first after each block, and the first head after the
// second block.
func (v *spattenVariant) above(r *engine.Rows, states []*engine.SpAttenState) []engine.SpAttenRow {
	o := v.options()
	rows := make([]engine.SpAttenRow, r.Count())
	for i := range rows {
		start, l := 0, r.Len(i)
		if i < len(states) && states[i] != nil {
			start = v.past
		}
		row := engine.SpAttenRow{Block: o.Block, Left: o.Left(start)}
		for n, at := row.Left, start; ; {
			next := (at/o.Block + 1) * o.Block
			if next > start+l {
				break
			}
			cut := engine.SpAttenCut{Heads: []float32{2, 1}, Done: true}
			for j := range n + next - at {
				if j%3 == 0 {
					cut.To = append(cut.To, -1)
					continue
				}
				cut.To, cut.Importance = append(cut.To, int32(len(cut.Importance))),
					append(cut.Importance, float32(j*5%7)/4)
			}
			if len(row.Cuts) > 0 {
				cut.Heads[0] = -1
			}
			row.Cuts, n, at = append(row.Cuts, cut), len(cut.Importance), next
		}
		rows[i] = row
	}
	return rows
}

func (v *spattenVariant) sequences() sequences {
	o := v.options()
	tokens := []int{v.heads, o.Rows(), v.hd}
	s := sequences{name: "SpAtten/" + v.name, lens: v.lens, keeps: v.keeps, along: []int{3 * v.heads * v.hd},
		states: [][]int{tokens, tokens}, fixed: true}
	s.op = func(t *autograd.Tape, x, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		all := make([]*engine.SpAttenState, len(states))
		for i, s := range states {
			if s != nil {
				all[i] = v.state(s[0], s[1])
			}
		}
		if v.cascade {
			o.Above = v.above(r, all)
		}
		y = ts{t.SpAtten(x[0], o, r, all)}
		for _, s := range all {
			var after ts
			if s != nil {
				after = ts{s.K, s.V}
			}
			next = append(next, after)
		}
		return y, next
	}
	return s
}

// state returns a state with these keys and values after past positions.
func (v *spattenVariant) state(keys, values *tensor.Tensor) *engine.SpAttenState {
	o := v.options()
	importance := ramp(o.Rows(), func(i int) float32 {
		if i >= o.Left(v.past) {
			return 0
		}
		return float32(i*7%5) + 0.5
	})
	heads := ramp(v.heads, func(h int) float32 { return float32(2*v.heads - h) })
	places := ramp(o.Rows(), func(i int) float32 {
		if i >= o.Left(v.past) {
			return 0
		}
		return float32(i + 1)
	})
	s := &engine.SpAttenState{K: keys, V: values, Importance: tensor.FromSlice(importance, o.Rows()),
		Heads: tensor.FromSlice(heads, v.heads), Position: tensor.FromSlice([]float32{0, float32(v.past)}, 2)}
	if v.cascade {
		s.Places = tensor.FromSlice(places, o.Rows())
	}
	return s
}

func init() {
	registerSequences(func() []sequences {
		var all []sequences
		for _, v := range []spattenVariant{
			{name: "plain", lens: []int{11, 11}, block: 3, keep: 4, left: 2},
			{name: "heads", lens: []int{10}, heads: 3, rotary: 2, block: 2, keep: 3, left: 1},
			{name: "values", lens: []int{10}, rotary: 2, block: 3, keep: 4, left: 2, values: 2},
			{name: "past", lens: []int{7, 7}, keeps: []bool{true, true}, past: 5, rotary: 2, block: 3, keep: 3,
				left: 1},
			{name: "short", lens: []int{2}, keeps: []bool{true}, past: 1, block: 2, keep: 2, left: 2},
			{name: "one", lens: []int{1}, keeps: []bool{true}, past: 5, rotary: 2, block: 3, keep: 3, left: 1},
			{name: "ages", lens: []int{1, 7, 4}, keeps: []bool{true, false, true}, past: 5, rotary: 2, block: 3,
				keep: 3, left: 1},
			{name: "cascade", lens: []int{1, 7, 11}, keeps: []bool{true, false, true}, past: 5, rotary: 2, block: 3,
				keep: 3, left: 1, cascade: true},
		} {
			v.hd, v.heads = 2, max(v.heads, 2)
			s, large := v.sequences(), v
			large.hd, large.lens = 64, []int{256, 256, 256, 256}
			if v.keeps != nil {
				large.lens, large.keeps = []int{256, 1, 130, 77}, []bool{true, true, false, true}
			}
			big := large.sequences()
			s.big = &big
			all = append(all, s)
		}
		return all
	})
}

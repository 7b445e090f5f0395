package mixer

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestRestoreAtTheBounds checks that states of rows, blocks and positions accept only their own shapes, and that errors
// contain the shape found.
func TestRestoreAtTheBounds(t *testing.T) {
	rows := func() State { return newRowState([]string{"k", "v"}, 3, 5) }
	block := func() State {
		return variant{build: BlockRecurrentInfo.New, cfg: Config{NumHeads: 2,
			Options: Options{"block": "9", "rows": "3"}}}.mixer(t).NewState()
	}
	for _, c := range []struct {
		state func() State
		name  string
		shape []int
		want  bool
	}{
		{rows, "k", []int{1, 3}, true}, {rows, "k", []int{4, 3}, true}, {rows, "v", []int{4, 5}, true},
		{rows, "k", []int{1, 4, 3}, true}, {rows, "k", []int{0, 3}, false}, {rows, "k", []int{4, 5}, false},
		{rows, "k", []int{12}, false}, {rows, "k", []int{2, 4, 3}, false}, {rows, "x", []int{4, 3}, false},
		{block, "block", []int{1, 2 * dModel}, true}, {block, "block", []int{8, 2 * dModel}, true},
		{block, "block", []int{9, 2 * dModel}, false}, {block, "block", []int{0, 2 * dModel}, false},
		{block, "block", []int{3, dModel}, false}, {block, "block", []int{2 * dModel}, false},
		{block, "rows", []int{3, dModel}, true}, {block, "rows", []int{4, dModel}, false},
		{block, "qkv", []int{3, 3 * dModel}, true}, {block, "qkv", []int{3, dModel}, false},
		{block, "position", []int{1}, true}, {block, "position", []int{2}, false},
		{block, "k", []int{2, 3, dModel / 2}, true}, {block, "k", []int{2, 9, dModel / 2}, false},
	} {
		n := 1
		for _, k := range c.shape {
			n *= k
		}
		err := c.state().Restore(c.name, c.shape, make([]float32, n))
		if (err == nil) != c.want || err != nil && !strings.Contains(err.Error(), `"`+c.name+`"`) {
			t.Errorf("%s of shape %v: found the error %v", c.name, c.shape, err)
		}
	}
	if err := block().Restore("block", []int{9, 2 * dModel}, make([]float32, 18*dModel)); err == nil ||
		!strings.Contains(err.Error(), "want (1 to 8 positions, 16)") {
		t.Errorf("a whole block: found the error %v", err)
	}
	s := rows()
	for name, shape := range map[string][]int{"k": {4, 3}, "v": {4, 5}} {
		if err := s.Restore(name, shape, make([]float32, shape[0]*shape[1])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Restore("v", []int{3, 5}, make([]float32, 15)); err == nil ||
		!strings.Contains(err.Error(), `has 3 positions, want the 4 of "k"`) {
		t.Errorf("3 values for 4 keys: found the error %v", err)
	}
	for n, ok := range map[float32]bool{0: true, 1<<24 - 1: true, 1 << 24: false, -1: false} {
		if got, err := positions("start", []int{1}, []float32{n}); (err == nil) != ok || ok && got != int(n) {
			t.Errorf("position %v: found %d, %v", n, got, err)
		}
	}
	m := variant{build: WindowAttentionInfo.New, cfg: Config{NumHeads: 2, Options: Options{"window": "9"}}}.mixer(t)
	keys := m.NewState()
	if err := keys.Restore("k", []int{2, 3, 4}, make([]float32, 24)); err != nil {
		t.Fatal(err)
	}
	if err := keys.Restore("v", []int{2, 5, 4}, make([]float32, 40)); err == nil ||
		!strings.Contains(err.Error(), "has 5 positions, want the 3 of what is there") {
		t.Errorf("5 values for 3 keys: found the error %v", err)
	}
	hyena := variant{build: HyenaInfo.New, cfg: hyenaConfig("order", "4")}.mixer(t).NewState()
	if err := hyena.Restore("x", nil, nil); err == nil || !strings.Contains(err.Error(),
		"only short and long0 to long2") {
		t.Errorf("a part that there is not: found the error %v", err)
	}
}

// TestPagesOfStates checks that pages of keys and values are visited in attention, in sums of mixers, and in the window
// of a block recurrence, and that recurrences have none.
func TestPagesOfStates(t *testing.T) {
	for _, v := range variants() {
		m := v.mixer(t)
		_, s := chunked(m, sequences(1, 1, 6), []int{6}, never)
		count := func(states ...State) (n, seen int) {
			Pages(func(_ *engine.Page, bytes, of int) {
				n, seen = n+1, seen+of
				if bytes < of {
					t.Errorf("%s: a page has %d bytes, of which %d are seen", v.name, bytes, of)
				}
			}, states...)
			return n, seen
		}
		keys := 0
		s.states[0].Tensors(func(name string, x *tensor.Tensor) {
			if name == "k" || name == "v" {
				keys += 4 * x.Len()
			}
		})
		_, attends := m.(*Attention)
		_, latent := m.(*MLA)
		_, blocks := m.(*BlockRecurrent)
		if _, sorts := m.(*SparseSinkhorn); sorts {
			blocks = true
		}
		n, seen := count(s.states[0])
		if pages := attends || latent || blocks; (n == 1) != pages || pages && seen != keys {
			t.Errorf("%s: found %d pages of %d bytes, want keys and values of %d", v.name, n, seen, keys)
		}
		both := Together([]string{"a", "b"}, []State{s.states[0], newFixedState(nil)})
		if beside, _ := count(both, s.states[0]); beside != 2*n {
			t.Errorf("%s: beside another state and again there are %d pages, want %d", v.name, beside, 2*n)
		}
	}
}

// TestRecurrentStates checks that Recurrent holds for states of a fixed size, and for several that all are.
func TestRecurrentStates(t *testing.T) {
	fixed, grows := newFixedState([]string{"a"}, []int{2}), newRowState([]string{"k"}, 3)
	for _, c := range []struct {
		s    State
		want bool
	}{
		{fixed, true}, {grows, false}, {Together([]string{"a", "b"}, []State{fixed, fixed}), true},
		{Together([]string{"a", "b"}, []State{fixed, grows}), false},
		{Together([]string{"a", "b"}, []State{grows, grows}), false},
	} {
		if got := Recurrent(c.s); got != c.want {
			t.Errorf("%T is recurrent: %v", c.s, got)
		}
	}
}

// TestHeadsInside checks the numbers of heads and channels before the last projections.
func TestHeadsInside(t *testing.T) {
	want := map[string][2]int{"h3": {8, 8}, "h3_head_dim_2": {4, 8}, "h3_head_dim_8_hd": {1, 8}, "attention": {2, 8},
		"attention_shared": {4, 24}, "window_attention": {2, 8}, "bigbird": {2, 8}, "bucket_attention": {2, 8},
		"sparse_sinkhorn": {2, 8}, "spatten": {2, 8},
		"linear_attention": {2, 8}, "retention": {2, 8}, "block_recurrent": {4, 16}, "mamba2": {4, 16}, "mamba": {0,
			16},
		"s4": {0, 8}, "s4d_options": {0, 16}, "gau": {0, 16}, "gmlp": {0, 8}, "hyena": {0, 8}, "rnn": {0, 5},
		"lmu":          {0, 4},
		"rg_lru_width": {0, 6}, "gss": {0, 16}, "dss": {0, 8}, "gated_conv": {0, 8}}
	for _, v := range variants() {
		w, ok := want[v.name]
		if !ok {
			continue
		}
		delete(want, v.name)
		_, in, _ := Inside(v.mixer(t), "", nil)
		if in.Heads != w[0] || in.Channels != w[1] {
			t.Errorf("%s: %d heads and %d channels, want %v", v.name, in.Heads, in.Channels, w)
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no variants %v", want)
	}
	m := variant{build: HyenaInfo.New, cfg: hyenaConfig("l_max", "20")}.mixer(t)
	for l, taps := range map[int]int{5: 5, 20: 20, 30: 20} {
		if k := Responses(newTape(), m, l)[0]; k.Taps.Dim(0) != taps {
			t.Errorf("%d taps of Hyena's filter: found %d, want %d", l, k.Taps.Dim(0), taps)
		}
	}
	for d, want := range map[int]int{8: 4, 64: 32, 128: 64, 256: 64} { // a quarter of the inner channels, at most 64
		m, err := Mamba2Info.New(Config{DModel: d, DtMin: 0.1, DtMax: 0.1})
		if err != nil || m.(*Mamba2).opt.HeadDim != want {
			t.Errorf("Mamba-2 of %d channels: %v, %v, want heads of %d", d, m.(*Mamba2).opt.HeadDim, err, want)
		}
	}
	for _, states := range []int{0, 1, 5} {
		o := LMUInfo.Options(Config{DState: states}).(*lmuOptions)
		if o.Order != max(1, states) || o.Theta != 256 || o.Hidden != 0 {
			t.Errorf("an LMU of %d states: found %+v", states, *o)
		}
	}
	defer func() {
		if got, ok := recover().(string); !ok || !strings.Contains(got, "3 steps of time for 4 positions") {
			t.Errorf("found %v, want a panic on the number of steps", got)
		}
	}()
	r := equalRows(1, 4)
	r.Steps = []float32{1, 1, 1}
	r.stepped(newTape(), sequences(1, 1, 4))
}

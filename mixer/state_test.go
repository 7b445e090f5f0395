package mixer

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/hippo-ssm/hippo/tensor"
)

// next continues with three more positions and returns their y.
func next(s *several, seed uint64) []float32 {
	return read(s.forward(newTape(), sequences(seed, 2, 3)))
}

// TestStateClone checks that a clone and its original, continued alternately with different inputs, do not affect each
// other.
func TestStateClone(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			u := sequences(10, 2, 30)
			for _, record := range []func(int) bool{never, always} {
				want := func(first, second uint64) [2][]float32 {
					_, s := chunked(m, u, []int{7, 23}, record)
					next(s, 20)
					return [2][]float32{next(s, first), next(s, second)}
				}
				_, s := chunked(m, u, []int{7, 23}, record)
				next(s, 20) // attention now has space for more
				c := s.clone()
				var ofClone, ofOriginal [2][]float32
				for i, seeds := range [2][2]uint64{{21, 22}, {22, 21}} {
					ofClone[i] = next(c, seeds[0])
					ofOriginal[i] = next(s, seeds[1])
				}
				for i := range 2 {
					if !slices.Equal(ofClone[i], want(21, 22)[i]) {
						t.Errorf("turn %d: the clone goes on differently", i)
					}
					if !slices.Equal(ofOriginal[i], want(22, 21)[i]) {
						t.Errorf("turn %d: the original goes on differently", i)
					}
				}
			}
		})
	}
}

func sumOf(x []int) (sum int) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// TestStateRestore checks that restoring the tensors that Tensors visits gives an equal state.
func TestStateRestore(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			var s *several
			// including complete blocks of 9 and 23
			for _, lengths := range [][]int{{18, 9}, {6, 17, 23}, {1}, {7, 23}} {
				_, s = chunked(m, sequences(10, 2, sumOf(lengths)), lengths, never)
				c := s.restored(t)
				if c.size() != s.size() {
					t.Errorf("after %v it is %d bytes, the original %d", lengths, c.size(), s.size())
				}
				for seed := range uint64(3) {
					if !slices.Equal(next(c, seed), next(s, seed)) {
						t.Errorf("the state restored after %v goes on differently", lengths)
					}
				}
			}
			old := m.NewState()
			s.states[0].Tensors(func(name string, x *tensor.Tensor) {
				shape := x.Shape()
				if dims := len(shape); dims > 1 && dims < tensor.MaxDims { // as saved by earlier versions
					if err := old.Restore(name, append([]int{1}, shape...), read(x)); err != nil {
						t.Errorf("%s behind an axis of one sequence: %v", name, err)
					}
				}
				for _, bad := range []struct {
					name  string
					shape []int
					data  []float32
				}{
					{"nothing", shape, read(x)},
					{name, append([]int{2}, shape...), append(read(x), read(x)...)}, // two sequences
					{name, append(shape[:len(shape):len(shape)], 1), read(x)},
					{name, shape, read(x)[1:]},
				} {
					if err := m.NewState().Restore(bad.name, bad.shape, bad.data); err == nil {
						t.Errorf("%s of shape %v from %d values: no error", bad.name, bad.shape, len(bad.data))
					}
				}
			})
		})
	}
}

// TestStateSize checks that the size is that of the tensors, constant for recurrences and linear in the positions, or
// those in the window, for attention.
func TestStateSize(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			size := func(l int) int {
				_, s := chunked(m, sequences(10, 2, l), []int{l}, never)
				n := 0
				s.states[1].Tensors(func(_ string, x *tensor.Tensor) { n += 4 * x.Len() })
				if size := s.states[1].Size(); n != size {
					t.Errorf("after %d positions Size is %d, its tensors have %d bytes", l, size, n)
				}
				return n
			}
			start, one, many := m.NewState().Size(), size(1), size(100)
			if v.fixed && (start != many || one != many || many == 0) {
				t.Errorf("%d, %d, %d bytes after 0, 1, 100 positions, want a constant", start, one, many)
			}
			if v.fixed {
				return
			}
			kept, fixed := 100, 0 // number of positions that are kept, and bytes besides them
			switch m := m.(type) {
			case *Attention:
				if m.opt.Window > 0 {
					kept = m.opt.Window - 1
				}
			case *Hyena: // its filters' inputs, l_max-1 of the long ones
				kept, fixed = min(100, m.opt.LMax-1), start
			case *GAU:
				if m.form == "mixed" { // those of a chunk
					kept, fixed = 100%m.chunk, start
				}
			}
			var each int
			if m, ok := m.(*BlockRecurrent); ok { // half of it for the window, half for the incomplete block
				fixed, each = start, (one-start)/2
				kept = m.block - 1 + 100%m.block
			} else {
				each = one - fixed
			}
			want, growth := fixed+kept*each, 0
			// scores of each block; the window has its own block and the sorted one
			if m, ok := m.(*SparseSinkhorn); ok {
				columns := 4 * m.Columns.Weight.Dim(0)
				fixed, each = start, rowBytes(2*m.d)
				want = start + 100*each + (99/m.block+1)*columns
				if over := 100 % m.block; over > 0 {
					want += (m.block + over) * each
				}
				growth = (columns + m.block - 1) / m.block
			}
			if start != fixed || each == 0 || one <= start || many != want {
				t.Errorf("%d, %d, %d bytes after 0, 1, 100 positions, want %d, more and %d", start, one, many,
					fixed, want)
			}
			a, ok := m.(*Attention)
			if _, isBlocks := m.(*BlockRecurrent); isBlocks || ok && a.opt.Window > 0 || v.name == "gau_mixed" {
				each = 0 // limited
			}
			if got := m.Traits().Growth; got != each+growth {
				t.Errorf("it says that it grows by %d bytes a position, want %d", got, each+growth)
			}
		})
	}
}

// badScaling returns a change of a configuration to an invalid scaling of rotary positions.
func badScaling(dim int, kind string, pairs ...string) func(*Config) {
	return func(c *Config) {
		c.RotaryDim, c.Options = dim, Options{"rotary_scaling": kind}
		for i := 0; i < len(pairs); i += 2 {
			c.Options[pairs[i]] = pairs[i+1]
		}
	}
}

// TestBadConfigs checks that every mixer refuses invalid configurations, naming the field.
func TestBadConfigs(t *testing.T) {
	good := Config{DModel: 8, NLayer: 1, DState: 4, HeadDim: 2, DtMin: 0.1, DtMax: 0.1, Measure: "diag-lin",
		NumHeads: 2}
	for _, c := range []struct {
		name  string
		build func(Config) (Mixer, error)
		field string
		spoil func(*Config)
	}{
		{"h3", H3Info.New, "head_dim", func(c *Config) { c.HeadDim = 3 }},
		{"h3", H3Info.New, "head_dim", func(c *Config) { c.HeadDim = 0 }},
		{"h3", H3Info.New, "d_state", func(c *Config) { c.DState = 5 }},
		{"h3", H3Info.New, "d_state", func(c *Config) { c.DState = 0 }},
		{"h3", H3Info.New, "head_order", func(c *Config) { c.HeadOrder = "x" }},
		{"h3", H3Info.New, "measure", func(c *Config) { c.Measure = "x" }},
		{"h3", H3Info.New, "dt_min", func(c *Config) { c.DtMin = 0 }},
		{"h3", H3Info.New, "dt_min", func(c *Config) { c.DtMin = 1 }},
		{"attention", AttentionInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"attention", AttentionInfo.New, "num_heads", func(c *Config) { c.NumHeads = 0 }},
		{"attention", AttentionInfo.New, "rotary_emb_dim", func(c *Config) { c.RotaryDim = 3 }},
		{"attention", AttentionInfo.New, "rotary_emb_dim", func(c *Config) { c.RotaryDim = 6 }},
		{"attention", AttentionInfo.New, "rotary_emb_dim", func(c *Config) { c.RotaryDim = -2 }},
		{"attention", AttentionInfo.New, "alibi",
			func(c *Config) { c.RotaryDim, c.Options = 2, Options{"alibi": "true"} }},
		{"attention", AttentionInfo.New, "xpos", func(c *Config) { c.Options = Options{"xpos": "512"} }},
		{"attention", AttentionInfo.New, "rotary_scaling", badScaling(2, "dynamic", "rotary_factor", "2")},
		{"attention", AttentionInfo.New, "rotary_scaling", badScaling(0, "linear", "rotary_factor", "2")},
		{"attention", AttentionInfo.New, "rotary_scaling", badScaling(2, "", "rotary_factor", "2")},
		{"attention", AttentionInfo.New, "rotary_factor", badScaling(2, "linear", "rotary_factor", "0.5")},
		{"attention", AttentionInfo.New, "rotary_factor", badScaling(2, "linear", "rotary_factor", "NaN")},
		{"attention", AttentionInfo.New, "rotary_original", badScaling(2, "llama3", "rotary_factor", "2")},
		{"attention", AttentionInfo.New, "rotary_low", badScaling(2, "llama3", "rotary_factor", "2",
			"rotary_original", "9", "rotary_low", "4")},
		{"attention", AttentionInfo.New, "rotary_base", badScaling(2, "yarn", "rotary_factor", "2",
			"rotary_original", "9", "rotary_base", "1")},
		{"attention", AttentionInfo.New, "rotary_magnitude", badScaling(2, "yarn", "rotary_factor", "2",
			"rotary_original", "9", "rotary_magnitude", "Inf")},
		{"attention", AttentionInfo.New, "rotary_divisors", badScaling(2, "divided", "rotary_divisors", "1:2")},
		{"attention", AttentionInfo.New, "rotary_divisors", badScaling(2, "divided", "rotary_divisors", "0")},
		{"attention", AttentionInfo.New, "rotary_divisors", badScaling(2, "divided")},
		{"attention", AttentionInfo.New, "xpos", badScaling(2, "linear", "rotary_factor", "2", "xpos", "9")},
		{"gated-attention", GatedAttentionInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"mla", MLAInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"mla", MLAInfo.New, "rotary_emb_dim", func(c *Config) { c.RotaryDim = 3 }},
		{"mla", MLAInfo.New, "rotary_scaling", badScaling(2, "dynamic", "rotary_factor", "2")},
		{"window-attention", WindowAttentionInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"window-attention", WindowAttentionInfo.New, "window", func(c *Config) { c.Options = Options{"window": "0"} }},
		{"window-attention", WindowAttentionInfo.New, "blocks", func(c *Config) { c.Options = Options{"blocks": "1"} }},
		{"bigbird", BigBirdInfo.New, "rotary_emb_dim", func(c *Config) { c.RotaryDim = 3 }},
		{"bigbird", BigBirdInfo.New, "block", func(c *Config) { c.Options = Options{"block": "0"} }},
		{"bigbird", BigBirdInfo.New, "window", func(c *Config) { c.Options = Options{"window": "-1"} }},
		{"bigbird", BigBirdInfo.New, "global", func(c *Config) { c.Options = Options{"global": "-1"} }},
		{"bigbird", BigBirdInfo.New, "random", func(c *Config) { c.Options = Options{"random": "9999"} }},
		{"bigbird", BigBirdInfo.New, "alibi",
			func(c *Config) { c.Options = Options{"alibi": "true", "bidirectional": "true"} }},
		{"spatten", SpAttenInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"spatten", SpAttenInfo.New, "block", func(c *Config) { c.Options = Options{"block": "0"} }},
		{"spatten", SpAttenInfo.New, "keep", func(c *Config) { c.Options = Options{"keep": "-1"} }},
		{"spatten", SpAttenInfo.New, "keep_heads", func(c *Config) { c.Options = Options{"keep_heads": "3"} }},
		{"bucket-attention", BucketAttentionInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"bucket-attention", BucketAttentionInfo.New, "bucket", func(c *Config) { c.Options = Options{"bucket": "0"} }},
		{"bucket-attention", BucketAttentionInfo.New, "top", func(c *Config) { c.Options = Options{"top": "8"} }},
		{"bucket-attention", BucketAttentionInfo.New, "temperature",
			func(c *Config) { c.Options = Options{"temperature": "0"} }},
		{"bucket-attention", BucketAttentionInfo.New, "sort_net",
			func(c *Config) { c.Options = Options{"sort_net": "x"} }},
		{"bucket-attention", BucketAttentionInfo.New, "l_max", func(c *Config) { c.Options = Options{"l_max": "65"} }},
		{"bucket-attention", BucketAttentionInfo.New, "keys_as_values",
			func(c *Config) { c.Options = Options{"keys_as_values": "true"} }},
		{"linear-attention", LinearAttentionInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"linear-attention", LinearAttentionInfo.New, "feature_map",
			func(c *Config) { c.Options = Options{"feature_map": "x"} }},
		{"s4d", S4DInfo.New, "d_state", func(c *Config) { c.DState = 1 }},
		{"s4d", S4DInfo.New, "measure", func(c *Config) { c.Measure = "" }},
		{"s4d", S4DInfo.New, "dt_min", func(c *Config) { c.DtMax = -1 }},
		{"s4d", S4DInfo.New, "disc", func(c *Config) { c.Options = Options{"disc": "x"} }},
		{"s4d", S4DInfo.New, "channels", func(c *Config) { c.Options = Options{"channels": "0"} }},
		{"s4d", S4DInfo.New, "d_state", func(c *Config) { c.Options = Options{"real": "true", "d_state": "4096"} }},
		{"gmlp", GMLPInfo.New, "l_max", func(c *Config) { c.Options = Options{"l_max": "0"} }},
		{"gmlp", GMLPInfo.New, "expand", func(c *Config) { c.DModel, c.Options = 7, Options{"expand": "1"} }},
		{"gau", GAUInfo.New, "query_dim", func(c *Config) { c.Options = Options{"query_dim": "0"} }},
		{"block-recurrent", BlockRecurrentInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"block-recurrent", BlockRecurrentInfo.New, "block", func(c *Config) { c.Options = Options{"block": "0"} }},
		{"rg-lru", RGLRUInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"rg-lru", RGLRUInfo.New, "width", func(c *Config) { c.Options = Options{"width": "-1"} }},
		{"rg-lru", RGLRUInfo.New, "d_conv", func(c *Config) { c.Options = Options{"d_conv": "0"} }},
		{"mlstm", MLSTMInfo.New, "num_heads", func(c *Config) { c.NumHeads = 0 }},
		{"mlstm", MLSTMInfo.New, "qk_dim", func(c *Config) { c.Options = Options{"qk_dim": "3"} }},
		{"mlstm", MLSTMInfo.New, "v_dim", func(c *Config) { c.Options = Options{"v_dim": "7"} }},
		{"mlstm", MLSTMInfo.New, "eps", func(c *Config) { c.Options = Options{"eps": "-1"} }},
		{"slstm", SLSTMInfo.New, "num_heads", func(c *Config) { c.NumHeads = 3 }},
		{"slstm", SLSTMInfo.New, "norm_eps", func(c *Config) { c.Options = Options{"norm_eps": "-1"} }},
		{"rnn", RNNInfo.New, "hidden", func(c *Config) { c.Options = Options{"hidden": "-1"} }},
		{"lmu", LMUInfo.New, "order", func(c *Config) { c.Options = Options{"order": "0"} }},
		{"lmu", LMUInfo.New, "theta", func(c *Config) { c.Options = Options{"theta": "0"} }},
		{"dss", DSSInfo.New, "version", func(c *Config) { c.Options = Options{"version": "x"} }},
		{"dss", DSSInfo.New, "d_state", func(c *Config) { c.DState = 4096 }},
		{"dss", DSSInfo.New, "dt_min", func(c *Config) { c.DtMin = 0 }},
		{"gss", GSSInfo.New, "bottleneck", func(c *Config) { c.Options = Options{"bottleneck": "3"} }},
		{"gss", GSSInfo.New, "d_state", func(c *Config) { c.DState = 3 }},
		{"s4", S4Info.New, "d_state", func(c *Config) { c.DState = 3 }},
		{"s4", S4Info.New, "dt_min", func(c *Config) { c.DtMin = 0 }},
		{"s4", S4Info.New, "measure", func(c *Config) { c.Options = Options{"measure": "x"} }},
		{"s4", S4Info.New, "measure", func(c *Config) { c.Options = Options{"measure": "lmu"} }},
		{"s4", S4Info.New, "l_max", func(c *Config) { c.Options = Options{"l_max": "0"} }},
		{"hyena", HyenaInfo.New, "order", func(c *Config) { c.Options = Options{"order": "1"} }},
		{"hyena", HyenaInfo.New, "l_max", func(c *Config) { c.Options = Options{"l_max": "0"} }},
		{"hyena", HyenaInfo.New, "emb_dim", func(c *Config) { c.Options = Options{"emb_dim": "4"} }},
		{"hyena", HyenaInfo.New, "filter_order", func(c *Config) { c.Options = Options{"filter_order": "-1"} }},
		{"hyena", HyenaInfo.New, "short_filter_order",
			func(c *Config) { c.Options = Options{"short_filter_order": "0"} }},
		{"hyena", HyenaInfo.New, "num_inner_mlps", func(c *Config) { c.Options = Options{"num_inner_mlps": "-1"} }},
		{"hyena", HyenaInfo.New, "target", func(c *Config) { c.Options = Options{"target": "1"} }},
		{"hyena", HyenaInfo.New, "fast_decay_pct", func(c *Config) { c.Options = Options{"fast_decay_pct": "2"} }},
		{"hyena", HyenaInfo.New, "d_state", func(c *Config) { c.Options = Options{"d_state": "2"} }},
		{"mamba", MambaInfo.New, "d_state", func(c *Config) { c.Options = Options{"d_state": "0"} }},
		{"mamba", MambaInfo.New, "d_conv", func(c *Config) { c.Options = Options{"d_conv": "0"} }},
		{"mamba", MambaInfo.New, "expand", func(c *Config) { c.Options = Options{"expand": "65"} }},
		{"mamba", MambaInfo.New, "dt_rank", func(c *Config) { c.Options = Options{"dt_rank": "17"} }},
		{"mamba", MambaInfo.New, "dt_min", func(c *Config) { c.DtMin = 0 }},
		{"mamba", MambaInfo.New, "headdim", func(c *Config) { c.Options = Options{"headdim": "4"} }},
		{"mamba2", Mamba2Info.New, "d_state", func(c *Config) { c.Options = Options{"d_state": "-1"} }},
		{"mamba2", Mamba2Info.New, "headdim", func(c *Config) { c.Options = Options{"headdim": "5"} }},
		{"mamba2", Mamba2Info.New, "ngroups", func(c *Config) { c.Options = Options{"ngroups": "3"} }},
		{"mamba3", Mamba3Info.New, "d_state", func(c *Config) { c.Options = Options{"d_state": "3"} }},
		{"mamba3", Mamba3Info.New, "expand", func(c *Config) { c.Options = Options{"expand": "0"} }},
		{"mamba3", Mamba3Info.New, "headdim", func(c *Config) { c.Options = Options{"headdim": "5"} }},
		{"mamba3", Mamba3Info.New, "ngroups", func(c *Config) { c.Options = Options{"ngroups": "3"} }},
		{"mamba3", Mamba3Info.New, "rope_fraction", func(c *Config) { c.Options = Options{"rope_fraction": "0"} }},
		{"mamba3", Mamba3Info.New, "mimo_rank", func(c *Config) { c.Options = Options{"mimo_rank": "65"} }},
		{"mamba3", Mamba3Info.New, "dt_min", func(c *Config) { c.DtMax = 0.01 }},
		{"mamba3", Mamba3Info.New, "norm_eps", func(c *Config) { c.Options = Options{"norm_eps": "0"} }},
		{"mamba2", Mamba2Info.New, "dt_min", func(c *Config) { c.DtMax = 0.01 }},
	} {
		if _, err := c.build(good); err != nil {
			t.Fatalf("%s: the good configuration: %v", c.name, err)
		}
		bad := good
		c.spoil(&bad)
		if _, err := c.build(bad); err == nil || len(err.Error()) < len(c.field) ||
			err.Error()[:len(c.field)] != c.field {
			t.Errorf("%s, %s spoiled: got error %v", c.name, c.field, err)
		}
	}
}

// TestClonesShareMemory checks that copies of recurrences share the original's memory until one of them changes. Only
// that one is then copied, to one piece of memory, and the last sharer changes in place.
func TestClonesShareMemory(t *testing.T) {
	states := []State{
		newFixedState([]string{"x", "y"}, []int{2, 3}, []int{32}),
		Together([]string{"a"}, []State{newFixedState([]string{"z"}, []int{17, 1})}),
		&attentionState{},
	}
	places := func(states []State) (at []*float32) {
		for _, x := range fixedTensors(nil, states) {
			at = append(at, &x.Data()[0])
		}
		return at
	}
	change := func(states []State, to float32) {
		eachFixed(states, func(s *fixedState) {
			s.own()
			for i := range s.slots {
				s.slots[i].X.Data()[1] = to
			}
		})
	}
	holds := func(states []State, want float32) {
		t.Helper()
		for _, x := range fixedTensors(nil, states) {
			if v := x.Data()[1]; v != want {
				t.Errorf("a state holds %v, want %v", v, want)
			}
		}
	}
	Begin(states...)
	change(states, 1)
	original := places(states)
	first := Clones(states)
	second := Clones(first)
	if at := places(append(first, second...)); !slices.Equal(at, append(original, original...)) {
		t.Error("copies have memory of their own before they change")
	}
	MakeRoom(nil, first...)
	change(first, 2)
	holds(states, 1)
	holds(first, 2)
	if at := places(first); slices.ContainsFunc(at, func(p *float32) bool { return slices.Contains(original, p) }) {
		t.Error("a copy changed the memory of the original")
	} else if d := distance(at[1], at[2]); d != 4*32 {
		t.Errorf("states of two layers are %d bytes apart, want them in one piece", d)
	}
	before := second[0].(*fixedState).slots[0].X
	if err := second[0].Restore("x", []int{2, 3}, []float32{0, 3, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if holds(states, 1); before.Data()[1] != 3 {
		t.Error("a tensor that was restored is another one")
	}
	if to := CopyTo(second, first); &to[1] == &second[1] {
		t.Error("a copy went to the memory of another state")
	} else {
		holds(states, 1)
		change(to, 4)
	}
	holds(states, 1)
	holds(first, 2)
	change(second, 5)
	change(states, 6)
	holds(second, 5)
	if !slices.Equal(places(states), original) {
		t.Error("a state that shares its memory no more was copied")
	}
	if to := CopyTo(second, states); !slices.Equal(places(to), places(second)) {
		t.Error("a copy did not go to memory that is free")
	}
	holds(second, 6)
}

// distance returns the number of bytes between two addresses.
func distance(a, b *float32) int { return int(uintptr(unsafe.Pointer(b)) - uintptr(unsafe.Pointer(a))) }

// TestBegin checks that a new state of a recurrence has no memory before Begin, which allocates zeros, once.
func TestBegin(t *testing.T) {
	for _, v := range variants() {
		s := v.mixer(t).NewState()
		for _, x := range fixedTensors(nil, []State{s}) {
			if x.Bytes() != 0 {
				t.Errorf("%s: %d bytes before Begin", v.name, x.Bytes())
			}
		}
		for _, x := range fixedTensors(nil, Begin(s)) {
			if x.Bytes() != 4*x.Len() || slices.ContainsFunc(read(x), func(v float32) bool { return v != 0 }) {
				t.Errorf("%s: %d bytes of shape %v, want zeros", v.name, x.Bytes(), x)
			}
		}
	}
}

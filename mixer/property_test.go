package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// The tests of this file check properties of every mixer, whatever it computes. Chunks of 24 positions and more are
// convolved. Shorter ones are stepped unless the tape records, so lengths around 24 compare the two.

const dModel = 8

type variant struct {
	name  string
	build func(Config) (Mixer, error)
	cfg   Config
	fixed bool // the size of the state is fixed
}

func variants() []variant {
	h3 := func(headDim int, order string) Config {
		return Config{DState: 6, HeadDim: headDim, HeadOrder: order}
	}
	return []variant{
		{"h3", H3Info.New, h3(1, "dh"), true},
		{"h3_head_dim_2", H3Info.New, h3(2, "dh"), true},
		{"h3_head_dim_2_hd", H3Info.New, h3(2, "hd"), true},
		{"h3_head_dim_8", H3Info.New, h3(8, "dh"), true},
		{"h3_head_dim_8_hd", H3Info.New, h3(8, "hd"), true},
		{"attention", AttentionInfo.New, Config{NumHeads: 2}, false},
		{"attention_rotary", AttentionInfo.New, Config{NumHeads: 2, RotaryDim: 2}, false},
		{"attention_shared", AttentionInfo.New, Config{NumHeads: 4, RotaryDim: 2, Options: Options{"kv_heads": "2",
			"head_dim": "6", "scale": "0.3", "rotary_base": "500", "bias": "false"}}, false},
		{"attention_qk_norm", AttentionInfo.New,
			Config{NumHeads: 4, Options: Options{"kv_heads": "1", "qk_norm": "true"}}, false},
		{"attention_yarn", AttentionInfo.New, Config{NumHeads: 2, RotaryDim: 4, Options: Options{
			"rotary_scaling": "yarn", "rotary_factor": "4", "rotary_original": "16", "rotary_base": "100"}}, false},
		{"gated_attention", GatedAttentionInfo.New, Config{NumHeads: 4, RotaryDim: 2, Options: Options{"kv_heads": "2",
			"head_dim": "6"}}, false},
		{"mla", MLAInfo.New, Config{NumHeads: 2, RotaryDim: 2}, false},
		{"mla_plain", MLAInfo.New, Config{NumHeads: 3, Options: Options{"qk_nope_head_dim": "4",
			"qk_rope_head_dim": "3", "v_head_dim": "5", "kv_lora_rank": "6", "q_lora_rank": "7"}}, false},
		{"window_attention_shared", WindowAttentionInfo.New, Config{NumHeads: 2, RotaryDim: 2,
			Options: Options{"window": "9", "kv_heads": "1", "out_bias": "false"}}, false},
		{"gated_conv", GatedConvInfo.New, Config{}, true},
		{"gated_conv_bias", GatedConvInfo.New, Config{Options: Options{"d_conv": "5", "bias": "true"}}, true},
		{"linear_attention", LinearAttentionInfo.New, Config{NumHeads: 2}, true},
		{"linear_attention_softplus", LinearAttentionInfo.New,
			Config{NumHeads: 1, Options: Options{"feature_map": "softplus"}}, true},
		{"retention", RetentionInfo.New, Config{NumHeads: 2}, true},
		{"retention_published", RetentionInfo.New, Config{NumHeads: 2, Options: Options{"published": "true"}}, true},
		{"attention_alibi", AttentionInfo.New, Config{NumHeads: 2, Options: Options{"alibi": "true"}}, false},
		{"attention_xpos", AttentionInfo.New, Config{NumHeads: 2, RotaryDim: 4, Options: Options{"xpos": "64"}}, false},
		{"window_attention", WindowAttentionInfo.New,
			Config{NumHeads: 2, RotaryDim: 2, Options: Options{"window": "9"}}, false},
		{"window_attention_alibi", WindowAttentionInfo.New,
			Config{NumHeads: 2, Options: Options{"window": "30", "alibi": "true"}}, false},
		{"bigbird", BigBirdInfo.New, Config{NumHeads: 2, Options: Options{"block": "4", "random": "2"}}, false},
		{"bigbird_rotary", BigBirdInfo.New,
			Config{NumHeads: 2, RotaryDim: 4, Options: Options{"block": "8", "random": "1", "window": "0"}}, false},
		{"bucket_attention", BucketAttentionInfo.New,
			Config{NumHeads: 2, Options: Options{"bucket": "8", "top": "2"}}, false},
		{"bucket_attention_simple", BucketAttentionInfo.New,
			Config{NumHeads: 4, Options: Options{"bucket": "5", "top": "1", "sort_net": "simple", "l_max": "250"}},
			false},
		{"sparse_sinkhorn", SparseSinkhornInfo.New, Config{NumHeads: 2, Options: Options{"block": "8", "l_max": "400"}},
			false},
		{"sparse_sinkhorn_rotary", SparseSinkhornInfo.New, Config{NumHeads: 4, RotaryDim: 2,
			Options: Options{"block": "5", "l_max": "400", "rounds": "2", "temperature": "2"}}, false},
		{"spatten", SpAttenInfo.New, Config{NumHeads: 2, Options: Options{"block": "8", "keep": "20"}}, true},
		{"spatten_heads", SpAttenInfo.New,
			Config{NumHeads: 4, RotaryDim: 2, Options: Options{"block": "16", "keep": "20", "keep_heads": "2"}}, true},
		{"spatten_values", SpAttenInfo.New,
			Config{NumHeads: 2, Options: Options{"block": "8", "keep": "20", "values": "6"}}, true},
		{"s4d", S4DInfo.New, Config{DState: 6}, true},
		{"s4d_rand", S4DInfo.New, Config{DState: 6, Measure: "diag-rand"}, true},
		{"mamba", MambaInfo.New, Config{Options: Options{"d_state": "5"}}, true},
		{"mamba2", Mamba2Info.New, Config{Options: Options{"d_state": "5", "headdim": "4"}}, true},
		{"mamba2_groups_norm_first", Mamba2Info.New,
			Config{Options: Options{"d_state": "3", "headdim": "4", "ngroups": "2", "norm_before_gate": "true"}}, true},
		{"mamba2_whole_norm", Mamba2Info.New, Config{Options: Options{"d_state": "3", "headdim": "4", "ngroups": "2",
			"grouped_norm": "false", "in_bias": "true", "dt_low": "0.01", "dt_high": "0.05"}}, true},
		{"mamba2_scales", Mamba2Info.New, Config{Options: Options{"d_state": "3", "headdim": "4", "d_inner": "12",
			"z_scale": "0.5", "x_scale": "2", "b_scale": "0.3", "c_scale": "3", "dt_scale": "0.7",
			"out_bias": "true"}}, true},
		{"mamba3", Mamba3Info.New, Config{Options: Options{"d_state": "4", "headdim": "4"}}, true},
		{"mamba3_groups", Mamba3Info.New, Config{Options: Options{"d_state": "6", "headdim": "4", "ngroups": "2",
			"rope_fraction": "1", "is_outproj_norm": "true"}}, true},
		{"mamba3_mimo", Mamba3Info.New, Config{Options: Options{"d_state": "4", "headdim": "4", "is_mimo": "true",
			"mimo_rank": "3"}}, true},
		{"mamba_rms", MambaInfo.New, Config{Options: Options{"d_state": "5", "bcdt_norm": "rms", "d_inner": "20"}},
			true},
		{"mamba_learned_norms", MambaInfo.New, Config{Options: Options{"d_state": "5", "bcdt_norm": "learned"}}, true},
		{"mamba2_no_norm", Mamba2Info.New,
			Config{Options: Options{"d_state": "2", "headdim": "16", "rmsnorm": "false"}}, true},
		{"mamba_bias_no_conv_bias", MambaInfo.New,
			Config{Options: Options{"d_state": "2", "d_conv": "2", "bias": "true", "conv_bias": "false"}}, true},
		{"s4d_options", S4DInfo.New,
			Config{DState: 6, Options: Options{"disc": "bilinear", "train_b": "true", "channels": "2"}}, true},
		{"s4d_softplus", S4DInfo.New, Config{DState: 6, Options: Options{"real_transform": "softplus"}}, true},
		{"s4d_no_gate", S4DInfo.New, Config{DState: 6, Options: Options{"gate": "false", "channels": "2"}}, true},
		{"s4d_real", S4DInfo.New, Config{DState: 4, Options: Options{"real": "true", "train_b": "true"}}, true},
		{"s4", S4Info.New, Config{DState: 6}, true},
		{"block_recurrent", BlockRecurrentInfo.New, Config{NumHeads: 2, Options: Options{"block": "9", "rows": "3"}},
			false},
		{"block_recurrent_rotary", BlockRecurrentInfo.New,
			Config{NumHeads: 2, RotaryDim: 4, Options: Options{"block": "23", "rows": "2"}}, false},
		{"mlstm", MLSTMInfo.New, Config{NumHeads: 2}, true},
		{"mlstm_wide", MLSTMInfo.New, Config{NumHeads: 3, Options: Options{"qk_dim": "6", "v_dim": "9",
			"gate_soft_cap": "0"}}, true},
		{"slstm", SLSTMInfo.New, Config{NumHeads: 2}, true},
		{"slstm_no_out", SLSTMInfo.New, Config{NumHeads: 4, Options: Options{"out_proj": "false"}}, true},
		{"rg_lru", RGLRUInfo.New, Config{NumHeads: 2}, true},
		{"rg_lru_width", RGLRUInfo.New, Config{NumHeads: 3, Options: Options{"width": "6", "d_conv": "2"}}, true},
		// norm_eps is larger than usual: otherwise the norm would reduce to the sign of a product q·k at the first
		// position.
		{"deltanet", DeltaNetInfo.New, Config{NumHeads: 2, Options: Options{"norm_eps": "0.1"}}, true},
		{"deltanet_heads", DeltaNetInfo.New,
			Config{NumHeads: 1, Options: Options{"num_v_heads": "2", "head_v_dim": "5", "d_conv": "2",
				"norm_eps": "0.1"}}, true},
		{"gated_deltanet", GatedDeltaNetInfo.New, Config{NumHeads: 2}, true},
		{"gated_deltanet_heads", GatedDeltaNetInfo.New, Config{NumHeads: 2, Options: Options{"num_v_heads": "4",
			"head_k_dim": "3", "head_v_dim": "5", "d_conv": "2", "allow_neg_eigval": "true"}}, true},
		{"kda", KDAInfo.New, Config{NumHeads: 2, Options: Options{"num_v_heads": "4", "rank": "3"}}, true},
		{"kda_bound", KDAInfo.New, Config{NumHeads: 2, Options: Options{"lower_bound": "-5", "gate_bias": "false"}},
			true},
		{"gdn2", GDN2Info.New, Config{NumHeads: 2, Options: Options{"head_v_dim": "5"}}, true},
		{"rwkv7", forgetting(RWKV7Info.New), Config{Options: Options{"head_size": "8", "norm_eps": "1"}}, true},
		{"rwkv7_later", forgetting(newLaterRWKV7), Config{Options: Options{"head_size": "4", "norm_eps": "1",
			"w_rank": "3", "a_rank": "2", "v_rank": "2", "g_rank": "5"}}, true},
		{"channel_mix", func(cfg Config) (Mixer, error) { return NewChannelMix(cfg.DModel, 12, 0.5), nil }, Config{},
			true},
		{"rnn", RNNInfo.New, Config{Options: Options{"hidden": "5"}}, true},
		{"lmu", LMUInfo.New, Config{Options: Options{"hidden": "4", "order": "3", "theta": "9"}}, true},
		{"gmlp", GMLPInfo.New, Config{Options: Options{"expand": "2", "l_max": "300"}}, false},
		{"gmlp_whole", GMLPInfo.New, Config{Options: Options{"expand": "1", "split": "false", "l_max": "300"}}, false},
		{"gau", GAUInfo.New, Config{Options: Options{"query_dim": "4", "max_distance": "9"}}, false},
		{"gau_linear", GAUInfo.New, Config{Options: Options{"query_dim": "4", "form": "linear", "chunk": "9"}}, true},
		{"gau_mixed", GAUInfo.New, Config{Options: Options{"query_dim": "4", "max_distance": "5", "form": "mixed",
			"chunk": "9"}}, false},
		{"dss", DSSInfo.New, Config{DState: 4, Options: Options{"l_max": "100"}}, true},
		{"dss_exp", DSSInfo.New, Config{DState: 4, Options: Options{"version": "exp"}}, true},
		{"gss", GSSInfo.New, Config{DState: 6, Options: Options{"gate": "2", "dt_min": "0.1"}}, true},
		{"s4_pieces", S4Info.New, Config{DState: 6, Options: Options{"measure": "legt", "l_max": "16",
			"channels": "2"}},
			true},
		{"hyena", HyenaInfo.New, hyenaConfig("l_max", "300", "filter_order", "6", "emb_dim", "5", "shift", "0.1"),
			false},
		{"hyena_order_4", HyenaInfo.New, hyenaConfig("order", "4", "l_max", "200", "filter_order", "6",
			"short_filter_order",
			"4", "train_pos_emb", "true"), false},
		{"hyena_window_70", HyenaInfo.New, hyenaConfig("l_max", "70", "filter_order", "6", "modulate", "false"), false},
		{"several", severalMixers, Config{DState: 6, HeadDim: 1, HeadOrder: "dh"}, true},
	}
}

// severalMixers returns the sum of H3 and an LMU. Its input is halved and its output is tripled.
func severalMixers(cfg Config) (Mixer, error) {
	a, err := H3Info.New(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Options = Options{"hidden": "4", "order": "3", "theta": "9"}
	b, err := LMUInfo.New(cfg)
	return Scaled(Parallel([]string{"a", "b"}, []Mixer{a, b}), 0.5, 3), err
}

// mixer builds the variant with parameters of a size at which every part of it matters.
func (v variant) mixer(t testing.TB) Mixer {
	t.Helper()
	cfg := v.cfg
	cfg.DModel, cfg.NLayer, cfg.DtMin, cfg.DtMax = dModel, 2, 0.01, 0.3
	if cfg.Measure == "" {
		cfg.Measure = "diag-lin"
	}
	m, err := v.build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(m, "", 3)
	rng := rand.New(rand.NewPCG(4, 5))
	m.Params("", func(_ string, p *nn.Param) {
		x := read(p.Tensor)
		for i := range x {
			switch p.Role {
			case nn.Weight, nn.Mixing, nn.Bias:
				x[i] = float32(rng.NormFloat64() * 0.5)
			case nn.SSM, nn.SSMSystem: // away from starts that hide errors, such as B = e₁
				x[i] += float32(rng.NormFloat64() * 0.1)
			}
		}
		p.CopyFrom(x)
	})
	return m
}

// sequences returns inputs (batch·l, dModel).
func sequences(seed uint64, batch, l int) *tensor.Tensor {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := tensor.New(batch*l, dModel)
	for i := range x.Data() {
		x.Data()[i] = float32(rng.NormFloat64())
	}
	return x
}

// cut copies the positions [lo, hi) of every sequence of x (b, l, d).
func cut(x []float32, b, lo, hi int) []float32 {
	var out []float32
	row := len(x) / b
	for i := range b {
		out = append(out, x[i*row+lo*dModel:i*row+hi*dModel]...)
	}
	return out
}

// paste copies the rows of a chunk to the positions [lo, hi) of every sequence of x.
func paste(x, chunk []float32, b, lo, hi int) {
	row, n := len(x)/b, (hi-lo)*dModel
	for i := range b {
		copy(x[i*row+lo*dModel:i*row+hi*dModel], chunk[i*n:][:n])
	}
}

// chunked runs u in chunks of the given lengths and returns y and the states after them. Chunk i is recorded if
// record(i).
func chunked(m Mixer, u *tensor.Tensor, lengths []int, record func(i int) bool) ([]float32, *several) {
	l := 0
	for _, n := range lengths {
		l += n
	}
	b, y, lo := u.Rows()/l, make([]float32, u.Len()), 0
	s := begin(m, b)
	tape := newTape()
	for i, n := range lengths {
		tape.Record(record(i))
		part := tensor.FromSlice(cut(u.Data(), b, lo, lo+n), b*n, dModel)
		paste(y, read(s.forward(tape, part)), b, lo, lo+n)
		lo += n
	}
	s.detach() // tensors of the tape must not outlive it
	return y, s
}

func never(int) bool  { return false }
func always(int) bool { return true }

// parts returns copies of a state's tensors.
func parts(s State) map[string][]float32 {
	out := map[string][]float32{}
	s.Tensors(func(name string, x *tensor.Tensor) { out[name] = read(x) })
	return out
}

type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// near checks that got differs from want by at most tol times the largest element.
func near(t reporter, what string, got, want []float32, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	size, worst := 0.0, 0.0
	for i, w := range want {
		size = max(size, math.Abs(float64(w)))
		worst = max(worst, math.Abs(float64(got[i])-float64(w)))
	}
	if !(worst <= tol*size) {
		t.Errorf("%s: differs by %.2g of the largest element, want at most %.2g", what, worst/size, tol)
	}
}

func nearStates(t reporter, got, want *several, tol float64) {
	t.Helper()
	g, w := got.parts(), want.parts()
	if len(g) != len(w) {
		t.Fatalf("state has %d parts, want %d", len(g), len(w))
	}
	for name, x := range w {
		near(t, "state "+name, g[name], x, tol)
	}
}

// chunkTol is for a sequence computed in two ways: some tens of rounding errors in float32.
const chunkTol = 3e-6

// drawLengths draws the lengths of up to six chunks, many of them near the limit between stepping and convolving.
func drawLengths(t *rapid.T) (lengths []int, total int) {
	lengths = rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 7, 23, 24, 25, 40}), 1, 6).Draw(t, "lengths")
	for _, n := range lengths {
		total += n
	}
	return lengths, total
}

// TestAnyChunking checks that y and the state do not depend on how a sequence is cut, and on which chunks are recorded.
func TestAnyChunking(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			rapid.Check(t, func(rt *rapid.T) {
				lengths, l := drawLengths(rt)
				records := rapid.SliceOfN(rapid.Bool(), len(lengths), len(lengths)).Draw(rt, "record")
				u := sequences(rapid.Uint64().Draw(rt, "seed"), 2, l)
				want := read(m.Forward(newTape(), u, equalRows(2, l)))
				y, s := chunked(m, u, lengths, func(i int) bool { return records[i] })
				near(rt, "y", y, want, chunkTol)
				whole, state := chunked(m, u, []int{l}, never)
				near(rt, "y of the whole with a state", whole, want, chunkTol)
				nearStates(rt, s, state, chunkTol)
			})
		})
	}
}

// TestCausality checks that the input at t does not change outputs before t. Stepped, and in attention, not a bit
// changes; in an FFT convolution, all positions share rounding errors.
func TestCausality(t *testing.T) {
	const l = 70
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			rapid.Check(t, func(rt *rapid.T) {
				lengths, tol := []int{l}, 1e-6
				if rapid.Bool().Draw(rt, "stepped") {
					lengths, tol = []int{23, 1, 23, 23}, 0
				}
				if !v.fixed { // attention; Hyena sums short sequences directly
					tol = 0
				}
				seed, at := rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(0, l-1).Draw(rt, "t")
				u := sequences(seed, 1, l)
				before, _ := chunked(m, u, lengths, never)
				for i := range dModel {
					u.Data()[at*dModel+i] += 1
				}
				after, _ := chunked(m, u, lengths, never)
				if slices.Equal(after[at*dModel:][:dModel], before[at*dModel:][:dModel]) {
					rt.Errorf("y at t = %d does not see u at t", at)
				}
				copy(after[at*dModel:], before[at*dModel:])
				near(rt, "y before t", after, before, tol)
			})
		})
	}
}

// TestBatchIsEachAlone checks that a sequence gives the same bits in a batch and alone.
func TestBatchIsEachAlone(t *testing.T) {
	const batch = 3
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			m := v.mixer(t)
			for _, lengths := range [][]int{{60}, {5, 1, 23}, {30, 5, 24}} {
				l := 0
				for _, n := range lengths {
					l += n
				}
				for _, record := range []func(int) bool{never, always} {
					u := sequences(9, batch, l)
					y, s := chunked(m, u, lengths, record)
					for i := range batch {
						one := tensor.FromSlice(u.Data()[i*l*dModel:][:l*dModel], l, dModel)
						alone, state := chunked(m, one, lengths, record)
						if !slices.Equal(alone, y[i*l*dModel:][:l*dModel]) {
							t.Errorf("chunks %v: y of sequence %d differs from that of the sequence alone", lengths, i)
						}
						together := parts(s.states[i])
						for name, x := range parts(state.states[0]) {
							if !slices.Equal(x, together[name]) {
								t.Errorf("chunks %v: state %s of sequence %d differs", lengths, name, i)
							}
						}
					}
				}
			}
		})
	}
}

package mixer

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestOptionsAtTheirBounds checks that the minimum and maximum of every option are accepted, and that the next number
// beyond is refused with an error that begins with the option and contains the value.
func TestOptionsAtTheirBounds(t *testing.T) {
	const state, taps, filter, tokens, none = 1 << 12, 1 << 26, 1 << 14, 1 << 16, -1 << 30
	for _, c := range []struct {
		info        Info
		name        string
		least, most int // none for no bound
		step        int // distance between allowed numbers; 0 for 1
		with        Options
	}{
		{info: H3Info, name: "d_state", least: 2, most: state, step: 2},
		{info: H3Info, name: "head_dim", least: 1, most: 8, step: 7},
		{info: S4DInfo, name: "d_state", least: 2, most: state, step: 2},
		{info: S4DInfo, name: "channels", least: 1, most: 16},
		{info: S4DInfo, name: "d_state", least: 2, most: state / 2, step: 2, with: Options{"real": "true"}},
		{info: S4Info, name: "d_state", least: 2, most: state, step: 2},
		{info: S4Info, name: "l_max", least: 1, most: 1 << 20},
		{info: DSSInfo, name: "d_state", least: 2, most: state / 2, step: 2},
		{info: DSSInfo, name: "l_max", least: 1, most: 1 << 20},
		{info: GSSInfo, name: "bottleneck", least: 1, most: 8, step: 7},
		{info: GSSInfo, name: "gate", least: 1, most: 64},
		{info: MambaInfo, name: "d_state", least: 1, most: state},
		{info: MambaInfo, name: "d_conv", least: 1, most: state},
		{info: MambaInfo, name: "expand", least: 1, most: 64},
		{info: MambaInfo, name: "d_inner", least: 0, most: 64 * dModel},
		{info: MambaInfo, name: "dt_rank", least: 0, most: 2 * dModel},
		{info: Mamba2Info, name: "d_state", least: 1, most: state},
		{info: Mamba2Info, name: "d_conv", least: 1, most: state},
		{info: Mamba2Info, name: "expand", least: 1, most: 64},
		{info: Mamba2Info, name: "headdim", least: 0, most: 2 * dModel, step: 2 * dModel},
		{info: Mamba2Info, name: "ngroups", least: 1, most: 4, step: 3},
		{info: GatedConvInfo, name: "d_conv", least: 1, most: state},
		{info: RGLRUInfo, name: "d_conv", least: 1, most: state},
		{info: RGLRUInfo, name: "width", least: 0, most: 1 << 16, with: Options{"num_heads": "1"}},
		{info: RGLRUInfo, name: "num_heads", least: 1, most: 8, step: 7},
		{info: RNNInfo, name: "hidden", least: 0, most: 1 << 16},
		{info: LMUInfo, name: "hidden", least: 0, most: 1 << 16},
		{info: LMUInfo, name: "order", least: 1, most: 1024},
		{info: LMUInfo, name: "theta", least: 1, most: 1e9},
		{info: HyenaInfo, name: "order", least: 2, most: 64},
		{info: HyenaInfo, name: "l_max", least: 1, most: taps},
		{info: HyenaInfo, name: "filter_order", least: 1, most: filter},
		{info: HyenaInfo, name: "emb_dim", least: 3, most: 1<<12 - 1, step: 2},
		{info: HyenaInfo, name: "num_inner_mlps", least: 0, most: 64},
		{info: HyenaInfo, name: "short_filter_order", least: 1, most: filter},
		{info: GAUInfo, name: "expand", least: 1, most: 64},
		{info: GAUInfo, name: "query_dim", least: 1, most: 1 << 16},
		{info: GAUInfo, name: "max_distance", least: 1, most: 1 << 16},
		{info: GMLPInfo, name: "expand", least: 1, most: 64},
		{info: GMLPInfo, name: "l_max", least: 1, most: 1 << 16},
		{info: BlockRecurrentInfo, name: "block", least: 1, most: 1 << 16},
		{info: BlockRecurrentInfo, name: "rows", least: 1, most: 1 << 16},
		{info: SpAttenInfo, name: "block", least: 1, most: tokens},
		{info: SpAttenInfo, name: "keep", least: 0, most: tokens},
		{info: SpAttenInfo, name: "keep_heads", least: 0, most: 4},
		{info: BucketAttentionInfo, name: "bucket", least: 1, most: none},
		{info: BucketAttentionInfo, name: "top", least: 1, most: 7},
		{info: BucketAttentionInfo, name: "l_max", least: 64, most: 1 << 24, step: 64},
		{info: SparseSinkhornInfo, name: "block", least: 1, most: none},
		{info: SparseSinkhornInfo, name: "rounds", least: 0, most: 1000},
		{info: SparseSinkhornInfo, name: "l_max", least: 64, most: 1 << 20, step: 64},
		{info: BigBirdInfo, name: "block", least: 1, most: none},
		{info: BigBirdInfo, name: "window", least: 0, most: 1 << 10},
		{info: BigBirdInfo, name: "global", least: 0, most: 1 << 10},
		{info: BigBirdInfo, name: "random", least: 0, most: 1 << 10},
		{info: WindowAttentionInfo, name: "window", least: 1, most: none},
		{info: AttentionInfo, name: "num_heads", least: 1, most: 8, step: 7},
		{info: AttentionInfo, name: "num_heads", least: 1, most: 1 << 16, with: Options{"head_dim": "2"}},
		{info: AttentionInfo, name: "head_dim", least: 0, most: 1 << 16},
		{info: AttentionInfo, name: "kv_heads", least: 0, most: 4, step: 4},
		{info: AttentionInfo, name: "rotary_emb_dim", least: 0, most: 2, step: 2},
		{info: MLAInfo, name: "num_heads", least: 1, most: 8, step: 7},
		{info: MLAInfo, name: "num_heads", least: 1, most: 1024, with: Options{"qk_nope_head_dim": "2"}},
		{info: MLAInfo, name: "q_lora_rank", least: 0, most: 1 << 16},
		{info: MLAInfo, name: "kv_lora_rank", least: 0, most: 1 << 16},
		{info: MLAInfo, name: "qk_nope_head_dim", least: 0, most: 1 << 16},
		{info: MLAInfo, name: "qk_rope_head_dim", least: 0, most: 1 << 16},
		{info: MLAInfo, name: "v_head_dim", least: 0, most: 1 << 16},
		{info: MLAInfo, name: "rotary_emb_dim", least: 0, most: 4, step: 2, with: Options{"qk_rope_head_dim": "4"}},
		{info: LinearAttentionInfo, name: "num_heads", least: 1, most: 8, step: 7},
		{info: RetentionInfo, name: "num_heads", least: 1, most: 8, step: 7},
	} {
		refused := func(v int) error {
			o := Options{c.name: fmt.Sprint(v)}
			maps.Copy(o, c.with)
			_, err := c.info.New(Config{DModel: dModel, NLayer: 1, DState: 4, HeadDim: 1, DtMin: 0.1, DtMax: 0.1,
				Measure: "diag-lin", NumHeads: 4, Options: o})
			return err
		}
		step := max(1, c.step)
		for v, good := range map[int]bool{c.least: true, c.most: true, c.least - 1: false, c.most + 1: false,
			c.least + step: true, c.least - step: false, c.most + step: false} {
			if c.most == none && v <= none+step || c.most != none && v > c.most && good {
				continue
			}
			err := refused(v)
			if good && err != nil {
				t.Errorf("%s with %s=%d and %v: %v", c.info.Name, c.name, v, c.with, err)
			}
			if !good && (err == nil || !strings.HasPrefix(err.Error(), c.name+": ") ||
				!strings.Contains(strings.ReplaceAll(err.Error(), `"`, ""), fmt.Sprintf("found %d", v))) {
				t.Errorf("%s with %s=%d and %v: found the error %v, want one of %s", c.info.Name, c.name, v, c.with,
					err, c.name)
			}
		}
	}
}

// TestNumbersAtTheirBounds checks that dt_min may equal dt_max but not exceed it, that divisors must be positive, and
// that NaN is refused.
func TestNumbersAtTheirBounds(t *testing.T) {
	steps := map[string]string{"0.1 0.1": "", "0.1 0.2": "", "0 0.1": "dt_min", "0.2 0.1": "dt_min", "-1 0.1": "dt_min",
		"nan 0.1": "dt_min", "0.1 nan": "dt_max"}
	for _, info := range []Info{H3Info, S4DInfo, S4Info, DSSInfo, GSSInfo, MambaInfo, Mamba2Info} {
		for pair, want := range steps {
			lo, hi, _ := strings.Cut(pair, " ")
			checkOption(t, info, Options{"dt_min": lo, "dt_max": hi}, want)
		}
	}
	checkOption(t, S4DInfo, Options{"real": "true", "dt_min": "0"}, "dt_min")
	for _, c := range []struct {
		info  Info
		name  string
		with  Options
		value map[string]string
	}{
		{MambaInfo, "norm_eps", nil, map[string]string{"0": "norm_eps", "1e-9": "", "nan": "norm_eps"}},
		{Mamba2Info, "norm_eps", nil, map[string]string{"0": "norm_eps", "1e-9": "", "-1": "norm_eps"}},
		{AttentionInfo, "norm_eps", nil, map[string]string{"0": ""}}, // there is no norm
		{AttentionInfo, "norm_eps", Options{"qk_norm": "true"}, map[string]string{"0": "norm_eps", "1e-9": ""}},
		{MLAInfo, "norm_eps", nil, map[string]string{"0": "norm_eps", "1e-9": "", "nan": "norm_eps"}},
		{AttentionInfo, "xpos", nil, map[string]string{"0": "", "1": "xpos", "-1": "xpos"}},
		{AttentionInfo, "xpos", Options{"rotary_emb_dim": "2"}, map[string]string{"0": "", "65536": "",
			"65537": "xpos"}},
		{AttentionInfo, "alibi", nil, map[string]string{"true": "", "false": ""}},
		{AttentionInfo, "alibi", Options{"rotary_emb_dim": "2"}, map[string]string{"true": "alibi", "false": ""}},
		{AttentionInfo, "alibi", Options{"bidirectional": "true"}, map[string]string{"true": "alibi", "false": ""}},
		{AttentionInfo, "kv_heads", nil, map[string]string{"3": "kv_heads", "2": ""}},
		{BucketAttentionInfo, "temperature", nil, map[string]string{"0": "temperature", "1e-3": "",
			"nan": "temperature"}},
		{BucketAttentionInfo, "keys_as_values", Options{"bidirectional": "true"},
			map[string]string{"true": "", "false": ""}},
		{BucketAttentionInfo, "sort_net", nil, map[string]string{"simple": "", "attention": "", "": "sort_net"}},
		{BucketAttentionInfo, "l_max", Options{"bucket": "8"}, map[string]string{"8": "", "7": "l_max", "12": "l_max"}},
		{SparseSinkhornInfo, "temperature", nil, map[string]string{"0": "temperature", "1e-3": "",
			"nan": "temperature"}},
		{SparseSinkhornInfo, "sortcut", nil, map[string]string{"0": "", "1": "sortcut", "-1": "sortcut"}},
		{SparseSinkhornInfo, "l_max", Options{"block": "8"}, map[string]string{"8": "", "7": "l_max", "12": "l_max"}},
		{SpAttenInfo, "progressive", nil, map[string]string{"0": "", "1": "", "1.1": "progressive",
			"-1": "progressive"}},
		{HyenaInfo, "target", nil, map[string]string{"0": "target", "1": "target", "0.999": "", "1e-6": "",
			"nan": "target"}},
		{HyenaInfo, "fast_decay_pct", Options{"slow_decay_pct": "0.5"}, map[string]string{"0.5": "",
			"0.6": "fast_decay_pct",
			"nan": "fast_decay_pct"}},
		{H3Info, "head_order", nil, map[string]string{"": "", "dh": "", "hd": "", "h": "head_order"}},
		{RetentionInfo, "num_heads", nil, map[string]string{"2": "", "3": "num_heads"}},
	} {
		for value, want := range c.value {
			o := Options{c.name: value}
			maps.Copy(o, c.with)
			checkOption(t, c.info, o, want)
		}
	}
	checkOption(t, AttentionInfo, Options{"num_heads": "0"}, "num_heads: found 0, want a divisor of d_model 8")
	checkOption(t, AttentionInfo, Options{"num_heads": "0", "head_dim": "2"}, "num_heads: found 0, want 1 to 65536")
	// Each head halves the forgetting of the previous one. After the 48th, γ = 1 - 2^(-5-h) is no longer below 1 in
	// float32.
	for heads, want := range map[int]string{48: "", 96: "num_heads: found 96, want at most 48"} {
		_, err := RetentionInfo.New(Config{DModel: 96, NumHeads: heads})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("retention of %d heads: found the error %v, want %q", heads, err, want)
		}
	}
}

// checkOption builds a mixer with options. The error must begin with want, or be nil if want is empty.
func checkOption(t *testing.T, info Info, o Options, want string) {
	t.Helper()
	_, err := info.New(Config{DModel: dModel, NLayer: 1, DState: 4, HeadDim: 1, DtMin: 0.1, DtMax: 0.1,
		Measure: "diag-lin", NumHeads: 4, Options: o})
	if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
		t.Errorf("%s with %v: found the error %v, want %q", info.Name, o, err, want)
	}
}

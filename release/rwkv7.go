package release

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
)

// rwkv7 is the family of RWKV-7 (arXiv:2503.14456) in the layout of flash-linear-attention for the transformers
// library: time mixing, then channel mixing, with a norm after the embedding. Package mixer has the equations;
// rwkv7pth.go has the layout of the authors.
var rwkv7 = hfFamily{options: func() hfOptions {
	return &rwkv7Options{HeadDim: pointer(64), Ratio: pointer(4.), W: pointer(64), A: pointer(64), V: pointer(16),
		G: pointer(128), Eps: 1e-5, First: true, Bias: true}
}}

type rwkv7Options struct {
	HeadDim *int           `json:"head_dim"`
	Heads   *int           `json:"num_heads"` // used if head_dim is null
	Values  layered        `json:"value_dim"`
	Inner   *int           `json:"intermediate_size"`
	Ratio   *float64       `json:"hidden_ratio"`
	W       *int           `json:"decay_low_rank_dim"`
	A       *int           `json:"a_low_rank_dim"`
	V       *int           `json:"v_low_rank_dim"`
	G       *int           `json:"gate_low_rank_dim"`
	Eps     float64        `json:"norm_eps"`
	First   bool           `json:"norm_first"`
	Bias    bool           `json:"norm_bias"`
	Act     *string        `json:"hidden_act"`
	Attn    map[string]any `json:"attn"`
}

func (o *rwkv7Options) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "sqrelu")
	c.someLayers()
	if c.Hidden < 1 {
		return c.failf("hidden_size: found %d, want at least 1", c.Hidden)
	}
	head := o.head(c)
	switch {
	case o.Attn != nil:
		return c.failf("attn: found %v, want null: attention in some layers is not read", o.Attn)
	case !o.Bias:
		return c.failf("norm_bias: found false, want true")
	case head < 1 || c.Hidden%head != 0:
		return c.failf("head_dim, num_heads: found heads of %d channels, want a divisor of hidden_size %d", head,
			c.Hidden)
	}
	if i := slices.IndexFunc(o.Values, func(n int) bool { return n != c.Hidden }); i >= 0 {
		return c.failf("value_dim: found %d, want hidden_size %d in every layer", o.Values[i], c.Hidden)
	}
	options := given{"head_size": head, "norm_eps": float64(head) * o.Eps}
	for _, rank := range []struct {
		field, key string
		n          *int
		wide       float64 // how much larger heads make it, where the configuration leaves it to the class
	}{
		{"decay_low_rank_dim", "w_rank", o.W, float64(head) / 64},
		{"a_low_rank_dim", "a_rank", o.A, float64(head) / 64},
		{"v_low_rank_dim", "v_rank", o.V, float64(head) / 64}, {"gate_low_rank_dim", "g_rank", o.G, 1},
	} {
		n := mixer.RWKV7Rank(mixer.RWKV7Ranks[rank.key]*rank.wide, c.Hidden)
		if set(&n, rank.n); n < 1 {
			return c.failf("%s: found %d, want at least 1", rank.field, n)
		}
		options[rank.key] = n
	}
	m.config = newRWKV7Config(slices.Repeat([]string{entry("rwkv7", options)}, c.Layers), o.inner(c), o.Eps)
	m.config.EmbedNorm = o.First
	m.names = rwkv7Names()
	return m
}

// newRWKV7Config returns the configuration of layers of RWKV-7.
func newRWKV7Config(layers []string, inner int, eps float64) model.Config {
	c := newHFConfig(layers, "channel-mix", eps)
	c.Norm, c.DInner, c.EmbedNorm = model.NormLayer, inner, true
	return c
}

// head returns the channels of a head.
func (o *rwkv7Options) head(c *hfCommon) int {
	switch {
	case o.HeadDim != nil:
		return *o.HeadDim
	case o.Heads != nil && *o.Heads > 0:
		return c.Hidden / *o.Heads
	}
	return 0
}

// inner returns the width of channel mixing.
func (o *rwkv7Options) inner(c *hfCommon) int {
	if o.Inner != nil {
		return *o.Inner
	}
	ratio := 4.
	set(&ratio, o.Ratio)
	n := math.Trunc(float64(c.Hidden) * ratio)
	if !(n >= 1 && n <= math.MaxInt32) {
		c.failf("hidden_ratio: found %g, want a number above 0", ratio)
		return 0
	}
	return (int(n) + 31) / 32 * 32
}

// layered holds one number for all layers, or one for each. It is empty for null.
type layered []int

// UnmarshalJSON parses a number, a list of numbers, or null.
func (l *layered) UnmarshalJSON(data []byte) error {
	var one *int
	if err := json.Unmarshal(data, &one); err != nil {
		return json.Unmarshal(data, (*[]int)(l))
	}
	if one != nil {
		*l = layered{*one}
	}
	return nil
}

// rwkv7Names returns the names of flash-linear-attention. Its first files have all mixtures of a layer in one tensor.
func rwkv7Names() hfNames {
	const at = "attn."
	names := []rename{to("receptance.", at+"r_proj."), to("key.", at+"k_proj."), to("value.", at+"v_proj."),
		to("output.", at+"o_proj."), to("ln_x.", at+"g_norm.")}
	for _, s := range []string{"w", "a", "v", "g"} {
		lora := fmt.Sprintf("%s%s_lora.lora.", at, s)
		names = append(names, to(s+"0", lora+"2.bias"), to(s+"1.", lora+"0."), to(s+"2.", lora+"2."))
	}
	n := hfNames{embedding: []string{"model.embeddings."}, entry: "model.layers.0.pre_norm.", norm: "model.norm.",
		layers: "model.layers.", layer: append(layerNorms("attn_norm", "ffn_norm"), to("mlp.", "ffn.")),
		mixers: map[string][]rename{"rwkv7": append(names, to("", at))},
		fused:  map[string][]string{".attn.x_x": {}},
	}
	for _, s := range []string{"r", "w", "k", "v", "a", "g"} {
		n.lone = append(n.lone, ".attn.x_"+s)
		n.fused[".attn.x_x"] = append(n.fused[".attn.x_x"], ".attn.x_"+s)
	}
	return n
}

// rwkv7Derived returns the fields of a config.json for a model with only RWKV-7.
func rwkv7Derived(c *model.Config, p part) map[string]any {
	head := p.size("head_size")
	return map[string]any{
		"architectures": []string{"RWKV7ForCausalLM"}, "model_type": "rwkv7", "attn": nil, "attn_mode": "chunk",
		"hidden_size": c.DModel, "head_dim": head, "num_heads": c.DModel / max(1, head),
		"intermediate_size": c.Inner(), "hidden_ratio": float64(c.Inner()) / float64(c.DModel), "hidden_act": "sqrelu",
		"decay_low_rank_dim": p.size("w_rank"), "a_low_rank_dim": p.size("a_rank"), "v_low_rank_dim": p.size("v_rank"),
		"gate_low_rank_dim": p.size("g_rank"), "norm_eps": c.LayerNormEpsilon, "norm_first": c.EmbedNorm,
		"norm_bias": true, "value_dim": c.DModel, "fuse_norm": false, "use_cache": true,
	}
}

package release

import (
	"fmt"

	"github.com/hippo-ssm/hippo/model"
)

// zamba2 is the family of Zamba2 (arXiv:2411.15242): Mamba-2, in which some layers also receive the output of blocks of
// attention and an MLP over the residual stream and the embedding. The layers share the weights of these blocks, except
// for adapters.
var zamba2 = hfFamily{tied: true, options: func() hfOptions {
	return &zamba2Options{Expand: 2, Heads: 8, State: 64, Groups: 1, Conv: 4, Blocks: 1, Rank: 128, MLPAdapter: true,
		Eps: 1e-5, KVHeads: 32, AttentionHeads: 32}
}}

type zamba2Options struct {
	Kinds            []string `json:"layers_block_type"`
	Expand           int      `json:"mamba_expand"`
	Heads            int      `json:"n_mamba_heads"`
	HeadDim          auto     `json:"mamba_headdim"`
	State            int      `json:"mamba_d_state"`
	Groups           int      `json:"mamba_ngroups"`
	Conv             int      `json:"mamba_d_conv"`
	Bias             bool     `json:"add_bias_linear"`
	Inner            int      `json:"intermediate_size"`
	AttentionHeads   int      `json:"num_attention_heads"`
	KVHeads          int      `json:"num_key_value_heads"`
	Blocks           int      `json:"num_mem_blocks"`
	Rank             int      `json:"adapter_rank"`
	AttentionAdapter bool     `json:"use_shared_attention_adapter"`
	MLPAdapter       bool     `json:"use_shared_mlp_adapter"`
	Rotary           bool     `json:"use_mem_rope"`
	Long             bool     `json:"use_long_context"`
	Limit            []number `json:"time_step_limit"`
	Eps              float64  `json:"rms_norm_eps"`
	Act              *string  `json:"hidden_act"`
}

func (o *zamba2Options) model(c *hfCommon) (m published) {
	c.wantAct("hidden_act", o.Act, "gelu")
	if len(o.Kinds) == 0 || len(o.Kinds) != c.Layers {
		return c.failf("layers_block_type: found %d, want num_hidden_layers %d", len(o.Kinds), c.Layers)
	}
	switch {
	case o.Blocks < 1:
		return c.failf("num_mem_blocks: found %d, want at least 1", o.Blocks)
	case o.AttentionHeads < 1 || 2*c.Hidden%o.AttentionHeads != 0:
		return c.failf("num_attention_heads: found %d, want a divisor of 2·hidden_size %d", o.AttentionHeads,
			2*c.Hidden)
	case o.KVHeads != o.AttentionHeads:
		return c.failf("num_key_value_heads: found %d, want num_attention_heads %d", o.KVHeads, o.AttentionHeads)
	case o.Long:
		return c.failf("use_long_context: found true, want false: its positions are not read")
	case !o.MLPAdapter:
		return c.failf("use_shared_mlp_adapter: found false, want true")
	}
	rotary := c.plainRotary(10000)
	inner := o.Expand * c.Hidden
	headDim := int(o.HeadDim)
	if headDim == 0 && o.Heads > 0 {
		headDim = inner / o.Heads
	}
	if o.Heads*headDim != inner {
		return c.failf("n_mamba_heads, mamba_headdim: found %d and %d, want a product of %d", o.Heads, headDim,
			inner)
	}
	limits := c.dtLimits(o.Limit)
	mamba := entry("mamba2", limits.with(given{"expand": o.Expand, "headdim": headDim, "d_state": o.State,
		"ngroups": o.Groups, "d_conv": o.Conv, "bias": o.Bias, "norm_eps": 1e-5}))
	shared := given{"num_heads": o.AttentionHeads, "d_inner": o.Inner, "adapter_rank": o.Rank,
		"attention_adapters": o.AttentionAdapter, "bias": o.Bias, "norm_eps": o.Eps}
	if o.Rotary {
		shared = shared.rotated(2*c.Hidden/o.AttentionHeads, rotary)
	}
	m.names = hfNames{
		embedding: []string{"model.embed_tokens."}, norm: "model.final_layernorm.", layers: "model.layers.",
		layer:  []rename{to("norm.", "input_layernorm.")},
		mixers: map[string][]rename{"mamba2": mambaNamesIn("mamba.")}, special: map[int][]rename{},
	}
	layers, homes := make([]string, len(o.Kinds)), []string{} // homes holds the prefixes of the blocks' tensors
	hybrids := 0
	for i, kind := range o.Kinds {
		switch kindOf(kind) {
		case "mamba":
			layers[i] = mamba
		case "hybrid":
			at, block := fmt.Sprintf("model.layers.%d.", i), hybrids%o.Blocks
			if block == len(homes) {
				homes = append(homes, at+"shared_transformer.")
			} else {
				m.names.ignored = append(m.names.ignored, at+"shared_transformer.") // some files repeat the block
			}
			layers[i] = entry("zamba2-shared", shared.with(given{"block": block})) + ">" + mamba
			m.names.special[i] = zamba2Names(at, homes[block], hybrids)
			hybrids++
		default:
			return c.failf("layers_block_type: found %q, want mamba or hybrid", kind)
		}
	}
	m.config = newHFConfig(layers, model.MLPNone, o.Eps)
	return m
}

// zamba2Names returns the names of hybrid layer k. at is the prefix of its own tensors, home is the prefix of those of
// its block and adapters.
func zamba2Names(at, home string, k int) []rename {
	attention, mlp := home+"self_attn.", home+"feed_forward."
	adapters := func(list string) string { return fmt.Sprintf("%s_adapter_list.%d.", list, k) }
	half := func(own, name string, part int) rename {
		return rename{own, []model.Source{{Name: name, Part: part, Of: 2}}}
	}
	gateUp := mlp + "gate_up_proj"
	names := []rename{
		to("norm.", at+"mamba_decoder.input_layernorm."), to("mixer.", at+"mamba_decoder.mamba."),
		to("shared.out_proj.", at+"linear."),
		to("shared.norm1.", home+"input_layernorm."), to("shared.norm2.", home+"pre_ff_layernorm."),
		{"shared.attention.Wqkv.", []model.Source{{Name: attention + "q_proj."}, {Name: attention + "k_proj."},
			{Name: attention + "v_proj."}}},
		to("shared.attention.out_proj.", attention+"o_proj."),
		half("shared.mlp.gate.", gateUp+".", 0), half("shared.mlp.fc1.", gateUp+".", 1),
		to("shared.mlp.fc2.", mlp+"down_proj."),
		to("shared.mlp_adapter.a.", adapters(gateUp)+"0."),
		half("shared.mlp_adapter.b.0.", adapters(gateUp)+"1.", 1),
		half("shared.mlp_adapter.b.1.", adapters(gateUp)+"1.", 0),
	}
	for _, x := range []string{"q", "k", "v"} {
		list := adapters(attention + "linear_" + x)
		names = append(names, to("shared."+x+"_adapter.a.", list+"0."), to("shared."+x+"_adapter.b.0.", list+"1."))
	}
	return names
}

package release

import (
	"math"

	"github.com/hippo-ssm/hippo/model"
)

// recurrentGemma is the family of RecurrentGemma (arXiv:2404.07839): the recurrence of Griffin or attention over a
// window, then a gated MLP. Its weights were trained with DeepMind's code.
var recurrentGemma = hfFamily{tied: true, options: func() hfOptions {
	return &recurrentGemmaOptions{Window: 2048, Taps: 4, Cap: 30, Eps: 1e-6,
		Kinds: []string{"recurrent", "recurrent", "attention"}}
}}

type recurrentGemmaOptions struct {
	hfAttention
	Kinds  []string `json:"block_types"`
	Window int      `json:"attention_window_size"`
	Inner  int      `json:"intermediate_size"`
	Width  *int     `json:"lru_width"`
	Taps   int      `json:"conv1d_width"`
	Cap    float64  `json:"logits_soft_cap"`
	Eps    float64  `json:"rms_norm_eps"`
	Act    *string  `json:"hidden_activation"`
}

func (o *recurrentGemmaOptions) model(c *hfCommon) (m published) {
	c.wantAct("hidden_activation", o.Act, "gelu_pytorch_tanh")
	c.someLayers()
	if len(o.Kinds) == 0 {
		return c.failf("block_types: found none, want recurrent and attention in some order")
	}
	attention, headDim, kv := o.hfAttention.options(c, o.hfAttention.Heads)
	rotary := c.rotary(10000)
	rotated := c.dim(headDim, 0.5)
	width := c.Hidden
	set(&width, o.Width)
	mixers := map[string]string{
		"recurrent": entry("rg-lru", given{"width": width, "num_heads": o.hfAttention.Heads, "d_conv": o.Taps}),
		"attention": entry("window-attention", attention.rotated(rotated, rotary).
			with(given{"out_bias": true, "window": o.Window + 1})), // the size excludes the position itself
	}
	kinds := make([]string, c.Layers)
	for i := range kinds {
		kinds[i] = o.Kinds[i%len(o.Kinds)]
	}
	layers := c.entriesOf("block_types", kinds, mixers, "recurrent or attention")
	m.config = newHFConfig(layers, entry("geglu", given{}), o.Eps)
	m.config.Norm, m.config.DInner, m.config.LogitCap = model.NormRMSPlusOne, o.Inner/2, o.Cap
	m.config.EmbedScale = bfloat16(math.Sqrt(float64(c.Hidden)))
	m.names = decoderNames("model.final_norm.", append(layerNorms("temporal_pre_norm", "channel_pre_norm"),
		swiGLU("mlp_block.", "gate_proj", "up_proj", "down_proj")...),
		map[string][]rename{
			"rg-lru":           {to("", "temporal_block.")},
			"window-attention": attentionNames("temporal_block.", "o_proj", o.hfAttention.Heads, kv),
		})
	return m
}

// bfloat16 rounds a positive number to eight bits, ties to even.
func bfloat16(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(fraction, 8)), exponent-8)
}

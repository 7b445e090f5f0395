package release

import (
	"fmt"

	"github.com/hippo-ssm/hippo/model"
)

// nemotronH is Nemotron-H (arXiv:2504.03624): each layer is a Mamba-2, an attention or an MLP with a squared ReLU.
var nemotronH = hfFamily{options: func() hfOptions {
	return &nemotronOptions{OldHeadDim: 128, Eps: 1e-5, Conv: 4, ConvBias: true, Groups: 8, State: 128,
		MambaHeads: 128, MambaHeadDim: 64}
}}

type nemotronOptions struct {
	hfAttention
	Pattern      string   `json:"hybrid_override_pattern"`
	Kinds        []string `json:"layers_block_type"`
	OldHeadDim   int      `json:"attention_head_dim"`
	Inner        int      `json:"intermediate_size"`
	MLPBias      bool     `json:"mlp_bias"`
	MLPAct       *string  `json:"mlp_hidden_act"`
	MambaAct     *string  `json:"mamba_hidden_act"`
	MambaHeads   int      `json:"mamba_num_heads"`
	MambaHeadDim int      `json:"mamba_head_dim"`
	State        int      `json:"ssm_state_size"`
	Groups       int      `json:"n_groups"`
	Conv         int      `json:"conv_kernel"`
	UseBias      bool     `json:"use_bias"`
	ConvBias     bool     `json:"use_conv_bias"`
	Limit        []number `json:"time_step_limit"`
	Eps          float64  `json:"layer_norm_epsilon"`
}

// nemotronKinds are the kinds of layers by their letters.
var nemotronKinds = map[rune]string{'M': "mamba", '*': "attention", '-': "mlp", 'E': "moe"}

// kinds are those of all layers.
func (o *nemotronOptions) kinds() (kinds []string, err error) {
	for _, kind := range o.Kinds {
		kinds = append(kinds, kindOf(kind))
	}
	if len(o.Kinds) > 0 {
		return kinds, nil
	}
	for _, letter := range o.Pattern {
		kind, ok := nemotronKinds[letter]
		if !ok {
			return nil, fmt.Errorf("hybrid_override_pattern: found %q, want M, *, - or E", letter)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func (o *nemotronOptions) model(c *hfCommon) (m published, err error) {
	if err := wantAct("mlp_hidden_act", o.MLPAct, "relu2"); err != nil {
		return m, err
	}
	if err := wantAct("mamba_hidden_act", o.MambaAct, "silu"); err != nil {
		return m, err
	}
	kinds, err := o.kinds()
	if err != nil {
		return m, err
	}
	if err := someLayers(len(kinds)); err != nil {
		return m, err
	}
	if o.HeadDim == nil {
		o.HeadDim = &o.OldHeadDim
	}
	attention, _, kv, err := o.hfAttention.options(c, 8)
	if err != nil {
		return m, err
	}
	limits, err := dtLimits(o.Limit)
	if err != nil {
		return m, err
	}
	mixers := map[string]string{
		"mamba": entry("mamba2", limits.with(innerOptions(o.MambaHeads*o.MambaHeadDim, c.Hidden)).with(
			headDimOption(o.MambaHeadDim, o.MambaHeads*o.MambaHeadDim)).with(given{
			"d_state": o.State, "ngroups": o.Groups, "d_conv": o.Conv, "bias": o.UseBias,
			"conv_bias": o.ConvBias, "norm_eps": o.Eps,
		})),
		"attention": entry("attention", attention),
		"mlp":       entry("relu2", given{"bias": o.MLPBias}),
	}
	layers := make([]string, len(kinds))
	for i, kind := range kinds {
		if kind == "moe" {
			return m, fmt.Errorf("hybrid_override_pattern: found E, %w", errExperts)
		}
		if layers[i] = mixers[kind]; layers[i] == "" {
			return m, fmt.Errorf("layers_block_type: found %q, want mamba, attention, mlp or moe", kind)
		}
	}
	m.config = newHFConfig(layers, model.MLPNone, o.Eps)
	m.config.DInner = o.Inner
	m.names = hfNames{
		embedding: []string{"backbone.embeddings.", "backbone.embedding."}, norm: "backbone.norm_f.",
		layers: "backbone.layers.", layer: []rename{to("norm.", "norm.")}, ignored: []string{"mtp."},
		mixers: map[string][]rename{
			"mamba2":    mambaNamesIn("mixer."),
			"attention": attentionNames("mixer.", "o_proj", o.hfAttention.Heads, kv),
			"relu2":     {to("fc1.", "mixer.up_proj."), to("fc2.", "mixer.down_proj.")},
		},
	}
	return m, nil
}

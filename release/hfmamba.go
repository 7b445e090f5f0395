package release

import (
	"github.com/hippo-ssm/hippo/model"
)

// hfMamba, falconMamba and hfMamba2 are the families of models with a single kind of mixer, in the layout of the
// transformers library: Mamba (arXiv:2312.00752), Falcon Mamba (arXiv:2410.05355), which divides the projections for
// dt, B and C by their root mean squares, and Mamba-2 (arXiv:2405.21060), including Codestral Mamba.
var (
	hfMamba = hfFamily{tied: true, options: func() hfOptions {
		return &hfMambaOptions{hfMambaOnly: hfMambaOnlyDefaults(16)}
	}}
	falconMamba = hfFamily{tied: true, options: func() hfOptions {
		return &falconMambaOptions{hfMambaOptions{hfMambaOnly: hfMambaOnlyDefaults(16), norm: "rms"}, 1e-6}
	}}
	hfMamba2 = hfFamily{options: func() hfOptions {
		return &hfMamba2Options{hfMambaOnly: hfMambaOnlyDefaults(128), Groups: 8, HeadDim: 64,
			GroupedNorm: true}
	}}
)

// hfMambaOnly holds the fields that these families share.
type hfMambaOnly struct {
	Expand   int     `json:"expand"`
	State    int     `json:"state_size"`
	Conv     int     `json:"conv_kernel"`
	Bias     bool    `json:"use_bias"`
	ConvBias bool    `json:"use_conv_bias"`
	DtMin    float64 `json:"time_step_min"`
	DtMax    float64 `json:"time_step_max"`
	Eps      float64 `json:"layer_norm_epsilon"`
	Act      *string `json:"hidden_act"`
}

func hfMambaOnlyDefaults(state int) hfMambaOnly {
	return hfMambaOnly{Expand: 2, State: state, Conv: 4, ConvBias: true, DtMin: 0.001, DtMax: 0.1, Eps: 1e-5}
}

// model returns a model with a single kind of mixer.
func (o *hfMambaOnly) model(c *hfCommon, kind string, options given) (m published) {
	c.wantAct("hidden_act", o.Act, "silu", "swish")
	mixer := entry(kind, options.with(given{"d_state": o.State, "d_conv": o.Conv, "bias": o.Bias,
		"conv_bias": o.ConvBias, "dt_min": o.DtMin, "dt_max": o.DtMax}))
	m.config = newHFConfig(nil, model.MLPNone, o.Eps)
	m.config.Mixer, m.config.NLayer = mixer, c.Layers
	m.names = hfNames{
		embedding: []string{"backbone.embeddings.", "backbone.embedding."}, norm: "backbone.norm_f.",
		layers: "backbone.layers.", layer: []rename{to("norm.", "norm.")},
		mixers: map[string][]rename{kind: mambaNamesIn("mixer.")},
	}
	return m
}

type hfMambaOptions struct {
	hfMambaOnly
	Inner    *int `json:"intermediate_size"`
	Rank     auto `json:"time_step_rank"`
	norm     string
	mixerEps float64
}

func (o *hfMambaOptions) model(c *hfCommon) published {
	inner := o.Expand * c.Hidden
	set(&inner, o.Inner)
	options := innerOptions(inner, c.Hidden).with(given{"dt_rank": rank(o.Rank, c.Hidden)})
	if o.norm != "" {
		options = options.with(given{"bcdt_norm": o.norm, "norm_eps": o.mixerEps})
	}
	return o.hfMambaOnly.model(c, "mamba", options)
}

type falconMambaOptions struct {
	hfMambaOptions
	MixerEps float64 `json:"mixer_rms_eps"`
}

func (o *falconMambaOptions) model(c *hfCommon) published {
	o.mixerEps = o.MixerEps
	return o.hfMambaOptions.model(c)
}

type hfMamba2Options struct {
	hfMambaOnly
	Heads   *int     `json:"num_heads"`
	HeadDim int      `json:"head_dim"`
	Groups  int      `json:"n_groups"`
	Limit   []number `json:"time_step_limit"`

	// GroupedNorm is a field of hippo. If true, the norm after the gate is over each group of heads, as in the training
	// code (mamba_ssm), else over all channels, as in the transformers library.
	GroupedNorm bool `json:"grouped_norm"`
}

// model ignores norm_before_gate and rms_norm: all models apply the gate before a norm, whatever their values.
func (o *hfMamba2Options) model(c *hfCommon) (m published) {
	inner := o.Expand * c.Hidden
	if o.Heads != nil && *o.Heads*o.HeadDim != inner {
		return c.failf("num_heads, head_dim: found %d and %d, want a product of expand·hidden_size = %d",
			*o.Heads, o.HeadDim, inner)
	}
	options := c.dtLimits(o.Limit)
	return o.hfMambaOnly.model(c, "mamba2", options.with(headDimOption(o.HeadDim, inner)).with(given{"expand": o.Expand,
		"ngroups": o.Groups, "norm_eps": o.Eps, "grouped_norm": o.GroupedNorm}))
}

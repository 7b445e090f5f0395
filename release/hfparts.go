package release

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// given are the options of an entry of a list of layers.
type given map[string]any

// entry is NAME(OPTION=VALUE,...) without the options that are what the mixer of that name takes anyway.
func entry(name string, options given) string {
	defaults := map[string]string{"in_scale": "1", "out_scale": "1", "gate_scale": "1"}
	for _, m := range model.Mixers() {
		if m.Name == name {
			for _, o := range model.MixerOptions(m) {
				defaults[o.Key] = o.Value
			}
		}
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		text := fmt.Sprint(options[key])
		if f, ok := options[key].(float64); ok {
			text = strconv.FormatFloat(f, 'g', -1, 64)
		}
		if text != defaults[key] {
			pairs = append(pairs, key+"="+text)
		}
	}
	if len(pairs) == 0 {
		return name
	}
	return name + "(" + strings.Join(pairs, ",") + ")"
}

// with adds options to others.
func (g given) with(more given) given {
	out := maps.Clone(g)
	maps.Copy(out, more)
	return out
}

// hfAttention are the fields of attention.
type hfAttention struct {
	Heads   int  `json:"num_attention_heads"`
	KVHeads *int `json:"num_key_value_heads"`
	HeadDim *int `json:"head_dim"`
	Bias    bool `json:"attention_bias"`
}

// options are those of the mixer. It also finds out the components of a head and the heads of keys.
func (a *hfAttention) options(c *hfCommon, kvHeads int) (o given, headDim, kv int, err error) {
	set(&kvHeads, a.KVHeads)
	if a.Heads < 1 || kvHeads < 1 || a.Heads%kvHeads != 0 {
		return nil, 0, 0, fmt.Errorf("num_attention_heads, num_key_value_heads: found %d and %d, want the second to "+
			"divide the first", a.Heads, kvHeads)
	}
	o = given{"num_heads": a.Heads, "bias": a.Bias, "out_bias": a.Bias}
	if kvHeads != a.Heads {
		o["kv_heads"] = kvHeads
	}
	headDim = c.Hidden / a.Heads
	set(&headDim, a.HeadDim)
	if headDim*a.Heads != c.Hidden {
		o["head_dim"] = headDim
	}
	return o, headDim, kvHeads, nil
}

// rotated adds rotary positions of dim components of a head.
func (o given) rotated(dim int, base float64) given {
	if dim == 0 {
		return o
	}
	o = o.with(given{"rotary_emb_dim": dim})
	if base != 10000 {
		o["rotary_base"] = base
	}
	return o
}

// hfMambaHybrid are the fields of Mamba-2 in hybrids.
type hfMambaHybrid struct {
	Expand   int      `json:"mamba_expand"`
	Heads    int      `json:"mamba_n_heads"`
	HeadDim  auto     `json:"mamba_d_head"`
	State    int      `json:"mamba_d_state"`
	Groups   int      `json:"mamba_n_groups"`
	Conv     int      `json:"mamba_d_conv"`
	Bias     bool     `json:"mamba_proj_bias"`
	ConvBias bool     `json:"mamba_conv_bias"`
	Limit    []number `json:"time_step_limit"`
}

// mambaHybridDefaults are those of the classes.
func mambaHybridDefaults() hfMambaHybrid {
	return hfMambaHybrid{Expand: 2, Heads: 128, State: 256, Groups: 1, Conv: 4, ConvBias: true}
}

// options are those of the mixer of so many inner channels; 0 for expand·d_model.
func (h *hfMambaHybrid) options(c *hfCommon, inner int, eps float64) (given, error) {
	if inner == 0 {
		inner = h.Expand * c.Hidden
	}
	headDim := int(h.HeadDim)
	if headDim == 0 && h.Heads > 0 {
		headDim = inner / h.Heads
	}
	if h.Heads*headDim != inner {
		return nil, fmt.Errorf("mamba_n_heads, mamba_d_head: found %d and %d, want a product of %d channels", h.Heads,
			headDim, inner)
	}
	o, err := dtLimits(h.Limit)
	if err != nil {
		return nil, err
	}
	return o.with(innerOptions(inner, c.Hidden)).with(headDimOption(headDim, inner)).with(given{
		"d_state": h.State, "ngroups": h.Groups, "d_conv": h.Conv, "bias": h.Bias,
		"conv_bias": h.ConvBias, "norm_eps": eps,
	}), nil
}

// innerOptions say how many inner channels a Mamba has.
func innerOptions(inner, hidden int) given {
	if hidden > 0 && inner%hidden == 0 {
		return given{"expand": inner / hidden}
	}
	return given{"d_inner": inner}
}

// headDimOption says how many channels a head of Mamba-2 has, unless that is what the mixer takes anyway.
func headDimOption(headDim, inner int) given {
	if headDim == officialHeadDim && inner >= 4*officialHeadDim {
		return given{}
	}
	return given{"headdim": headDim}
}

// dtLimits are the options for the range of dt.
func dtLimits(limit []number) (given, error) {
	if len(limit) == 0 {
		return given{}, nil
	}
	if len(limit) != 2 || !(limit[0] >= 0 && limit[0] <= limit[1]) || !limit[0].finite() || limit[1] == 0 {
		return nil, fmt.Errorf("time_step_limit: found %v, want two numbers, 0 ≤ least ≤ most", limit)
	}
	o := given{"dt_low": float64(limit[0])}
	if limit[1].finite() {
		o["dt_high"] = float64(limit[1])
	}
	return o, nil
}

// wantAct returns an error unless an activation is one that the mixers have.
func wantAct(field string, act *string, want ...string) error {
	if act != nil && !slices.Contains(want, *act) {
		return fmt.Errorf("%s: found %q, want %s", field, *act, strings.Join(want, " or "))
	}
	return nil
}

// someLayers returns an error unless a number of layers is one that can be.
func someLayers(n int) error {
	if n < 1 || n > maxLayers {
		return fmt.Errorf("num_hidden_layers: found %d, want 1 to %d", n, maxLayers)
	}
	return nil
}

// maxLayers bounds what a hostile configuration can cost.
const maxLayers = 10_000

// kindOf gives the kind of a layer, which the two dialects call by different names, its first one.
func kindOf(name string) string {
	switch name {
	case "linear_attention":
		return "mamba"
	case "full_attention":
		return "attention"
	}
	return name
}

package release

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// given holds the options of an entry of a list of layers.
type given map[string]any

// entry returns NAME(OPTION=VALUE,...) without options that equal the mixer's defaults.
func entry(name string, options given) string {
	defaults := mixerDefaults(name)
	for _, key := range []string{"in_scale", "out_scale", "gate_scale"} {
		defaults[key] = cmp.Or(defaults[key], "1")
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
	return entryOf(name, pairs)
}

// entryOf returns NAME(PAIR,...), or NAME if there are no pairs.
func entryOf(name string, pairs []string) string {
	if len(pairs) == 0 {
		return name
	}
	return name + "(" + strings.Join(pairs, ",") + ")"
}

// mixerDefaults returns the options of a mixer with their defaults, empty if there is no mixer of that name.
func mixerDefaults(name string) map[string]string {
	defaults := map[string]string{}
	for _, m := range model.Mixers() {
		if m.Name == name {
			for _, o := range model.MixerOptions(m) {
				defaults[o.Key] = o.Value
			}
		}
	}
	return defaults
}

// with returns a copy of g with more options, which override those of g.
func (g given) with(more given) given {
	out := maps.Clone(g)
	maps.Copy(out, more)
	return out
}

// hfAttention holds the fields of attention.
type hfAttention struct {
	Heads   int  `json:"num_attention_heads"`
	KVHeads *int `json:"num_key_value_heads"`
	HeadDim *int `json:"head_dim"`
	Bias    bool `json:"attention_bias"`
}

// options returns the options of the mixer, the number of components of a head, and the number of key heads.
func (a *hfAttention) options(c *hfCommon, kvHeads int) (o given, headDim, kv int) {
	set(&kvHeads, a.KVHeads)
	if a.Heads < 1 || kvHeads < 1 || a.Heads%kvHeads != 0 {
		c.failf("num_attention_heads, num_key_value_heads: found %d and %d, want the second to divide the first",
			a.Heads, kvHeads)
		return given{}, 1, 1
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
	return o, headDim, kvHeads
}

// hfMambaHybrid holds the fields of Mamba-2 in hybrids.
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

// mambaHybridDefaults returns the defaults of the Python classes.
func mambaHybridDefaults() hfMambaHybrid {
	return hfMambaHybrid{Expand: 2, Heads: 128, State: 256, Groups: 1, Conv: 4, ConvBias: true}
}

// options returns the options of a mixer with the given number of inner channels. 0 means expand·d_model.
func (h *hfMambaHybrid) options(c *hfCommon, inner int, eps float64) given {
	if inner == 0 {
		inner = h.Expand * c.Hidden
	}
	headDim := int(h.HeadDim)
	if headDim == 0 && h.Heads > 0 {
		headDim = inner / h.Heads
	}
	if h.Heads*headDim != inner {
		c.failf("mamba_n_heads, mamba_d_head: found %d and %d, want a product of %d channels", h.Heads, headDim, inner)
	}
	return c.dtLimits(h.Limit).with(innerOptions(inner, c.Hidden)).with(headDimOption(headDim, inner)).with(given{
		"d_state": h.State, "ngroups": h.Groups, "d_conv": h.Conv, "bias": h.Bias,
		"conv_bias": h.ConvBias, "norm_eps": eps,
	})
}

// innerOptions returns the options for the number of inner channels of a Mamba.
func innerOptions(inner, hidden int) given {
	if hidden > 0 && inner%hidden == 0 {
		return given{"expand": inner / hidden}
	}
	return given{"d_inner": inner}
}

// headDimOption returns the option for the number of channels of a Mamba-2 head, unless it is the mixer's default.
func headDimOption(headDim, inner int) given {
	if headDim == officialHeadDim && inner >= 4*officialHeadDim {
		return given{}
	}
	return given{"headdim": headDim}
}

// dtLimits returns the options for the range of dt.
func (c *hfCommon) dtLimits(limit []number) given {
	if len(limit) == 0 {
		return given{}
	}
	if len(limit) != 2 || !(limit[0] >= 0 && limit[0] <= limit[1]) || !limit[0].finite() || limit[1] == 0 {
		c.failf("time_step_limit: found %v, want two numbers, 0 ≤ least ≤ most", limit)
		return given{}
	}
	o := given{"dt_low": float64(limit[0])}
	if limit[1].finite() {
		o["dt_high"] = float64(limit[1])
	}
	return o
}

// wantAct records an error unless the mixers have the given activation.
func (c *hfCommon) wantAct(field string, act *string, want ...string) {
	if act != nil && !slices.Contains(want, *act) {
		c.failf("%s: found %q, want %s", field, *act, strings.Join(want, " or "))
	}
}

// someLayers records an error and sets the number of layers to 0, unless the number is valid.
func (c *hfCommon) someLayers() {
	if c.Layers < 1 || c.Layers > maxLayers {
		c.failf("num_hidden_layers: found %d, want 1 to %d", c.Layers, maxLayers)
		c.Layers = 0
	}
}

// entriesOf returns the entries of layers by their kinds. want is the list of valid kinds for an error.
func (c *hfCommon) entriesOf(field string, kinds []string, mixers map[string]string, want string) []string {
	layers := make([]string, len(kinds))
	for i, kind := range kinds {
		if layers[i] = mixers[kindOf(kind)]; layers[i] == "" {
			c.failf("%s: found %q, want %s", field, kind, want)
		}
	}
	return layers
}

// someExperts reports whether the number of experts and the number used by a position are valid.
func (c *hfCommon) someExperts(fields string, n, used int) bool {
	if err := someExperts(fields, n, used); err != nil {
		c.failf("%w", err)
		return false
	}
	return true
}

// maxLayers limits the cost of a hostile configuration.
const maxLayers = 10_000

// maxWidth is the maximum of a mixer's sizes, so that products of sizes do not overflow.
const maxWidth = 1 << 16

// kindOf returns the kind of a layer: the first of the names that the two dialects give it.
func kindOf(name string) string {
	switch name {
	case "linear_attention":
		return "mamba"
	case "full_attention":
		return "attention"
	}
	return name
}

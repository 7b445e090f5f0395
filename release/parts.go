package release

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
)

// part is a mixer or a feed-forward part of a layer with all options that determine its results. Options that an entry
// omits have the value that the configuration or another option implies.
type part struct {
	name    string
	options map[string]string
}

// layerParts holds the parts of a layer. The name of mlp is model.MLPNone for none.
type layerParts struct {
	mixers []part
	mlp    part
}

// kind returns the name of the mixers, as in model.Block.
func (l *layerParts) kind() string {
	names := make([]string, len(l.mixers))
	for i, p := range l.mixers {
		names[i] = p.name
	}
	return strings.Join(names, "+")
}

// all returns the mixers and the feed-forward part.
func (l *layerParts) all() []part { return append(slices.Clone(l.mixers), l.mlp) }

// layersOf returns the parts of all layers of a valid configuration.
func layersOf(c *model.Config) ([]layerParts, error) {
	plan, err := c.Plan()
	if err != nil {
		return nil, err
	}
	layers := make([]layerParts, len(plan))
	for i, entry := range plan {
		if i > 0 && entry == plan[i-1] {
			layers[i] = layers[i-1]
			continue
		}
		mixers, mlp := model.EntryParts(entry)
		if mlp == "" {
			mlp = c.MLP
		}
		for _, text := range append(mixers, mlp) {
			p, err := partOf(c, text)
			if err != nil {
				return nil, err
			}
			layers[i].mixers = append(layers[i].mixers, p)
		}
		n := len(mixers)
		layers[i].mixers, layers[i].mlp = layers[i].mixers[:n:n], layers[i].mixers[n]
	}
	return layers, nil
}

// partOf returns the part that an entry describes.
func partOf(c *model.Config, text string) (part, error) {
	name, given, err := model.ParseEntry(text)
	p := part{name, map[string]string{"in_scale": "1", "out_scale": "1"}}
	for _, o := range c.PartOptions(name) {
		p.options[o.Key] = o.Value
	}
	maps.Copy(p.options, given)
	p.resolve(c)
	return p, err
}

// resolve replaces values of 0 by the defaults they stand for, and deletes options that do not affect results.
func (p part) resolve(c *model.Config) {
	fill := func(key string, v float64) {
		if p.number(key) == 0 {
			p.set(key, v)
		}
	}
	drop := func(when bool, keys ...string) {
		for _, key := range keys {
			if when {
				delete(p.options, key)
			}
		}
	}
	drop(true, "dropout", "balance", "dt_min", "dt_max")
	switch p.name {
	case "attention", "gated-attention":
		heads := max(1, p.size("num_heads"))
		fill("kv_heads", float64(heads))
		fill("head_dim", float64(c.DModel/heads))
		fill("scale", 1/math.Sqrt(float64(p.size("head_dim"))))
		fill("rotary_base", 10000)
		switch p.text("rotary_scaling") {
		case "llama3":
			fill("rotary_low", 1)
			fill("rotary_high", 4)
			p.divided()
		case "yarn":
			fill("rotary_low", 1)
			fill("rotary_high", 32)
			fill("rotary_magnitude", yarnMagnitude(p.number("rotary_factor"), 1))
		}
		drop(p.size("rotary_emb_dim") == 0, "rotary_base")
		drop(!p.is("qk_norm"), "norm_eps")
	case "mlstm":
		fill("qk_dim", float64(c.DModel/2))
		fill("v_dim", float64(c.DModel))
	case "gated-deltanet", "kda":
		fill("head_k_dim", float64(c.DModel/max(1, p.size("num_k_heads"))))
		fill("num_v_heads", p.number("num_k_heads"))
		fill("head_v_dim", p.number("head_k_dim"))
		if p.name == "kda" {
			fill("rank", p.number("head_v_dim"))
		}
	case "mla":
		fill("qk_nope_head_dim", float64(c.DModel/max(1, p.size("num_heads"))))
		fill("kv_lora_rank", 4*p.number("qk_nope_head_dim"))
		fill("qk_rope_head_dim", float64((p.size("qk_nope_head_dim")+1)/2))
		fill("v_head_dim", p.number("qk_nope_head_dim"))
		drop(p.size("rotary_emb_dim") == 0, "rotary_base")
	case "mamba", "mamba2":
		fill("d_inner", float64(p.size("expand")*c.DModel))
		drop(true, "expand")
		if p.name == "mamba" {
			fill("dt_rank", float64((c.DModel+15)/16))
			drop(p.text("bcdt_norm") == "none", "norm_eps")
			break
		}
		fill("headdim", float64(min(officialHeadDim, p.size("d_inner")/4)))
		drop(p.size("ngroups") == 1, "grouped_norm")
		drop(!p.is("rmsnorm"), "norm_eps", "grouped_norm", "norm_before_gate")
		if p.is("bias") {
			p.options["in_bias"], p.options["out_bias"] = "true", "true"
		}
		drop(true, "bias")
	case "rwkv7":
		fill("head_size", float64(min(64, c.DModel/4)))
		for _, key := range sortedKeys(mixer.RWKV7Ranks) {
			fill(key, float64(mixer.RWKV7Rank(mixer.RWKV7Ranks[key], c.DModel)))
		}
	default:
		if experts := p.size("top_k"); experts > 0 {
			fill("d_inner", float64(max(1, c.Inner()/experts)))
			drop(!p.is("normalize"), "epsilon")
			drop(p.size("groups") < 2, "groups", "top_groups")
		}
	}
}

func (p part) text(key string) string { return p.options[key] }

func (p part) is(key string) bool { return p.options[key] == "true" }

// number returns an option, 0 if there is none. The configuration must be valid.
func (p part) number(key string) float64 {
	x, _ := strconv.ParseFloat(p.options[key], 64)
	return x
}

func (p part) size(key string) int { return int(p.number(key)) }

func (p part) set(key string, v float64) { p.options[key] = strconv.FormatFloat(v, 'g', -1, 64) }

// differences lists the options in which a part differs from the wanted one. Numbers are equal if they differ by no
// more than two roundings to float32 can cause.
func (p part) differences(want part) (lines []string) {
	if p.name != want.name {
		return []string{fmt.Sprintf("found %s, want %s", p.name, want.name)}
	}
	keys := map[string]bool{}
	for key := range p.options {
		keys[key] = true
	}
	for key := range want.options {
		keys[key] = true
	}
	for _, key := range sortedKeys(keys) {
		a, b := p.text(key), want.text(key)
		x, failedX := strconv.ParseFloat(a, 64)
		y, failedY := strconv.ParseFloat(b, 64)
		zero := func(text string, number float64, failed error) bool {
			return text == "" || text == "false" || failed == nil && number == 0
		}
		switch {
		case a == b, zero(a, x, failedX) && zero(b, y, failedY):
		case failedX == nil && failedY == nil && math.Abs(x-y) <= 0x1p-23*math.Abs(y):
		default:
			lines = append(lines, fmt.Sprintf("%s: %s: found %s, want %s", p.name, key, orNone(a), orNone(b)))
		}
	}
	return lines
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// differences lists the differences between the layers of two configurations, each with the numbers of its layers.
func differences(got, want []layerParts) (lines []string) {
	if len(got) != len(want) {
		return []string{fmt.Sprintf("layers: found %d, want %d", len(got), len(want))}
	}
	where := map[string][]string{}
	for i := range got {
		a, b := got[i].all(), want[i].all()
		if got[i].kind() != want[i].kind() {
			a, b = []part{{name: got[i].kind()}}, []part{{name: want[i].kind()}}
		}
		for j := range a {
			for _, line := range a[j].differences(b[j]) {
				if where[line] == nil {
					lines = append(lines, line)
				}
				where[line] = append(where[line], fmt.Sprint(i))
			}
		}
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%s (in layers %s)", line, some(where[line]))
	}
	return lines
}

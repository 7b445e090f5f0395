package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// hfNames say what a family calls the tensors of a model.
type hfNames struct {
	embedding []string // and other names that files have for it
	norm      string   // the final one
	head      string   // "" for headName
	layers    string   // what the names of all layers begin with
	layer     []rename // of a layer, but for its mixers
	mixers    map[string][]rename
	special   map[int][]rename // of layers that are not as others: of all in them, with whole names
	ignored   []string         // what names begin with that are no part of the model
}

// rename says from which tensors the parameters come whose names begin with own. The rest of the name is the same.
type rename struct {
	own  string
	from []model.Source
}

// to is a rename of one tensor.
func to(own, name string) rename { return rename{own, []model.Source{{Name: name}}} }

// swiGLU are the names of a gated part of three matrices.
func swiGLU(prefix, gate, up, down string) []rename {
	return []rename{to("mlp.gate.", prefix+gate+"."), to("mlp.fc1.", prefix+up+"."), to("mlp.fc2.", prefix+down+".")}
}

// layerNorms are the names of the two norms of a layer.
func layerNorms(first, second string) []rename {
	return []rename{to("norm1.", first+"."), to("norm2.", second+".")}
}

// attentionNames are those of an attention with projections of its own for queries, keys and values.
func attentionNames(prefix, out string, heads, kvHeads int) []rename {
	return []rename{
		{"Wqkv.", []model.Source{{Name: prefix + "q_proj.", Share: heads}, {Name: prefix + "k_proj.", Share: kvHeads},
			{Name: prefix + "v_proj.", Share: kvHeads}}},
		to("out_proj.", prefix+out+"."),
		to("q_norm.", prefix+"q_layernorm."), to("k_norm.", prefix+"k_layernorm."),
	}
}

// mambaNamesIn are those of either Mamba.
func mambaNamesIn(prefix string) []rename {
	return []rename{
		to("dt_norm.", prefix+"dt_layernorm."), to("b_norm.", prefix+"b_layernorm."),
		to("c_norm.", prefix+"c_layernorm."), to("", prefix),
	}
}

// decoderNames are the names of a family that calls its embedding and its layers as Llama does.
func decoderNames(norm string, layer []rename, mixers map[string][]rename) hfNames {
	return hfNames{embedding: []string{"model.embed_tokens."}, norm: norm, layers: "model.layers.", layer: layer,
		mixers: mixers}
}

// jambaNames are the names of Jamba, which Bamba and Falcon-H1 have as well.
func jambaNames(heads, kvHeads int) hfNames {
	return decoderNames("model.final_layernorm.", append(layerNorms("input_layernorm", "pre_ff_layernorm"),
		swiGLU("feed_forward.", "gate_proj", "up_proj", "down_proj")...),
		map[string][]rename{"mamba": mambaNamesIn("mamba."), "mamba2": mambaNamesIn("mamba."),
			"attention": attentionNames("self_attn.", "o_proj", heads, kvHeads)})
}

// weights finds the weights of a model in a file.
func (n *hfNames) weights(m *model.Model, f *checkpoint.File) model.Weights {
	w := model.Weights{File: f, Keys: map[string]string{}}
	for _, name := range f.Names() {
		w.Keys[name] = name
	}
	first := n.embedding[0] + "weight"
	for _, other := range n.embedding[1:] {
		if key := other + "weight"; w.Keys[first] == "" && w.Keys[key] != "" {
			delete(w.Keys, key)
			w.Keys[first] = key
		}
	}
	w.Sources = func(parameter string) []model.Source { return n.sources(m, parameter) }
	w.Extra = func(name, _ string) error {
		if name == headName && m.Head == nil || strings.HasSuffix(name, ".inv_freq") ||
			slices.ContainsFunc(n.ignored, func(s string) bool { return strings.HasPrefix(name, s) }) {
			return nil
		}
		return errExtra
	}
	return w
}

// sources are the tensors of a parameter.
func (n *hfNames) sources(m *model.Model, parameter string) []model.Source {
	rest, inLayer := strings.CutPrefix(parameter, "backbone.layers.")
	if !inLayer {
		return n.outside(parameter)
	}
	number, rest, _ := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	if err != nil {
		panic("release: no layer has " + parameter)
	}
	if rules, ok := n.special[layer]; ok {
		return found(rules, rest, "", parameter)
	}
	rules := n.layer
	if inMixer, ok := strings.CutPrefix(rest, "mixer."); ok {
		kind := m.Blocks[layer].Kind
		if strings.Contains(kind, "+") {
			kind, inMixer, _ = strings.Cut(inMixer, ".")
		}
		rules, rest = n.mixers[kind], inMixer
	}
	return found(rules, rest, fmt.Sprintf("%s%d.", n.layers, layer), parameter)
}

// found are the tensors of what is called name in a layer, by rules for names that begin with prefix.
func found(rules []rename, name, prefix, parameter string) []model.Source {
	for _, r := range rules {
		end, ok := strings.CutPrefix(name, r.own)
		if !ok {
			continue
		}
		from := slices.Clone(r.from)
		for i := range from {
			from[i].Name = prefix + from[i].Name + end
		}
		return from
	}
	panic("release: a family has no name for " + parameter)
}

// outside are the tensors of a parameter that is in no layer.
func (n *hfNames) outside(parameter string) []model.Source {
	name := parameter
	switch {
	case strings.HasPrefix(parameter, "backbone.embedding"):
		name = n.embedding[0] + "weight"
	case parameter == headName && n.head != "":
		name = n.head
	case strings.HasPrefix(parameter, "backbone.ln_f."), strings.HasPrefix(parameter, "backbone.norm_f."):
		name = n.norm + "weight"
	}
	return []model.Source{{Name: name}}
}

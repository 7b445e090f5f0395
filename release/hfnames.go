package release

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// hfNames holds the names that a family gives the tensors of a model.
type hfNames struct {
	embedding []string // the first is the usual one
	positions string   // learned positions; "" for none
	entry     string   // norm after the embedding; "" for none
	norm      string   // final norm
	head      string   // "" for headName
	layers    string   // prefix of the names of all layers
	first     int      // number of the first layer
	layer     []rename // parts of a layer except its mixers
	mixers    map[string][]rename
	special   map[int][]rename // exceptional layers: all their names, in full
	ignored   []string         // prefixes of names that do not belong to the model
	masks     []string         // suffixes of names that do not belong to the model
	apart     []string         // prefixes of the names of other parts, which are written back unchanged

	apartExperts []rename // parts of a layer in files that have separate tensors for experts instead of stacked ones

	optional string   // prefix that a file omits from all names or from none
	turned   []string // suffixes of the names of matrices that files store as (in, out)
	lone     []string // suffixes of the names of vectors that files store as (1, 1, d)

	// fused maps suffixes of the names of matrices in older files to those of the tensors that their rows contain.
	fused  map[string][]string
	spread []string // suffixes of the names of vectors that files store as (1, 1, n, 1)
	latent *latentHeads

	others map[string]string // full names of parameters outside of the layers
	mtp    *mtpNames
}

// rename maps parameters whose names start with own to tensors. The rest of the name stays the same.
type rename struct {
	own  string
	from []model.Source
}

// to returns a rename to one tensor.
func to(own, name string) rename { return rename{own, []model.Source{{Name: name}}} }

// swiGLU returns the names of a gated MLP with three matrices.
func swiGLU(prefix, gate, up, down string) []rename {
	return []rename{to("mlp.gate.", prefix+gate+"."), to("mlp.fc1.", prefix+up+"."), to("mlp.fc2.", prefix+down+".")}
}

// layerNorms returns the names of the two norms of a layer.
func layerNorms(first, second string) []rename {
	return []rename{to("norm1.", first+"."), to("norm2.", second+".")}
}

// attentionNames returns the names of an attention with separate projections for queries, keys and values.
func attentionNames(prefix, out string, heads, kvHeads int) []rename {
	return []rename{
		{"Wqkv.", []model.Source{{Name: prefix + "q_proj.", Share: heads}, {Name: prefix + "k_proj.", Share: kvHeads},
			{Name: prefix + "v_proj.", Share: kvHeads}}},
		to("out_proj.", prefix+out+"."),
		to("q_norm.", prefix+"q_norm."), to("k_norm.", prefix+"k_norm."),
	}
}

// mambaNamesIn returns the names of Mamba and Mamba-2.
func mambaNamesIn(prefix string) []rename {
	return []rename{
		to("dt_norm.", prefix+"dt_layernorm."), to("b_norm.", prefix+"b_layernorm."),
		to("c_norm.", prefix+"c_layernorm."), to("", prefix),
	}
}

// decoderNames returns the names of a family that names its embedding and its layers like Llama.
func decoderNames(norm string, layer []rename, mixers map[string][]rename) hfNames {
	return hfNames{embedding: []string{"model.embed_tokens."}, norm: norm, layers: "model.layers.", layer: layer,
		mixers: mixers}
}

// jambaNames returns the names of Jamba, which Bamba and Falcon-H1 use, too.
func jambaNames(heads, kvHeads int) hfNames {
	return decoderNames("model.final_layernorm.", append(layerNorms("input_layernorm", "pre_ff_layernorm"),
		swiGLU("feed_forward.", "gate_proj", "up_proj", "down_proj")...),
		map[string][]rename{"mamba": mambaNamesIn("mamba."), "mamba2": mambaNamesIn("mamba."),
			"attention": attentionNames("self_attn.", "o_proj", heads, kvHeads)})
}

// in returns the names as they are in a file, or nil for a file that does not exist yet.
func (n hfNames) in(f *checkpoint.File) hfNames {
	if f == nil || len(n.apartExperts) == 0 {
		return n
	}
	first := n.apartExperts[0].from[0].Name
	if slices.ContainsFunc(f.Names(), func(name string) bool {
		return strings.HasPrefix(name, n.layers) && strings.Contains(name, "."+first)
	}) {
		n.layer = slices.Concat(n.apartExperts, n.layer)
	}
	return n
}

// weights returns the weights of a model in a file.
func (n *hfNames) weights(m *model.Model, f *checkpoint.File) model.Weights {
	w := model.Weights{File: f, Keys: map[string]string{}, Made: n.madeOf}
	short := n.leftOut(f)
	for _, name := range f.Names() {
		if n.isLatent(name) {
			w.Keys[name+latentKeys], w.Keys[name+latentValues] = name+latentKeys, name+latentValues
			continue
		}
		if w.Keys[name] = name; short && name != headName {
			delete(w.Keys, name)
			w.Keys[n.optional+name] = name
		}
	}
	first := n.embedding[0] + "weight"
	for _, other := range n.embedding[1:] {
		if key := other + "weight"; w.Keys[first] == "" && w.Keys[key] != "" {
			delete(w.Keys, key)
			w.Keys[first] = key
		}
	}
	w.Sources = func(parameter string) []model.Source { return n.sources(&m.Backbone, parameter) }
	w.Extra = func(name, _ string) error {
		if name == headName && m.Head == nil || strings.HasSuffix(name, ".inv_freq") ||
			hasPrefix(name, n.ignored) || hasPrefix(name, n.apart) ||
			hasSuffix(name, n.masks) || n.isFused(name) != "" {
			return nil
		}
		return errExtra
	}
	return w
}

// hasPrefix reports whether a name starts with one of the prefixes.
func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(s string) bool { return strings.HasPrefix(name, s) })
}

// hasSuffix reports whether a name ends with one of the suffixes.
func hasSuffix(name string, ends []string) bool {
	return slices.ContainsFunc(ends, func(s string) bool { return strings.HasSuffix(name, s) })
}

// otherParts returns the tensors of a file that belong to other parts. f may be nil.
func (n *hfNames) otherParts(f *checkpoint.File) (out []checkpoint.Tensor) {
	if f == nil {
		return nil
	}
	for _, name := range f.Names() {
		if x, ok := f.Tensor(name); ok && hasPrefix(name, n.apart) {
			out = append(out, *x)
		}
	}
	return out
}

// LeftOut lists the tensors of a file that do not belong to the language model, as PREFIX* with their number. The file
// is that of the model in the folder dir, or a GGUF file, for which dir is ignored.
func LeftOut(dir string, f *checkpoint.File) (lines []string) {
	read := func() (published, error) { return readConfig(filepath.Join(dir, model.ConfigFile), 0) }
	if f.Format() == checkpoint.FormatGGUF {
		read = func() (published, error) { return ggufPublished(f) }
	}
	p, err := read()
	if err != nil {
		return nil // the error is reported when the model is read
	}
	for _, prefix := range p.names.apart {
		n := 0
		for _, name := range f.Names() {
			if strings.HasPrefix(name, prefix) {
				n++
			}
		}
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s* (%d)", prefix, n))
		}
	}
	return lines
}

// leftOut reports whether a file has the tensors' names without their optional prefix.
func (n *hfNames) leftOut(f *checkpoint.File) bool {
	if n.optional == "" || f == nil {
		return false
	}
	_, ok := f.Tensor(strings.TrimPrefix(n.embedding[0], n.optional) + "weight")
	return ok
}

// sources returns the tensors that make up a parameter.
func (n *hfNames) sources(bb *model.Backbone, parameter string) []model.Source {
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
		kind := bb.Blocks[layer].Kind
		if strings.Contains(kind, "+") {
			kind, inMixer, _ = strings.Cut(inMixer, ".")
		}
		rules, rest = n.mixers[kind], inMixer
	}
	return found(rules, rest, fmt.Sprintf("%s%d.", n.layers, n.first+layer), parameter)
}

// found returns the tensors of the parameter name in a layer, by the rules for names that start with prefix.
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

// outside returns the tensors of a parameter outside of the layers.
func (n *hfNames) outside(parameter string) []model.Source {
	name := parameter
	switch {
	case n.others[parameter] != "":
		name = n.others[parameter]
	case strings.Contains(parameter, "position_embedding"):
		name = n.positions + "weight"
	case strings.HasPrefix(parameter, "backbone.embedding_norm."):
		name = n.entry + parameter[strings.LastIndex(parameter, ".")+1:]
	case strings.HasPrefix(parameter, "backbone.embedding"):
		name = n.embedding[0] + "weight"
	case parameter == headName && n.head != "":
		name = n.head
	case strings.HasPrefix(parameter, "backbone.ln_f."), strings.HasPrefix(parameter, "backbone.norm_f."):
		name = n.norm + parameter[strings.LastIndex(parameter, ".")+1:]
	}
	return []model.Source{{Name: name}}
}

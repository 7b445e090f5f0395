package release

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
)

// ggufTable is the name of the embedding's weights.
const ggufTable = "token_embd.weight"

// ggufConfig is the name of the value with the config.json that a model was published with. Its numbers have more
// digits than those of a file, and it has the multipliers that a file has in its weights.
const ggufConfig = "hippo.published_config"

// ggufShape is the shape of a model in a GGUF file.
type ggufShape struct {
	arch      string
	values    []checkpoint.GGUFValue
	published published      // what reading these values returns
	forms     ggufForms      // forms of the tensors
	zeros     map[string]int // lengths of the biases to write that the model does not have
	divisors  []float32      // divisors of the frequencies of rotary positions; nil for none
	mtp       *model.MTP     // nil for none
	ownHead   bool           // the file has a head: the embedding's weights with another multiplier
}

// ggufShapeOf returns the shape of a model as a GGUF file. It uses the first architecture, by name, that has the
// model's layers and for which reading the values gives the same model again. So reading and writing share one table,
// and everything that an architecture cannot represent is detected.
func ggufShapeOf(m *model.Model, config []byte) (ggufShape, error) {
	layers, err := layersOf(&m.Config)
	if err != nil {
		return ggufShape{}, err
	}
	var nearest, unread error // the closest architecture's problems; an architecture cannot read its own values
	least := math.MaxInt
	for _, name := range archsFor(hfType(config)) {
		if !ggufArchs[name].has(layers) {
			continue
		}
		s, problems, err := ggufShapeIn(name, m, config)
		switch {
		case err != nil:
			unread = cmp.Or(unread, fmt.Errorf("as %s: %w", name, err))
		case len(problems) == 0:
			return s, nil
		case len(problems) < least:
			nearest, least = fmt.Errorf("as %s: %s", name, strings.Join(problems, "; ")), len(problems)
		}
	}
	return ggufShape{}, cmp.Or(nearest, unread, ggufMixers(layers))
}

// archsFor returns the architectures by name, except that the one for the model_type comes first.
func archsFor(family string) []string {
	names := sortedKeys(ggufArchs)
	slices.SortStableFunc(names, func(a, b string) int {
		is := func(name string) int {
			if own := ggufArchs[name].family; own != "" && own == family {
				return 0
			}
			return 1
		}
		return is(a) - is(b)
	})
	return names
}

// has reports whether an architecture has the mixers and feed-forward parts of all layers. An architecture with other
// mixers than attention does not match a model with attention only.
func (a ggufArch) has(layers []layerParts) bool {
	other := func(l layerParts) bool { return l.kind() != "attention" }
	if a.mixers != "attention" && !slices.ContainsFunc(layers, other) {
		return false
	}
	return !slices.ContainsFunc(layers, func(l layerParts) bool {
		return !slices.Contains(strings.Fields(a.mixers), l.kind()) ||
			!slices.Contains(strings.Fields(a.mlp), l.mlp.name)
	})
}

// ggufShapeIn returns the shape of a model in an architecture that has its layers, and the problems that prevent it. It
// returns an error if the architecture cannot read its own values.
func ggufShapeIn(name string, m *model.Model, config []byte) (s ggufShape, problems []string, err error) {
	arch, c := ggufArchs[name], m.Config
	s.arch, s.zeros = name, map[string]int{}
	layers, err := layersOf(&c)
	if err != nil {
		return s, nil, err
	}
	if problems = arch.unfit(&c, layers); len(problems) > 0 {
		return s, problems, nil
	}
	var factors ggufForms
	s.ownHead = arch.headed && m.Head == nil
	if arch.baked {
		s.ownHead = m.Head == nil && orOne(c.EmbedScale) != orOne(c.LogitScale)
		layers, factors = bare(&c, layers)
	}
	length := contextLength(config)
	if arch.learned {
		length = uint32(c.MaxPositions)
	}
	s.values = append(ggufValues(name, &c, layers), checkpoint.GGUFValue{Key: name + ".context_length", Value: length})
	if arch.plusOne && name != qwen3NextArch {
		s.values = append(s.values, ggufSections(name, config))
	}
	s.divisors = ggufDivisorsOf(layers)
	// The names of tensors follow from the values, as if the file had every tensor. The tensors of the file follow from
	// the names.
	k := &ggufKeys{arch: name, values: asRead(s.values)}
	routed := k.sizeOr("expert_count", 0, 0) > 0
	rows := []int{c.PaddedVocab(), c.DModel}
	k.shape = func(tensor string) []int {
		switch {
		case tensor == ggufDivisors:
			return s.divisorsShape()
		case strings.HasSuffix(tensor, ggufRouter) && !routed:
			return nil
		}
		return rows
	}
	k.vector = func(string) ([]float32, error) { return s.divisors, nil }
	p, err := k.published(arch)
	if err != nil {
		return s, nil, err
	}
	has := s.tensorNames(m, &p.names, arch)
	has[ggufDivisors] = s.divisorsShape()
	k.shape = func(tensor string) []int { return has[tensor] }
	if s.published, err = k.published(arch); err != nil {
		return s, nil, err
	}
	s.forms = s.published.forms.with(factors)
	if len(config) > 0 {
		k.values[ggufConfig] = string(config)
		if _, ok := s.published.asPublished(k); ok {
			s.values = append(s.values, checkpoint.GGUFValue{Key: ggufConfig, Value: string(config)})
		}
	}
	read, err := layersOf(&s.published.config)
	return s, slices.Concat(arch.unknownBiases(has), sameFrame(&c, &s.published.config),
		differences(arch.withZeros(layers), read)), err
}

// divisorsShape returns the shape of the tensor of divisors, nil for none.
func (s *ggufShape) divisorsShape() []int {
	if s.divisors == nil {
		return nil
	}
	return []int{len(s.divisors)}
}

// unfit lists the properties of a model that llama.cpp does not support in an architecture.
func (a ggufArch) unfit(c *model.Config, layers []layerParts) []string {
	frame := *c
	frame.Norm, frame.MaxPositions, frame.LogitCap = model.NormRMS, 0, 0
	switch {
	case a.learned:
		frame.Norm, frame.MaxPositions = model.NormLayer, max(1, c.MaxPositions)
	case a.plusOne:
		frame.Norm = model.NormRMSPlusOne
	}
	if frame.EmbedNorm = a.embedded; a.embedded {
		frame.Norm = model.NormLayer
	}
	problems := sameFrame(c, &frame)
	for _, l := range layers {
		if lines := differences([]layerParts{l}, layers[:1]); a.baked && len(lines) > 0 {
			problems = append(problems, "found layers with different options, want the same in all")
			break
		}
		for _, p := range l.all() {
			want := part{p.name, maps.Clone(p.options)}
			for key, value := range a.fixed {
				if isFeedForward(p) && p.text(key) != "" {
					want.options[key] = value
				}
			}
			switch {
			case a.twice && (p.name == "mamba" || p.name == "mamba2"):
				want.set("d_inner", float64(2*c.DModel))
			case a.square && p.name == "attention":
				want.set("head_dim", float64(c.DModel/max(1, p.size("num_heads"))))
			case p.name == "gated-deltanet":
				want.set("head_v_dim", p.number("head_k_dim"))
			}
			for _, line := range p.differences(want) {
				if !slices.Contains(problems, line) {
					problems = append(problems, line)
				}
			}
		}
	}
	return problems
}

// tensorNames returns the names and shapes of the tensors to write, and records the biases to write as zeros.
func (s *ggufShape) tensorNames(m *model.Model, names *hfNames, arch ggufArch) map[string][]int {
	has := map[string][]int{}
	m.Shapes(func(name string, shape []int) {
		for _, x := range names.sources(&m.Backbone, name) {
			has[x.Name] = shape
		}
	})
	for _, part := range strings.Fields(arch.zeros) {
		weight := "." + part + ".weight"
		if part == "exp_probs_b" {
			weight = "." + ggufRouter
		}
		for _, name := range sortedKeys(has) {
			layer, ok := strings.CutSuffix(name, weight)
			if bias := layer + "." + part + ".bias"; ok && has[bias] == nil {
				s.zeros[bias], has[bias] = has[name][0], []int{has[name][0]}
			}
		}
	}
	return has
}

// withZeros returns layers with the biases that are written as zeros.
func (a ggufArch) withZeros(layers []layerParts) []layerParts {
	for _, part := range strings.Fields(a.zeros) {
		option := map[string]string{"ssm_conv1d": "conv_bias", "exp_probs_b": "choice_bias"}[part]
		for _, l := range layers {
			for _, p := range l.all() {
				if p.text(option) != "" {
					p.options[option] = "true"
				}
			}
		}
	}
	return layers
}

// unknownBiases lists the biases that llama.cpp does not have in an architecture.
func (a ggufArch) unknownBiases(has map[string][]int) (problems []string) {
	known := append(strings.Fields(a.biases), "ssm_conv1d", "ssm_dt", "exp_probs_b")
	for _, name := range sortedKeys(has) {
		if part, ok := strings.CutSuffix(name, ".bias"); ok {
			if part = part[strings.LastIndexByte(part, '.')+1:]; !slices.Contains(known, part) {
				problems = append(problems, fmt.Sprintf("found %s, want none", name))
			}
		}
	}
	return problems
}

// sameFrame lists the differences of two models outside of their layers. A multiplier of 0 means none.
func sameFrame(a, b *model.Config) (lines []string) {
	add := func(key string, x, y any) {
		if x != y {
			lines = append(lines, fmt.Sprintf("%s: found %v, want %v", key, x, y))
		}
	}
	add("d_model", a.DModel, b.DModel)
	add("vocab_size", a.PaddedVocab(), b.PaddedVocab())
	add("norm", a.Norm, b.Norm)
	add("max_position_embeddings", a.MaxPositions, b.MaxPositions)
	add("layer_norm_epsilon", float32(a.LayerNormEpsilon), float32(b.LayerNormEpsilon))
	add("embedding_multiplier", orOne(a.EmbedScale), orOne(b.EmbedScale))
	add("embedding_norm", a.EmbedNorm, b.EmbedNorm)
	add("logits_multiplier", orOne(a.LogitScale), orOne(b.LogitScale))
	add("logits_soft_cap", float32(a.LogitCap), float32(b.LogitCap))
	return lines
}

// orOne returns a multiplier as float32, the type in a GGUF file. 0 means none and gives 1.
func orOne(x float64) float32 {
	if x == 0 {
		return 1
	}
	return float32(x)
}

// asRead returns values in the types that reading a file gives.
func asRead(values []checkpoint.GGUFValue) map[string]any {
	read := map[string]any{}
	for _, v := range values {
		switch x := v.Value.(type) {
		case uint32:
			read[v.Key] = uint64(x)
		case float32:
			read[v.Key] = float64(x)
		case []uint32:
			all := make([]uint64, len(x))
			for i, n := range x {
				all[i] = uint64(n)
			}
			read[v.Key] = all
		default:
			read[v.Key] = x
		}
	}
	return read
}

// asPublished returns the model with the configuration that it was published with, and true, if the file has such a
// configuration and it describes the same model. Then numbers have all their digits, and multipliers are divided out of
// the weights.
func (p published) asPublished(k *ggufKeys) (published, bool) {
	text, _ := k.values[ggufConfig].(string)
	if text == "" {
		return p, false
	}
	own, err := parse([]byte(text))
	if err != nil || own.config.Validate() != nil {
		return p, false
	}
	c := own.config
	got, failed := layersOf(&c)
	want, failedToo := layersOf(&p.config)
	if errors.Join(failed, failedToo) != nil {
		return p, false
	}
	var factors ggufForms
	frame := c
	if ggufArchs[k.arch].baked {
		got, factors = bare(&frame, got)
	}
	if len(differences(got, want)) > 0 || len(sameFrame(&frame, &p.config)) > 0 {
		return p, false
	}
	c.VocabSize, c.PadVocab, c.UntiedHead = p.config.VocabSize, p.config.PadVocab, p.config.UntiedHead
	p.config, p.forms = c, p.forms.with(factors)
	return p, true
}

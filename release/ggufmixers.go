package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// ggufParts are the parts of layers that llama.cpp has in models with a state.
var ggufParts = []string{"mamba", "mamba2", "attention", "gated-conv", "relu2", "relu2-experts"}

// ggufMixers returns an error that names the mixers that keep a model from being written as a GGUF file, and their
// layers: those that llama.cpp does not have, or else those of hybrids, whose files are read only.
func ggufMixers(m *model.Model) error {
	layers, kinds, unknown := map[string][]string{}, []string{}, false
	isKnown := func(kind string) bool {
		parts := strings.FieldsFunc(kind, func(r rune) bool { return r == '+' || r == '>' })
		return !slices.ContainsFunc(parts, func(part string) bool { return !slices.Contains(ggufParts, part) })
	}
	for i, b := range m.Blocks {
		if !slices.Contains(kinds, b.Kind) {
			kinds = append(kinds, b.Kind)
		}
		layers[b.Kind] = append(layers[b.Kind], fmt.Sprint(i))
		unknown = unknown || !isKnown(b.Kind)
	}
	var stand []string
	for _, kind := range kinds {
		if isKnown(kind) != unknown && (unknown || len(kinds) > 1 || kind != "mamba" && kind != "mamba2") {
			stand = append(stand, fmt.Sprintf("%s in layers %s", kind, some(layers[kind])))
		}
	}
	switch {
	case len(stand) == 0:
		return nil
	case unknown:
		return fmt.Errorf("found %s, which it does not have: of mixers with a state it has mamba, mamba2 and "+
			"gated-conv", strings.Join(stand, " and "))
	}
	return errors.New("found " + strings.Join(stand, " and ") + ", want mamba or mamba2 alone: of hybrids, GGUF " +
		"files are read and not written (hippo convert --to hf writes what llama.cpp's own conversion reads)")
}

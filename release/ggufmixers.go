package release

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// ggufMixers returns an error that names the parts that no architecture of llama.cpp has, and their layers. If each
// part is in some architecture, the error names the kinds of layers that no architecture combines.
func ggufMixers(layers []layerParts) error {
	known := map[string]bool{model.MLPNone: true}
	for _, arch := range ggufArchs {
		for _, kind := range strings.Fields(arch.mixers + " " + arch.mlp) {
			for _, part := range strings.Split(kind, "+") {
				known[part] = true
			}
		}
	}
	where, kinds, unknown := map[string][]string{}, []string{}, false
	note := func(kind string, layer int) {
		if where[kind] == nil {
			kinds = append(kinds, kind)
		}
		if at := fmt.Sprint(layer); !slices.Contains(where[kind], at) {
			where[kind] = append(where[kind], at)
		}
	}
	for i, l := range layers {
		for _, p := range l.all() {
			if !known[p.name] {
				note(p.name, i)
				unknown = true
			}
		}
	}
	if !unknown {
		for i, l := range layers {
			kind := l.kind()
			if l.mlp.name != model.MLPNone {
				kind += "/" + l.mlp.name
			}
			note(kind, i)
		}
	}
	var stand []string
	for _, kind := range kinds {
		stand = append(stand, fmt.Sprintf("%s in layers %s", kind, some(where[kind])))
	}
	if unknown {
		return fmt.Errorf("found %s, which it does not have: of mixers with a state it has mamba, mamba2, rwkv7, "+
			"gated-conv, gated-deltanet and kda", strings.Join(stand, " and "))
	}
	return fmt.Errorf("found %s, which none of its architectures has together: %s", strings.Join(stand, " and "),
		strings.Join(sortedKeys(ggufArchs), ", "))
}

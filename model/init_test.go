package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/nn"
)

// TestInit checks that the same seed gives the same weights and another seed other ones, that no two parameters get the
// same values, and that the initial values of a parameter do not depend on the other layers.
func TestInit(t *testing.T) {
	weights := func(layers string, seed uint64) (all, drawn map[string][]float32) {
		m := hybrid(t, layers)
		m.Init(seed)
		all, drawn = map[string][]float32{}, map[string][]float32{}
		m.Params("", func(name string, p *nn.Param) {
			all[name] = read(p.Tensor)
			if p.Role == nn.Weight || p.Role == nn.Table || p.Role == nn.SSM { // others start at fixed values
				drawn[name] = all[name]
			}
		})
		return all, drawn
	}
	all, drawn := weights("h3,attention,s4d", 7)
	again, _ := weights("h3,attention,s4d", 7)
	elsewhere, _ := weights("h3,h3,s4d", 7)
	_, otherwise := weights("h3,attention,s4d", 8)
	for name, x := range all {
		if !slices.Equal(x, again[name]) {
			t.Errorf("%s: the same seed gives other weights", name)
		}
		if y := elsewhere[name]; y != nil && !slices.Equal(x, y) {
			t.Errorf("%s depends on the mixer of layer 1", name)
		}
	}
	seen := map[string]string{}
	for name, x := range drawn {
		if slices.Equal(x, otherwise[name]) {
			t.Errorf("%s: another seed gives the same weights", name)
		}
		key := fmt.Sprint(x[:4]) // the shortest parameter has as many
		if twin, ok := seen[key]; ok {
			t.Errorf("%s and %s start with the same weights", name, twin)
		}
		seen[key] = name
	}
}

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/mixer"
)

// mixers are the mixers a configuration can name: one line each.
var mixers = map[string]func(mixer.Config) (mixer.Mixer, error){
	"h3":        mixer.NewH3,
	"attention": mixer.NewAttention,
	"s4d":       mixer.NewS4D,
}

// Mixers lists the names a configuration can use, sorted.
func Mixers() []string { return slices.Sorted(maps.Keys(mixers)) }

func newMixer(name string, cfg mixer.Config) (mixer.Mixer, error) {
	build, ok := mixers[name]
	if !ok {
		return nil, fmt.Errorf("found mixer %q, want one of %s", name, strings.Join(Mixers(), ", "))
	}
	return build(cfg)
}

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// presets are model shapes by name: a small one that learns within minutes, one for an evening, and the published ones
// (H3, arXiv:2212.14052, appendix; the positions of attention are those of the released checkpoints).
var presets = map[string]func(c *Config){
	"tiny":    func(c *Config) { c.shape(128, 4, 4, 2); c.DState = 32; c.EmbedDropout, c.AttnDropout = 0, 0 },
	"small":   func(c *Config) { c.shape(256, 6, 4, 1, 4) },
	"h3-125m": func(c *Config) { c.shape(768, 12, 12, 6); c.VocabSize = 50257 },
	"h3-355m": func(c *Config) { c.shape(1024, 24, 16, 8, 16); c.VocabSize = 50257 },
	"h3-1.3b": func(c *Config) { c.shape(2048, 24, 16, 8, 16); c.VocabSize = 50257 },
	"h3-2.7b": func(c *Config) { c.shape(2560, 32, 20, 8, 16, 24); c.VocabSize = 50257 },
}

func (c *Config) shape(dModel, nLayer, heads int, attention ...int) {
	c.DModel, c.NLayer, c.NumHeads, c.AttnIdx = dModel, nLayer, heads, attention
}

// Presets lists the names of the presets, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the shape of that name. VocabSize is 0 where the tokenizer decides it.
func Preset(name string) (Config, error) {
	set, ok := presets[name]
	if !ok {
		return Config{}, fmt.Errorf("preset: found %q, want one of %s", name, strings.Join(Presets(), ", "))
	}
	c := DefaultConfig()
	set(&c)
	return c, nil
}

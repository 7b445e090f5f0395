package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
)

// presets holds model shapes by name: a small hybrid that learns within minutes, one for an evening, and the published
// models (H3, arXiv:2212.14052, appendix; the positions of attention are those of the released checkpoints; Mamba,
// arXiv:2312.00752, table 12, with the vocabulary of GPT-NeoX; Hyena, arXiv:2302.10866, HyenaDNA, arXiv:2306.15794, S4,
// arXiv:2111.00396, and Qwen3.5 by the configurations of their releases). init adds the shapes of mixer.Info.Tiny.
var presets = map[string]func(c *Config){
	"tiny":    func(c *Config) { c.tiny(); c.AttnIdx = []int{2} },
	"small":   func(c *Config) { c.shape(256, 6, 4, 1, 4) },
	"h3-125m": func(c *Config) { c.shape(768, 12, 12, 6); c.VocabSize = 50257 },
	"h3-355m": func(c *Config) { c.shape(1024, 24, 16, 8, 16); c.VocabSize = 50257 },
	"h3-1.3b": func(c *Config) { c.shape(2048, 24, 16, 8, 16); c.VocabSize = 50257 },
	"h3-2.7b": func(c *Config) { c.shape(2560, 32, 20, 8, 16, 24); c.VocabSize = 50257 },

	"mamba-130m": func(c *Config) { c.mamba("mamba", 768, 24, 8) },
	"mamba-370m": func(c *Config) { c.mamba("mamba", 1024, 48, 8) },
	"mamba-790m": func(c *Config) { c.mamba("mamba", 1536, 48, 8) },
	"mamba-1.4b": func(c *Config) { c.mamba("mamba", 2048, 48, 8) },
	"mamba-2.8b": func(c *Config) { c.mamba("mamba", 2560, 64, 8) },

	"mamba2-130m": func(c *Config) { c.mamba("mamba2", 768, 24, 16) },
	"mamba2-370m": func(c *Config) { c.mamba("mamba2", 1024, 48, 16) },
	"mamba2-780m": func(c *Config) { c.mamba("mamba2", 1536, 48, 16) },
	"mamba2-1.3b": func(c *Config) { c.mamba("mamba2", 2048, 48, 16) },
	"mamba2-2.7b": func(c *Config) { c.mamba("mamba2", 2560, 64, 16) },

	"qwen3.5-0.8b": (*Config).qwen35, // its part for text

	"hyena-153m": func(c *Config) { c.shape(864, 18, 1); c.Mixer, c.DInner, c.VocabSize = hyena153m, 1728, 50257 },

	// The release has two S4 layers before each MLP, and an adaptive embedding of 267,735 words. This shape has one
	// layer, and GPT-2's tokens.
	"s4-wikitext-103": func(c *Config) {
		c.shape(1024, 16, 1)
		c.Mixer, c.VocabSize, c.EmbedDropout, c.ResidDropout = "s4(l_max=8192)", 50257, 0.25, 0.25
	},

	"hyenadna-tiny-1k":       func(c *Config) { c.hyenaDNA(128, 2, 1024) },
	"hyenadna-tiny-1k-d256":  func(c *Config) { c.hyenaDNA(256, 2, 1024) },
	"hyenadna-tiny-16k-d128": func(c *Config) { c.hyenaDNA(128, 2, 16384) },
	"hyenadna-small-32k":     func(c *Config) { c.hyenaDNA(256, 4, 32768) },
	"hyenadna-medium-160k":   func(c *Config) { c.hyenaDNA(256, 8, 160000) },
	"hyenadna-medium-450k":   func(c *Config) { c.hyenaDNA(256, 8, 450000) },
	"hyenadna-large-1m":      func(c *Config) { c.hyenaDNA(256, 8, 1000000) },
}

// Every mixer has a preset NAME-tiny of its own shape.
func init() {
	for _, m := range registry {
		presets[m.Name+"-tiny"] = func(c *Config) {
			c.tiny()
			c.Mixer, c.DModel, c.NLayer, c.DInner = m.Name, m.Tiny.DModel, m.Tiny.NLayer, m.Tiny.DInner
			if m.Tiny.Options != "" {
				c.Mixer += "(" + m.Tiny.Options + ")"
			}
			switch {
			case m.Tiny.DInner == 0:
				c.MLP = MLPNone
			case m.Tiny.MLP != "":
				c.MLP = m.Tiny.MLP
			}
			if strings.HasPrefix(m.Name, "mamba") {
				c.Norm = NormRMS
			}
		}
	}
}

// tiny sets the shape of the default run without its attention layer.
func (c *Config) tiny() {
	c.shape(128, 4, 4)
	c.DState, c.EmbedDropout, c.AttnDropout = 32, 0, 0
}

// hyena153m is the mixer of Hyena 153M (safari, configs/experiment/pile/hyena.yaml).
const hyena153m = "hyena(emb_dim=33,filter_order=64,l_max=2048,train_pos_emb=true,w=14)"

// hyenaDNA sets the shape of a released HyenaDNA model for sequences of length nucleotides and two special tokens. The
// shift of the window follows the code published with its weights (standalone_hyenadna.py).
func (c *Config) hyenaDNA(dModel, nLayer, length int) {
	c.shape(dModel, nLayer, 1)
	c.Mixer = fmt.Sprintf("hyena(emb_dim=5,filter_order=64,l_max=%d,shift=0.05,w=10)", length+2)
	c.VocabSize = 12
}

func (c *Config) shape(dModel, nLayer, heads int, attention ...int) {
	c.DModel, c.NLayer, c.NumHeads, c.AttnIdx = dModel, nLayer, heads, attention
}

// mamba sets the shape of a language model of the Mamba releases.
func (c *Config) mamba(mixer string, dModel, nLayer, pad int) {
	c.Mixer, c.Norm, c.MLP, c.DModel, c.NLayer = mixer, NormRMS, MLPNone, dModel, nLayer
	c.VocabSize, c.PadVocab, c.EmbedDropout, c.AttnDropout = 50277, pad, 0, 0
}

// qwen35 sets the shape of the text part of Qwen3.5-0.8B, according to its config.json.
func (c *Config) qwen35() {
	c.DModel, c.DInner, c.VocabSize, c.PadVocab = 1024, 3584, 248320, 1
	c.Norm, c.MLP, c.LayerNormEpsilon, c.EmbedDropout, c.AttnDropout = NormRMSPlusOne, "swiglu(bias=false)", 1e-6, 0, 0
	c.Layers = strings.TrimSuffix(strings.Repeat("gated-deltanet(head_k_dim=128,norm_eps=1e-06,num_k_heads=16)*3,"+
		"gated-attention(bias=false,head_dim=256,kv_heads=2,num_heads=8,out_bias=false,rotary_base=1e+07,"+
		"rotary_emb_dim=64),", 6), ",")
}

// Presets returns the names of the presets, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the shape of the given name. Its VocabSize is 0 if the tokenizer determines it.
func Preset(name string) (Config, error) {
	set, ok := presets[name]
	if !ok {
		return Config{}, fmt.Errorf("preset: found %q, want one of %s%s", name, strings.Join(Presets(), ", "),
			config.DidYouMean(name, Presets()))
	}
	c := DefaultConfig()
	set(&c)
	return c, nil
}

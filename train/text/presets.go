package text

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// defaultPreset is the preset of a run that names none.
const defaultPreset = "tiny"

// tiny holds the settings of the default run: it learns English spelling within minutes on two cores.
func tiny() Config {
	c := Config{
		Preset: defaultPreset, Seed: 1, Precision: "float32", Memory: train.MemoryCheck, ValidFraction: 0.1,
		TextField: "text", Documents: documentsApart, Tokenizer: "bytes", LoRA: LoRA{Base: engine.Float32.String()},
		Train: Loop{
			Steps: 700, BatchSize: 4, SeqLen: 256, Shards: 1, EvalEvery: 100, EvalTokens: 16 << 10, SampleEvery: 200,
			SampleTokens: 200, SaveEvery: 100, LogEvery: 10, Clock: train.WallClock,
		},
		Optim: train.Optim{
			LR: 4e-3, SSMLR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, DecayRule: "release", Clip: 1,
			Schedule: "cosine", Warmup: 60, MinLRRatio: 0.1,
		},
	}
	c.Train.settle()
	return c
}

// presets holds functions that change the settings of tiny. The published shapes take the settings of the releases
// (arXiv:2212.14052, appendix). The tiny presets of the mixers are missing here, as they differ from tiny only in the
// learning rates.
var presets = map[string]func(c *Config){
	"small": func(c *Config) {
		c.Train.Steps, c.Train.BatchSize, c.Train.SeqLen, c.Train.EvalEvery, c.Train.SaveEvery = 5000, 8, 512, 250, 250
		c.Train.SampleEvery, c.Optim.LR, c.Optim.Warmup = 500, 2e-3, 200
	},
	"h3-125m": func(c *Config) { c.release(6e-4, 256) },
	"h3-355m": func(c *Config) { c.release(3e-4, 256) },
	"h3-1.3b": func(c *Config) { c.release(2e-4, 512) },
	"h3-2.7b": func(c *Config) { c.release(1.6e-4, 512) },

	"mamba-130m": func(c *Config) { c.release(3e-3, 256) }, // five times those of GPT-3: arXiv:2312.00752, appendix E.2
	"mamba-370m": func(c *Config) { c.release(1.5e-3, 256) },
	"mamba-790m": func(c *Config) { c.release(1.25e-3, 256) },
	"mamba-1.4b": func(c *Config) { c.release(1e-3, 256) },
	"mamba-2.8b": func(c *Config) { c.release(8e-4, 256) },

	"mamba2-130m": func(c *Config) { c.release(3e-3, 256) }, // as Mamba's: arXiv:2405.21060, appendix D
	"mamba2-370m": func(c *Config) { c.release(1.5e-3, 256) },
	"mamba2-780m": func(c *Config) { c.release(1.25e-3, 256) },
	"mamba2-1.3b": func(c *Config) { c.release(1e-3, 256) },
	"mamba2-2.7b": func(c *Config) { c.release(8e-4, 256) },

	// Not published. Uses the rate of other models of its size, and 20 tokens per parameter (arXiv:2203.15556, §3.4).
	"qwen3.5-0.8b": func(c *Config) {
		c.release(6e-4, 256)
		c.Train.Steps, c.Optim.Warmup = 30_000, 300
	},

	"hyena-153m": func(c *Config) { c.release(6e-4, 256) },

	"s4-wikitext-103": func(c *Config) { // configs/experiment/lm/s4-wt103.yaml: eight devices with a sequence each
		c.release(5e-4, 8)
		c.Train.SeqLen, c.Optim.Warmup = 8192, 1000
	},

	"hyenadna-tiny-1k":       func(c *Config) { c.dna(1024) },
	"hyenadna-tiny-1k-d256":  func(c *Config) { c.dna(1024) },
	"hyenadna-tiny-16k-d128": func(c *Config) { c.dna(16384) },
	"hyenadna-small-32k":     func(c *Config) { c.dna(32768) },
	"hyenadna-medium-160k":   func(c *Config) { c.dna(160000) },
	"hyenadna-medium-450k":   func(c *Config) { c.dna(450000) },
	"hyenadna-large-1m":      func(c *Config) { c.dna(1000000) },
}

// release sets the training settings of the releases: batch sequences of 2048 tokens per update, some 400 billion
// tokens in all if batches are large, a warmup of 1 %.
func (c *Config) release(lr float64, batch int) {
	c.Tokenizer = "gpt2"
	steps := 800000 * 256 / max(256, batch)
	c.Optim.LR, c.Optim.SSMLR, c.Optim.Warmup = lr, 0, steps/100
	c.Train.BatchSize, c.Train.Shards, c.Train.SeqLen, c.Train.Steps = 1, batch, 2048, steps
	c.Train.EvalEvery, c.Train.SaveEvery, c.Train.SampleEvery, c.Train.LogEvery = 1000, 1000, 1000, 1
}

// dna sets the training settings of HyenaDNA (arXiv:2306.15794, appendix A.1): at most 2²⁰ tokens per update.
func (c *Config) dna(length int) {
	c.release(6e-4, min(256, 1<<20/length))
	c.Tokenizer, c.Train.SeqLen, c.Train.Steps, c.Optim.Warmup = "dna", length, 10000, 100
}

// Presets lists the names of the presets, sorted.
func Presets() []string { return model.Presets() }

// Preset returns the settings of the named preset: the defaults that a file, the environment and flags then override.
func Preset(name string) (Config, error) {
	shape, err := model.Preset(name)
	if err != nil {
		return Config{}, err
	}
	c := tiny()
	c.Preset, c.Model = name, shape
	if set, ok := presets[name]; ok {
		set(&c)
	}
	for _, m := range model.Mixers() {
		if name == m.Name+"-tiny" && m.Tiny.LR > 0 {
			c.Optim.LR, c.Optim.SSMLR = m.Tiny.LR, m.Tiny.SSMLR
		}
	}
	return c, nil
}

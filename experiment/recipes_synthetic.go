package experiment

import (
	"cmp"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// officialSymbols has the settings of the synthetic languages in their authors' repository, except for the number of
// epochs and the schedule, which differ between tasks. Linear layers start at std 0.02, biases at 0.
func officialSymbols(c *labelled.Config) {
	c.Model.DModel, c.Model.DInner, c.Model.MLP, c.Model.Norm, c.Model.DState = 32, 128, "gelu", "layer", 64
	c.Model.HeadDim, c.Model.NumHeads, c.Model.ResidDropout, c.Model.EmbedDropout = 1, 1, 0, 0.1
	c.Model.AttnDropout = 0.1
	c.BatchSize = 32
	c.Optim.LR, c.Optim.SSMLR, c.Optim.Beta2, c.Optim.WeightDecay = 5e-4, 5e-4, 0.999, 0.1
	c.Optim.DecayRule, c.Optim.Clip = "release", 0
}

// tablePaper is the table with the accuracies of the two tasks.
const tablePaper = "Hungry Hungry Hippos, arXiv:2212.14052, Table 2"

// symbolModel is a two-layer model for these tasks.
type symbolModel struct {
	name, layers      string
	positions         string
	lr, ssmLR         float64 // rates of recall, with the loss on the answer
	induction, recall float64 // published
}

// symbolModels are the models of the tables, the paper's own first.
//
// The paper's S4D shares one A among all channels and starts with a random B, normalized and folded into C. The S4D
// here has an A for each channel and B = 1. The inverse initialization, zero-order hold and the output without a gate
// are the same.
var symbolModels = append([]symbolModel{
	{"h3", "h3*2", "none", 4e-3, 4e-3, 100, 99.8},
	{"h3-heads", "h3(head_dim=4)*2", "none", 4e-3, 4e-3, 0, 0}, // each mode of a head keeps 4 times 4 numbers
	{"s4d", "s4d(measure=diag-inv,gate=false)*2", "none", 2e-3, 1e-3, 35.6, 86.0},
	{"gss", "gss(measure=diag-lin)*2", "none", 2e-3, 1e-3, 6.8, 78.0},
	{"gss-wide", "gss(bottleneck=1,measure=diag-lin)*2", "none", 2e-3, 1e-3, 0, 0}, // 32 systems, not 8
	{"attention", "attention*2", "learned", 1e-3, 1e-3, 100, 100},
	{"hybrid", "h3,attention", "none", 1e-3, 1e-3, 0, 0},
	{"hyena", "hyena(l_max=64)*2", "none", 2e-3, 1e-3, 0, 0},
	{"linear-attention", "linear-attention*2", "learned", 1e-3, 1e-3, 0, 0},
	{"mamba", "mamba*2", "none", 2e-3, 1e-3, 0, 0},
	{"rotary", "attention(rotary_emb_dim=16)*2", "none", 1e-3, 1e-3, 0, 0},
	{"alibi", "attention(alibi=true,num_heads=4)*2", "none", 1e-3, 1e-3, 0, 0},
}, newerModels(func(name, layers string) symbolModel {
	return symbolModel{name, layers, "none", 2e-3, 1e-3, 0, 0}
})...)

// newer are mixers published after the papers of these tasks.
var newer = []string{"mamba2", "mamba3", "deltanet", "gated-deltanet", "kda", "gdn2", "rwkv7", "mlstm", "slstm",
	"retention", "rg-lru", "gated-attention", "mla"}

// newerModels returns a two-layer model of each, with the options of its preset.
func newerModels[T any](of func(name, layers string) T) (models []T) {
	for _, name := range newer {
		c, err := model.Preset(name + "-tiny")
		if err != nil {
			panic(err) // TestRecipes reads them all
		}
		models = append(models, of(name, c.Mixer+"*2"))
	}
	return models
}

// symbolRecipes returns two recipes for each model: one that succeeds within a minute or two, and one with the official
// settings. answer and official are their additions to officialSymbols.
func symbolRecipes(published func(symbolModel) float64, answer func(symbolModel) symbolTraining,
	official symbolTraining) []Recipe {
	var out []Recipe
	add := func(m symbolModel, suffix string, t symbolTraining) {
		r := Recipe{Name: m.name + suffix, Published: published(m), Options: t.options}
		r.Set = func(c *labelled.Config) {
			officialSymbols(c)
			c.Model.Layers, c.Positions = m.layers, m.positions
			t.set(c)
		}
		if r.Published != 0 {
			r.Where = tablePaper
		}
		out = append(out, r)
	}
	for _, m := range symbolModels {
		add(m, "", answer(m))
	}
	for _, m := range symbolModels {
		add(m, "-official", official)
	}
	return out
}

// symbolTraining has the loss, length and rates of a symbolModel's training. Rates of 0 are the official ones.
type symbolTraining struct {
	loss             string
	epochs           int
	schedule         string
	warmup, minRatio float64
	lr, ssmLR        float64
}

func (t symbolTraining) set(c *labelled.Config) {
	c.Epochs, c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = t.epochs, t.schedule, t.warmup, t.minRatio
	if t.lr > 0 {
		c.Optim.LR, c.Optim.SSMLR = t.lr, t.ssmLR
	}
}

func (t symbolTraining) options(o any) {
	switch o := o.(type) {
	case *task.InductionOptions:
		o.Loss = t.loss
	case *task.RecallOptions:
		o.Loss = t.loss
	}
}

// answerOnly returns the training of the recipes that succeed.
func answerOnly(schedule string, lr, ssmLR float64, epochs int) symbolTraining {
	return symbolTraining{"answer", epochs, schedule, 3, 0.1, lr, ssmLR}
}

// The loss over all positions drowns the loss of the answer, which is at one of 31 positions; the others are random.
// With the loss on the answer alone, and a higher learning rate, a few dozen epochs suffice where hundreds do not. All
// models gain by it: S4D and GSS learn the induction head, too.
var (
	inductionRecipes = symbolRecipes(func(m symbolModel) float64 { return m.induction },
		func(symbolModel) symbolTraining { return answerOnly("cosine", 1e-3, 1e-3, 40) },
		symbolTraining{loss: "all", epochs: 400, schedule: "cosine", warmup: 40, minRatio: 0.1})
	recallRecipes = symbolRecipes(func(m symbolModel) float64 { return m.recall },
		func(m symbolModel) symbolTraining {
			t := answerOnly("linear", m.lr, m.ssmLR, 100)
			if m.name == "attention" || m.name == "mla" { // with the loss at the answer alone, most seeds stay at half
				t.loss = "all"
			}
			return t
		},
		symbolTraining{loss: "all", epochs: 200, schedule: "linear", warmup: 20})
	recallLargeRecipes = symbolRecipes(func(symbolModel) float64 { return 0 },
		func(m symbolModel) symbolTraining { return answerOnly("linear", m.lr, m.ssmLR, 200) },
		symbolTraining{loss: "all", epochs: 400, schedule: "linear", warmup: 40})
)

// mqarRecipes are models of two layers without MLPs, as in the repository of Zoology
// (experiments/paper_configs/iclr24_zoology_figure2); the paper shows its results as curves.
var mqarRecipes = twoLayers(func(c *labelled.Config) {
	c.Model.DModel, c.Model.MLP, c.Model.Norm, c.Model.NumHeads = 64, "none", "layer", 1
	c.Model.EmbedDropout, c.Model.AttnDropout = 0, 0.1
	c.Epochs, c.BatchSize = 8, 64
	c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.DecayRule = 3e-3, 1e-3, 0.1, "matrices"
	c.Optim.Clip, c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = 1, "cosine", 1, 0.01
},
	append([]Recipe{
		layered("hybrid", "h3,attention", "", ""),
		layered("attention", "attention*2", "", "learned"),
		layered("h3", "h3(head_dim=2,d_state=64)*2", "", ""),
		layered("hyena", "hyena(l_max=64)*2", "", ""),
		layered("mamba", "mamba*2", "", ""),
		layered("linear-attention", "linear-attention*2", "", "learned"),
		layered("s4d", "s4d*2", "", ""),
	}, newerModels(func(name, layers string) Recipe { return layered(name, layers, "", "") })...)...,
)

// copyingRecipes are models of two layers of 64 channels, as in the paper, at a higher learning rate than its constant
// 1e-4.
var copyingRecipes = twoLayers(func(c *labelled.Config) {
	c.Model.DModel, c.Model.Norm, c.Model.DState = 64, "layer", 64
	c.Epochs, c.BatchSize = 4, 64
	c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.Clip = 2e-3, 1e-3, 0, 1
	c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = "cosine", 1, 0.01
},
	append([]Recipe{
		{Name: "mamba", Published: 99.8, Where: mambaPaper, Set: func(c *labelled.Config) {
			c.Model.Layers, c.Model.MLP, c.Model.Norm = "mamba*2", "none", "rms"
		}},
		layered("h3", "h3*2", "gelu", "").published(57.0, mambaPaper),
		layered("hyena", "hyena(l_max=272)*2", "gelu", "").published(30.1, mambaPaper),
		layered("s4", "s4*2", "none", "").published(18.3, mambaPaper),
		layered("attention", "attention(rotary_emb_dim=16,num_heads=4)*2", "gelu", ""),
	}, newerModels(func(name, layers string) Recipe { return layered(name, layers, "gelu", "") })...)...,
)

// mambaPaper is the table with the accuracies of selective copying.
const mambaPaper = "Mamba, arXiv:2312.00752, Table 1, at length 4096"

// layered returns a recipe that sets layers, and the MLP and the positions unless they are empty.
func layered(name, layers, mlp, positions string) Recipe {
	return Recipe{Name: name, Set: func(c *labelled.Config) {
		c.Model.Layers, c.Model.MLP, c.Positions = layers, cmp.Or(mlp, c.Model.MLP), cmp.Or(positions, c.Positions)
	}}
}

// published returns the recipe with its result in a paper.
func (r Recipe) published(result float64, where string) Recipe {
	r.Published, r.Where = result, where
	return r
}

// twoLayers prepends the shared settings to those of each recipe.
func twoLayers(shared func(*labelled.Config), recipes ...Recipe) []Recipe {
	for i, r := range recipes {
		recipes[i].Set = func(c *labelled.Config) {
			shared(c)
			r.Set(c)
		}
	}
	return recipes
}

package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// The recipes of the Long Range Arena other than ListOps. Published numbers are accuracies in percent.
//
// Recipes named s4d and s4 have the hyper-parameters of state-spaces/s4, configs/experiment/lra/old/v3-*.yaml, which
// the papers (arXiv:2206.11893 and 2206.12037) share between all diagonal and DPLR models. Differences: layer norm
// replaces batch norm, norms come before layers also in the image task, and each channel has its own system. They need
// a large machine.
//
// Recipes named transformer have the hyper-parameters of google-research/long-range-arena, with these changes: learned
// positions replace sinusoids, heads have the model's width divided by their number, and the learning rate decays
// linearly, not by the inverse root. Pixels are tokens.
//
// Recipes named -small fit a laptop, and s4d-small is the default. Those of one task have the same width, depth and
// settings; H3 and Mamba look back only, the others both ways. Their rates are first choices, not tuned ones.

const (
	inS4DPaper = "arXiv:2206.11893, table of the Long Range Arena"
	inLRAPaper = "arXiv:2011.04006, table 1"
)

// lraSSM is a recipe's settings for state-space layers. Defaults are the small layers, an ssmLR of 0.001, a decay of
// 0.05 and the pool mean.
type lraSSM struct {
	layers           string
	width            int
	lr, ssmLR, decay float64
	dropout          float64
	pool             string
	epochs, batch    int
	warmup           float64       // epochs
	time             time.Duration // 0 for no limit
}

func (r lraSSM) set(c *labelled.Config) {
	r.layers, r.pool = cmp.Or(r.layers, lraSmall), cmp.Or(r.pool, "mean")
	r.ssmLR, r.decay = cmp.Or(r.ssmLR, 0.001), cmp.Or(r.decay, 0.05)
	c.Model.Layers, c.Model.DModel, c.Model.MLP, c.Model.Norm = r.layers, r.width, "none", "layer"
	c.Model.ResidDropout, c.Model.EmbedDropout = r.dropout, 0
	c.Pool, c.Positions, c.Epochs, c.BatchSize, c.Time = r.pool, "none", r.epochs, r.batch, r.time
	c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.Beta2 = r.lr, r.ssmLR, r.decay, 0.999
	c.Optim.DecayRule, c.Optim.Clip, c.Optim.Schedule, c.Optim.MinLRRatio = "release", 0, "cosine", 0
	c.Optim.WarmupEpochs = r.warmup
}

// lraTransformer is a recipe's settings for a transformer.
type lraTransformer struct {
	heads, layers, width, inner int
	dropout, attnDropout        float64
	pool                        string
	epochs, batch               int
	lr, decay                   float64
	schedule                    string
	warmup, minRatio            float64 // warmup epochs of the schedule, and the final ratio of the rate
}

func (r lraTransformer) set(c *labelled.Config) {
	c.Model.Layers, c.Model.DModel, c.Model.DInner = fmt.Sprintf(allSee, r.heads, r.layers), r.width, r.inner
	c.Model.MLP, c.Model.Norm = "gelu", "layer"
	c.Model.ResidDropout, c.Model.AttnDropout, c.Model.EmbedDropout = r.dropout, r.attnDropout, 0
	c.Pool, c.Positions, c.Epochs, c.BatchSize = r.pool, "learned", r.epochs, r.batch
	c.Optim.LR, c.Optim.WeightDecay, c.Optim.Beta2, c.Optim.DecayRule, c.Optim.Clip = r.lr, r.decay, 0.98, "release", 0
	c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = r.schedule, r.warmup, r.minRatio
}

// allSee is attention of every position to all others.
const allSee = "attention(num_heads=%d,bidirectional=true)*%d"

// lraPaper describes the papers' two recipes of state-space models for a task: the length of its sequences, the
// smallest dt (default 0.001), the accuracies of S4D and S4, and the settings of both.
type lraPaper struct {
	length   int
	dtMin    float64
	s4d, s4  float64
	settings lraSSM
}

// lraStateSpaces returns a laptop's recipe and those of the papers.
func lraStateSpaces(small lraSSM, p lraPaper) []Recipe {
	dt := fmt.Sprintf("d_state=64,dt_min=%g,dt_max=0.1,bidirectional=true", cmp.Or(p.dtMin, 0.001))
	diagonal, full := p.settings, p.settings
	diagonal.layers = "s4d(measure=diag-legs,train_b=true," + dt + ")*6"
	full.layers = fmt.Sprintf("s4(measure=legs,l_max=%d,%s)*6", p.length, dt)
	return []Recipe{
		{Name: "s4d-small", Set: small.set},
		{Name: "s4d", Published: p.s4d, Where: legS, Set: diagonal.set},
		{Name: "s4", Published: p.s4, Where: inS4DPaper + ", S4-LegS", Set: full.set},
	}
}

// lraRivals are the laptop-sized models to compare with s4d-small, each with its own factor of the learning rate.
var lraRivals = []struct {
	name, layers string
	rate         float64 // relative to that of s4d-small
}{
	{"h3-small", "h3(d_state=32)*%d", 0.5},
	{"s4-small", "s4(d_state=32,l_max=LENGTH,bidirectional=true)*%d", 1},
	{"mamba-small", "mamba*%d", 0.5},
	{"attention-small", "attention(num_heads=4,bidirectional=true)*%d", 0.25},
}

// rivals returns recipes with the settings of s4d-small and other layers. Attention has learned positions and MLPs no
// wider than the model. The kernels of S4 are as long as the sequences: training takes many times as long with shorter
// ones.
func rivals(small func(*labelled.Config), length int) (all []Recipe) {
	for _, r := range lraRivals {
		layers := strings.ReplaceAll(r.layers, "LENGTH", strconv.Itoa(length))
		all = append(all, Recipe{Name: r.name, Set: func(c *labelled.Config) {
			small(c)
			_, depth, _ := strings.Cut(c.Model.Layers, "*")
			n, err := strconv.Atoi(depth)
			if err != nil {
				panic(err) // TestRecipes reads them all
			}
			c.Model.Layers, c.Optim.LR = fmt.Sprintf(layers, n), c.Optim.LR*r.rate
			if strings.HasPrefix(r.name, "attention") {
				c.Model.MLP, c.Model.DInner, c.Positions = "gelu", c.Model.DModel, "learned"
			}
		}})
	}
	return all
}

// withRivals adds rivals of the first recipe for sequences of the given length, unless their names are taken.
func withRivals(recipes []Recipe, length int) []Recipe {
	for _, r := range rivals(recipes[0].Set, length) {
		if !slices.ContainsFunc(recipes, func(x Recipe) bool { return x.Name == r.Name }) {
			recipes = append(recipes, r)
		}
	}
	return recipes
}

// passageRecipes are for the tasks in place of text and retrieval, with the settings of text.
var passageRecipes = []Recipe{textRecipes[0]}

// lraSmall is the layers of a laptop's recipe.
const lraSmall = "s4d(d_state=32,bidirectional=true)*4"

var textRecipes = append(lraStateSpaces(
	lraSSM{width: 64, lr: 0.004, dropout: 0.1, epochs: 4, batch: 16, warmup: 0.4, time: time.Hour},
	lraPaper{4096, 0, 86.18, 86.82, lraSSM{width: 256, lr: 0.01, epochs: 32, batch: 16, warmup: 0.64}},
), Recipe{Name: "transformer", Published: 64.27, Where: inLRAPaper, Set: lraTransformer{
	heads: 4, layers: 4, width: 256, inner: 1024, dropout: 0.1, attnDropout: 0.1, pool: "cls",
	epochs: 26, batch: 32, lr: 5.6e-4, decay: 0.1, schedule: "linear", warmup: 10, minRatio: 0.63,
}.set})

// The transformer is trained for 5,000 steps, all of them in the warmup.
var retrievalRecipes = append(lraStateSpaces(
	lraSSM{width: 64, lr: 0.004, epochs: 1, batch: 16, warmup: 0.05, time: time.Hour},
	lraPaper{4000, 0, 89.46, 90.90, lraSSM{width: 256, lr: 0.01, epochs: 20, batch: 64, warmup: 1}},
), Recipe{Name: "transformer", Published: 57.46, Where: inLRAPaper, Set: lraTransformer{
	heads: 4, layers: 4, width: 128, inner: 512, dropout: 0.1, attnDropout: 0.1, pool: "cls",
	epochs: 1, batch: 32, lr: 3.5e-4, decay: 0.1, schedule: "constant", warmup: 1,
}.set})

var imageRecipes = append(lraStateSpaces(
	lraSSM{width: 96, lr: 0.006, dropout: 0.1, epochs: 15, batch: 50, warmup: 1, time: time.Hour},
	lraPaper{1024, 0, 88.19, 88.65, lraSSM{width: 512, lr: 0.01, dropout: 0.1, epochs: 200, batch: 50, warmup: 1}},
), Recipe{Name: "transformer", Published: 42.44, Where: inLRAPaper, Set: lraTransformer{
	heads: 8, layers: 1, width: 128, inner: 128, dropout: 0.3, attnDropout: 0.2, pool: "cls",
	epochs: 200, batch: 256, lr: 5e-4, decay: 0, schedule: "cosine", warmup: 1,
}.set, Options: func(o any) { o.(*task.ImageOptions).Tokens = true }})

var pathfinderRecipes = append(lraStateSpaces(
	lraSSM{width: 64, lr: 0.004, decay: 0.03, epochs: 4, batch: 64, warmup: 0.25, time: time.Hour},
	lraPaper{1024, 0, 93.06, 94.20,
		lraSSM{width: 256, lr: 0.004, decay: 0.03, pool: "last", epochs: 200, batch: 64, warmup: 1}},
), Recipe{Name: "transformer", Published: 71.40, Where: inLRAPaper, Set: lraTransformer{
	heads: 4, layers: 4, width: 32, inner: 32, dropout: 0.2, attnDropout: 0.1, pool: "mean",
	epochs: 200, batch: 512, lr: 1e-3, decay: 0, schedule: "cosine", warmup: 1,
}.set, Options: func(o any) { o.(*task.PathfinderOptions).Tokens = true }})

// The transformers of the arena all fail on Path-X.
var pathXRecipes = lraStateSpaces(
	lraSSM{layers: "s4d(d_state=32,dt_min=0.0001,dt_max=0.1,bidirectional=true)*4", width: 48, lr: 0.001,
		ssmLR: 0.0005, epochs: 1, batch: 16, warmup: 0.1, time: time.Hour},
	lraPaper{16384, 0.0001, 91.95, 96.35,
		lraSSM{width: 256, lr: 0.0005, ssmLR: 0.0005, epochs: 50, batch: 16, warmup: 1}},
)

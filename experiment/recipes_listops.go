package experiment

import (
	"fmt"
	"time"

	"github.com/hippo-ssm/hippo/train/labelled"
)

const (
	legS             = inS4DPaper + ", S4D-LegS"
	arenaTransformer = inLRAPaper + ", Transformer"
)

// listOpsRecipes are recipes of encoders.
//
// The official S4D has batch norms after each residual, where the layers here have layer norms before; otherwise its
// settings follow configs/experiment/lra/s4-lra-listops.yaml in github.com/state-spaces/s4, with diagonal systems. It
// takes days on a laptop. So does the published transformer, which classifies by a token before the sequence.
var listOpsRecipes = []Recipe{
	{Name: "s4d-small", Published: 60.47, Where: legS, Set: func(c *labelled.Config) {
		c.Model.Layers, c.Model.DModel, c.Model.MLP = "s4d(bidirectional=true,d_state=16)*4", 64, "none"
		c.Model.Norm = "layer"
		c.Pool, c.Epochs, c.BatchSize, c.Time = "mean", 8, 16, 60*time.Minute
		c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.DecayRule = 4e-3, 1e-3, 0.05, "matrices"
		c.Optim.Clip, c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = 1, "cosine", 0.05, 0
	}},
	{Name: "s4d", Published: 60.47, Where: legS, Set: func(c *labelled.Config) {
		c.Model.Layers = "s4d(bidirectional=true,measure=diag-legs,train_b=true,d_state=64)*8"
		c.Model.DModel, c.Model.MLP, c.Model.Norm = 128, "none", "layer"
		c.Pool, c.Epochs, c.BatchSize = "mean", 40, 50
		c.Optim.LR, c.Optim.SSMLR, c.Optim.WeightDecay, c.Optim.DecayRule = 1e-2, 1e-3, 0.05, "matrices"
		c.Optim.Clip, c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = 0, "cosine", 1, 0
	}},
	{Name: "attention-small", Published: 36.37, Where: arenaTransformer, Set: func(c *labelled.Config) {
		c.Model.Layers, c.Model.DModel, c.Model.MLP = fmt.Sprintf(allSee, 4, 4), 64, "gelu"
		c.Model.Norm = "layer"
		c.Pool, c.Positions, c.Epochs, c.BatchSize, c.Time = "mean", "learned", 2, 16, 60*time.Minute
		c.Optim.LR, c.Optim.WeightDecay, c.Optim.DecayRule, c.Optim.Clip = 1e-3, 0.05, "matrices", 1
		c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = "cosine", 0.1, 0
	}},
	{Name: "transformer", Published: 36.37, Where: arenaTransformer, Set: func(c *labelled.Config) {
		c.Model.Layers, c.Model.DModel, c.Model.DInner = fmt.Sprintf(allSee, 8, 6), 512, 2048
		c.Model.MLP, c.Model.Norm = "gelu", "layer"
		c.Pool, c.Positions, c.Epochs, c.BatchSize = "cls", "learned", 2, 32
		c.Optim.LR, c.Optim.WeightDecay, c.Optim.DecayRule, c.Optim.Clip = 1.6e-3, 0.1, "matrices", 0
		c.Optim.Schedule, c.Optim.WarmupEpochs, c.Optim.MinLRRatio = "cosine", 0.3, 0
	}},
}

package model

import "github.com/hippo-ssm/hippo/nn"

// naming holds the names of parameters outside the mixers. Package release knows the names in published files.
type naming struct{ embedding, positions, norm, mlpNorm, finalNorm string }

// embedNorm starts the names of the norm after the embedding.
const embedNorm = "backbone.embedding_norm."

var (
	mlpNames = naming{ // those of H3
		embedding: "backbone.embeddings.word_embeddings.", positions: "backbone.embeddings.position_embeddings.",
		norm: "norm1.", mlpNorm: "norm2.", finalNorm: "backbone.ln_f.",
	}
	plainNames = naming{ // those of Mamba
		embedding: "backbone.embedding.", positions: "backbone.position_embedding.",
		norm: "norm.", finalNorm: "backbone.norm_f.",
	}
)

// naming returns the names of H3, or those of Mamba for blocks without an MLP.
func (c *Config) naming() naming {
	if c.MLP == MLPNone && len(splitOutside(c.Layers, '/')) == 1 {
		return plainNames
	}
	return mlpNames
}

// Values of Config.Norm and Config.MLP. MLPNone is for blocks of a mixer alone.
const (
	NormLayer = "layer"
	NormRMS   = "rms"
	MLPGelu   = "gelu"
	MLPNone   = "none"

	NormRMSPlusOne = "rms_plus_one"
)

// newNorm returns a norm of the stream.
func (c *Config) newNorm() nn.AddNorm {
	switch c.Norm {
	case NormRMS:
		return nn.NewRMSNorm(c.DModel, c.LayerNormEpsilon)
	case NormRMSPlusOne:
		return nn.NewRMSNormPlusOne(c.DModel, c.LayerNormEpsilon)
	}
	return nn.NewLayerNorm(c.DModel, c.LayerNormEpsilon)
}

package model

import "github.com/hippo-ssm/hippo/nn"

// naming holds the names of parameters outside the mixers. Package release maps the names in published files to them.
type naming struct{ embedding, positions, norm, mlpNorm, finalNorm string }

// embedNorm is the prefix of the names of the norm after the embedding.
const embedNorm = "backbone.embedding_norm."

var (
	mlpNames = naming{ // names of H3
		embedding: "backbone.embeddings.word_embeddings.", positions: "backbone.embeddings.position_embeddings.",
		norm: "norm1.", mlpNorm: "norm2.", finalNorm: "backbone.ln_f.",
	}
	plainNames = naming{ // names of Mamba
		embedding: "backbone.embedding.", positions: "backbone.position_embedding.",
		norm: "norm.", finalNorm: "backbone.norm_f.",
	}
)

// naming returns the names of H3 or, for blocks without an MLP, those of Mamba.
func (c *Config) naming() naming {
	if c.MLP == MLPNone && len(splitOutside(c.Layers, '/')) == 1 {
		return plainNames
	}
	return mlpNames
}

// Values of Config.Norm and Config.MLP. With MLPNone, blocks consist of a mixer alone.
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

package model

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Model is a language model: an embedding, pre-norm blocks of a mixer and an MLP, a final norm, and a head that shares the
// embedding's weights. Its parameters have the names of the official H3 release (backbone.layers.0.mixer.q_proj.weight) or,
// without MLPs, those of Mamba's.
type Model struct {
	Config    Config
	Embedding *nn.Embedding
	Positions *nn.Embedding // learned, added to the embedding; nil for none
	Backbone
	Parameters
	Tapes *autograd.Tapes // for inference: sessions borrow one as long as they compute
}

// New returns a model whose parameters have no values yet, nor memory: Init or Load gives them both.
func New(cfg Config) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	bb, err := newBackbone(&cfg, false)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Config: cfg, Embedding: nn.NewEmbedding(cfg.PaddedVocab(), cfg.DModel), Positions: cfg.newPositions(), Backbone: bb,
		Tapes: &autograd.Tapes{},
	}
	m.Parameters = Parameters{of: m, shape: &m.Config, config: m.configFile}
	if _, err := shapesOf(m); err != nil {
		return nil, err
	}
	return m, nil
}

// newPositions is the table of learned positions, nil for none.
func (c *Config) newPositions() *nn.Embedding {
	if c.MaxPositions == 0 {
		return nil
	}
	return nn.NewEmbedding(c.MaxPositions, c.DModel)
}

// configFile is config.json.
func (m *Model) configFile() (name string, text []byte, err error) {
	return ConfigFile, m.Config.JSON(), nil
}

// Params visits every parameter under its official name.
func (m *Model) Params(prefix string, visit nn.Visitor) {
	names := m.Config.naming()
	m.Embedding.Params(prefix+names.embedding, visit)
	if m.Positions != nil {
		m.Positions.Params(prefix+names.positions, visit)
	}
	m.params(prefix, names, visit)
}

// MaxLength is the longest sequence that the model takes, 0 for any.
func (m *Model) MaxLength() int { return shorter(m.maxLength(), m.Config.MaxPositions) }

// CountParams is the number of parameters of a model of this shape.
func (c *Config) CountParams() (int, error) {
	m, err := New(*c)
	if err != nil {
		return 0, err
	}
	return m.NumParams(), nil
}

// Forward maps a chunk of token ids (b·l, row-major) to hidden states (b, l, d_model) after the final norm. state is as in
// mixer.Mixer: nil starts from zero and keeps nothing, otherwise the chunk continues it and it is brought to the end of the
// chunk. Ids must be inside the vocabulary.
func (m *Model) Forward(t *autograd.Tape, ids []int32, b, l int, state *State) *tensor.Tensor {
	t.Scope("backbone.embeddings")
	hidden := m.Embedding.Forward(t, ids, b, l)
	at := 0
	if state != nil {
		at = state.Position
		state.Position += l
	}
	hidden = t.Dropout(addPositions(t, m.Positions, hidden, at), m.Config.EmbedDropout)
	return m.run(t, hidden, state, nil, m.Config.ResidDropout)
}

// addPositions adds to each row of x (b, l, d) that of its position, the first of which is at; nothing where there is no table.
func addPositions(t *autograd.Tape, table *nn.Embedding, x *tensor.Tensor, at int) *tensor.Tensor {
	if table == nil {
		return x
	}
	b, l := x.Dim(0), x.Dim(1)
	ids := make([]int32, b*l)
	for i := range ids {
		ids[i] = int32(at + i%l)
	}
	return t.Add(x, table.Forward(t, ids, b, l))
}

// Loss is the mean cross-entropy, in nats per token, of the targets (engine.Ignore for none) given hidden states of Forward.
func (m *Model) Loss(t *autograd.Tape, hidden *tensor.Tensor, targets []int32) *tensor.Tensor {
	t.Scope("lm_head")
	return t.LinearCrossEntropy(hidden, m.Embedding.Weight.Tensor, targets)
}

// Logits maps hidden states (b, l, d) to logits (b, l, padded vocabulary).
func (m *Model) Logits(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	t.Scope("lm_head")
	return t.Linear(hidden, m.Embedding.Weight.Tensor, nil, engine.None)
}

// LastLogits maps the last position of hidden states (b, l, d) to logits (b, 1, padded vocabulary).
func (m *Model) LastLogits(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	t.Scope("lm_head")
	return t.Linear(t.LastPosition(hidden), m.Embedding.Weight.Tensor, nil, engine.None)
}

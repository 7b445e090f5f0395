package model

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Model is a language model: an embedding, pre-norm blocks of a mixer and an MLP, a final norm, and a head that shares
// the embedding's weights unless it has its own. Its parameters have the names of the official H3 release
// (backbone.layers.0.mixer.q_proj.weight) or, in models without MLPs, those of Mamba.
type Model struct {
	Config    Config
	Embedding *nn.Embedding
	Positions *nn.Embedding // learned positions, added to the embedding; or nil
	Backbone
	Head *nn.Linear // nil if it shares the embedding's weights
	MTP  *MTP       // predicts further tokens, or nil: see generate.MTPDrafts
	Parameters
	precision engine.Precision // precision of a packed model
	adapter   *Adapter         // or nil
	identity  identity
}

// New returns a model whose parameters have no values and no memory yet: see Init and Load.
func New(cfg Config) (*Model, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	bb, err := newBackbone(&cfg, false)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Config: cfg, Embedding: nn.NewEmbedding(cfg.PaddedVocab(), cfg.DModel), Positions: cfg.newPositions(),
		Backbone: bb,
	}
	if cfg.UntiedHead {
		m.Head = nn.NewLinear(cfg.DModel, cfg.PaddedVocab(), nn.InitStd)
		m.Head.Bias = nil
		m.Head.Weight.Product = false // the loss computes this product
	}
	m.Parameters = Parameters{of: m, backbone: &m.Backbone, shape: &m.Config, config: m.configFile}
	if _, err := shapesOf(m); err != nil {
		return nil, err
	}
	return m, nil
}

// newPositions returns the table of learned positions, or nil if there are none.
func (c *Config) newPositions() *nn.Embedding {
	if c.MaxPositions == 0 {
		return nil
	}
	return nn.NewEmbedding(c.MaxPositions, c.DModel)
}

// configFile returns the name and the content of config.json.
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
	if m.Head != nil {
		m.Head.Params(prefix+"lm_head.", visit)
	}
}

// MaxLength returns the length of the longest sequence that the model takes, or 0 if there is no limit.
func (m *Model) MaxLength() int { return shorter(m.maxLength(), m.Config.MaxPositions) }

// CountParams returns the number of parameters of a model of this shape.
func (c *Config) CountParams() (int, error) {
	m, err := New(*c)
	if err != nil {
		return 0, err
	}
	return m.NumParams(), nil
}

// Forward maps the n token ids of all rows, one row after another, to hidden states (n, d_model) after the final norm,
// and updates the states of the rows. Ids must be inside the vocabulary.
func (m *Model) Forward(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	return m.run(t, t.Dropout(m.Embed(t, ids, r), m.Config.EmbedDropout, &r.at), r, m.Config.ResidDropout)
}

// embed returns the rows of a table for ids, multiplied by EmbedScale.
func (c *Config) embed(t *autograd.Tape, table *nn.Embedding, ids []int32) *tensor.Tensor {
	return t.Scale(table.Forward(t, ids), orOne(c.EmbedScale))
}

// orOne returns a factor, replacing 0 by 1.
func orOne(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// addPositions adds to x (n, d) the rows of the table for the positions of x. A nil table changes nothing.
func addPositions(t *autograd.Tape, table *nn.Embedding, x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	if table == nil {
		return x
	}
	ids := make([]int32, 0, r.Total())
	for i := range r.Count() {
		for j := range r.Len(i) {
			ids = append(ids, int32(r.Start(i)+j))
		}
	}
	return t.Add(x, table.Forward(t, ids))
}

// Unembedding returns the weights of the head (padded vocabulary, d_model).
func (m *Model) Unembedding() *nn.Param {
	if m.Head != nil {
		return m.Head.Weight
	}
	return m.Embedding.Weight
}

// Loss returns the mean cross-entropy of the targets given hidden states of Forward, in nats per token. A target of
// engine.Ignore does not count.
func (m *Model) Loss(t *autograd.Tape, hidden *tensor.Tensor, targets []int32) *tensor.Tensor {
	t.Scope("lm_head")
	if m.Config.LogitCap > 0 {
		return t.CrossEntropy(m.logits(t, hidden), targets)
	}
	return t.LinearCrossEntropy(m.scaled(t, hidden), m.Unembedding().Tensor, targets)
}

// Logits maps hidden states (n, d_model) to logits (n, padded vocabulary).
func (m *Model) Logits(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	t.Scope("lm_head")
	return m.logits(t, hidden)
}

// LastLogits maps hidden states of rows to the logits after the last position of each row: (rows, padded vocabulary).
func (m *Model) LastLogits(t *autograd.Tape, hidden *tensor.Tensor, r *Rows) *tensor.Tensor {
	t.Scope("lm_head")
	if r.Total() > r.Count() {
		hidden = t.Last(hidden, &r.at)
	}
	return m.logits(t, hidden)
}

// LogitsAt is Logits for the given positions only, counted over all rows.
func (m *Model) LogitsAt(t *autograd.Tape, hidden *tensor.Tensor, at []int32) *tensor.Tensor {
	t.Scope("lm_head")
	if len(at) < hidden.Rows() {
		hidden = t.Embedding(hidden, at) // selects rows
	}
	return m.logits(t, hidden)
}

func (m *Model) logits(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	y := t.Linear(m.scaled(t, hidden), m.Unembedding().Tensor, nil, engine.None)
	if c := m.Config.LogitCap; c > 0 {
		y = t.Scale(t.Activate(t.Scale(y, 1/c), engine.Tanh), c)
	}
	return y
}

// scaled multiplies the head's input, and thereby the logits, by LogitScale.
func (m *Model) scaled(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	return t.Scale(hidden, orOne(m.Config.LogitScale))
}

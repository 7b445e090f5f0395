package explain

import (
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Language is a model that maps tokens to scores of tokens at each position: a language model or the network of a
// synthetic task.
type Language struct {
	vocab, maxLength int
	Backbone         model.Backbone
	Unembedding      *tensor.Tensor // (vocab, d_model)
	// Forward runs the model with its blocks replaced.
	Forward func(t *autograd.Tape, blocks []*model.Block, ids []int32)

	// Exactly one of Model and Network is set.
	Model   *model.Model
	Network *model.Network
}

// OfModel returns a language model for inspection.
func OfModel(m *model.Model) *Language {
	return &Language{
		vocab: m.Config.VocabSize, maxLength: m.MaxLength(), Backbone: m.Backbone,
		Unembedding: m.Unembedding().Tensor, Model: m,
		Forward: func(t *autograd.Tape, blocks []*model.Block, ids []int32) {
			backbone := m.Backbone
			backbone.Blocks = blocks
			with := model.Model{Config: m.Config, Embedding: m.Embedding, Positions: m.Positions, Backbone: backbone}
			with.Forward(t, ids, model.EqualRows(1, len(ids)))
		},
	}
}

// OfNetwork returns a network for inspection. It returns an error if the network does not map tokens to tokens at each
// position.
func OfNetwork(m *model.Network) (*Language, error) {
	c := &m.Config
	if c.Vocab == 0 || !c.Everywhere || c.Outputs != c.Vocab {
		return nil,
			errors.New(
				"found a network without scores of tokens at each position, want a language model or such a network")
	}
	l := &Language{
		vocab: c.Vocab, maxLength: m.MaxLength(), Backbone: m.Backbone, Network: m,
		Forward: func(t *autograd.Tape, blocks []*model.Block, ids []int32) {
			with := *m
			with.Blocks = blocks
			with.Forward(t, model.Input{Lengths: []int{len(ids)}, Tokens: ids})
		},
	}
	if m.Head != nil {
		l.Unembedding = m.Head.Weight.Tensor
	} else {
		l.Unembedding = m.Embedding.Weight.Tensor
	}
	return l, nil
}

// Each calls see with every block up to last, and the input of its mixer (l, d_model), when the model reads ids. Later
// layers are not computed.
func (g *Language) Each(t *autograd.Tape, ids []int32, last int,
	see func(layer int, b *model.Block, u *tensor.Tensor)) {
	var blocks []*model.Block
	for i, b := range g.Backbone.Blocks[:last+1] {
		blocks = append(blocks, ShowInput(b, i == last, func(b *model.Block, u *tensor.Tensor) { see(i, b, u) }))
	}
	g.Forward(t, blocks, ids)
	t.Reset()
}

// ShowInput returns a block that passes the input of its mixer to see, with a block whose mixer needs no other layer
// (see mixer.Given). If last is true, the forward pass ends there.
func ShowInput(b *model.Block, last bool, see func(b *model.Block, u *tensor.Tensor)) *model.Block {
	with := *b
	with.Mixer = watched{b.Mixer, func(u *tensor.Tensor, r *mixer.Rows) {
		alone := *b
		alone.Mixer = mixer.Given(b.Mixer, r.Handed)
		see(&alone, u)
	}, last}
	if last {
		with.MLP, with.Norm2 = nil, nil
	}
	return &with
}

// watched is a mixer whose inputs are observed.
type watched struct {
	mixer.Mixer
	see  func(u *tensor.Tensor, r *mixer.Rows)
	last bool // its output is not needed
}

func (w watched) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	w.see(u, r)
	if w.last {
		return u
	}
	return w.Mixer.Forward(t, u, r)
}

// Directions returns rows (n, d_model). The product of a row with an addition to the residual stream is the addition's
// contribution to the score of a token. The rows are those of the unembedding times the weights of the final norm. If
// the norm is a LayerNorm, which subtracts the mean, the rows are centered too. The division by the deviation is left
// out: it is the same for all additions to a position.
func (g *Language) Directions(t *autograd.Tape, tokens []int32) ([]float64, error) {
	var weights []float32
	centered := false
	switch norm := g.Backbone.LnF.(type) {
	case *nn.LayerNorm:
		weights, centered = norm.Weight.Tensor.Floats(), true
	case *nn.RMSNorm:
		weights = norm.Weight.Tensor.Floats()
	default:
		return nil, fmt.Errorf("found a final norm of the type %T, want one of known weights", norm)
	}
	picked := t.Embedding(g.Unembedding, tokens).Floats()
	t.Reset()
	d := len(weights)
	rows := make([]float64, len(picked))
	for i, x := range picked {
		rows[i] = float64(x) * float64(weights[i%d])
	}
	if centered {
		for i := range tokens {
			Center(rows[i*d:][:d])
		}
	}
	return rows, nil
}

// Center subtracts from x its mean.
func Center(x []float64) {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for i := range x {
		x[i] -= mean
	}
}

// IsModel reports whether g is a language model rather than a network of a task.
func (g *Language) IsModel() bool { return g.Model != nil }

// Vocab returns the size of the vocabulary.
func (g *Language) Vocab() int { return g.vocab }

// MaxLength returns the maximum length of a sequence, 0 for any.
func (g *Language) MaxLength() int { return g.maxLength }

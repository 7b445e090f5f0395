package model

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// The methods below do Forward in pieces: Embed, then Layer for each layer, or Rest for all layers from a given one on.
// So results before a layer need not be computed again. Layer takes rows without states. Rest updates the states of its
// layers.

// Embed maps the n token ids of all rows to the stream (n, d_model) that the first layer sees.
func (m *Model) Embed(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	if len(ids) != r.Total() {
		panic(fmt.Sprintf("model.Embed: %d ids for rows of %d positions", len(ids), r.Total()))
	}
	t.Scope("backbone.embeddings")
	return m.enter(t, m.Positions, m.Config.embed(t, m.Embedding, ids), r)
}

// Layer maps the stream before layer i to the stream after it. first is the stream that Embed returned.
func (m *Model) Layer(t *autograd.Tape, i int, stream, first *tensor.Tensor, r *Rows) *tensor.Tensor {
	m.hand(t, i, first, r)
	residual, hidden := m.Blocks[i].forward(t, nil, stream, first, r.of(i), 0)
	return t.Add(residual, hidden)
}

// Rest maps the stream before layer i to hidden states after the final norm. first is the stream that Embed returned.
// If layers hand on values outside the stream and i is not 0, the rows must have no states.
func (m *Model) Rest(t *autograd.Tape, i int, stream, first *tensor.Tensor, r *Rows) *tensor.Tensor {
	m.hand(t, i, first, r)
	return m.runFrom(t, i, stream, first, r, 0)
}

// Begin does the part of Forward before the first layer.
func (m *Model) Begin(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	return t.Dropout(m.Embed(t, ids, r), m.Config.EmbedDropout, &r.at)
}

// Through does the part of Forward in layer i, for a model whose layers share no blocks. It takes and returns the
// stream as residual + hidden. The residual before the first layer is nil. The values that layers hand on are in the
// rows: see Hand.
func (m *Model) Through(t *autograd.Tape, i int, residual, hidden *tensor.Tensor, r *Rows) (res, hid *tensor.Tensor) {
	return m.Blocks[i].forward(t, residual, hidden, nil, r.of(i), m.Config.ResidDropout)
}

// End does the part of Forward after the last layer.
func (m *Model) End(t *autograd.Tape, residual, hidden *tensor.Tensor) *tensor.Tensor {
	t.Scope("backbone.ln_f")
	_, out := m.LnF.AddForward(t, hidden, residual)
	return out
}

// Handed returns the values that layers have handed on outside the stream, or nil.
func (r *Rows) Handed() *tensor.Tensor { return r.handed.Values }

// Hand sets the values that later layers see as handed on by earlier ones.
func (r *Rows) Hand(x *tensor.Tensor) { r.handed.Values = x }

// Shares reports whether some layer has a block that it shares, or needs values that an earlier layer hands on.
func (bb *Backbone) Shares() bool { return bb.HandsOn() || bb.SharesBlocks() }

// SharesBlocks reports whether some layer has a block that it shares with other layers or that sees the stream before
// the first layer.
func (bb *Backbone) SharesBlocks() bool {
	return slices.ContainsFunc(bb.Blocks, func(b *Block) bool { return b.Shared != nil })
}

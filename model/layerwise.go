package model

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Forward in pieces: Embed, then Layer of each layer or Rest of those from one on. What is the same before a layer need
// not be computed again. Layer takes rows without states; Rest brings the states of its layers forward.

// Embed maps the n token ids of all rows to the stream (n, d_model) that the first layer sees.
func (m *Model) Embed(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	if len(ids) != r.Total() {
		panic(fmt.Sprintf("model.Embed: %d ids for rows of %d positions", len(ids), r.Total()))
	}
	t.Scope("backbone.embeddings")
	return addPositions(t, m.Positions, m.Config.embed(t, m.Embedding, ids), &r.at)
}

// Layer maps the stream before layer i to the one behind it. first is the stream that Embed returned.
func (m *Model) Layer(t *autograd.Tape, i int, stream, first *tensor.Tensor, r *Rows) *tensor.Tensor {
	residual, hidden := m.Blocks[i].forward(t, nil, stream, first, r.of(i), 0)
	return t.Add(residual, hidden)
}

// Rest maps the stream before layer i to hidden states after the final norm. first is the stream that Embed returned.
func (m *Model) Rest(t *autograd.Tape, i int, stream, first *tensor.Tensor, r *Rows) *tensor.Tensor {
	return m.runFrom(t, i, stream, first, r, 0)
}

// Begin is what Forward does before the first layer.
func (m *Model) Begin(t *autograd.Tape, ids []int32, r *Rows) *tensor.Tensor {
	return t.Dropout(m.Embed(t, ids, r), m.Config.EmbedDropout, &r.at)
}

// Through is what Forward does in layer i, which shares no block with others: it takes the stream as residual + hidden
// and leaves it so. The residual before the first layer is nil.
func (m *Model) Through(t *autograd.Tape, i int, residual, hidden *tensor.Tensor, r *Rows) (res, hid *tensor.Tensor) {
	return m.Blocks[i].forward(t, residual, hidden, nil, r.of(i), m.Config.ResidDropout)
}

// End is what Forward does after the last layer.
func (m *Model) End(t *autograd.Tape, residual, hidden *tensor.Tensor) *tensor.Tensor {
	t.Scope("backbone.ln_f")
	_, out := m.LnF.AddForward(t, hidden, residual)
	return out
}

// Shares reports whether some layer has a block that other layers have, too, or that sees the stream before the first.
func (m *Model) Shares() bool {
	return slices.ContainsFunc(m.Blocks, func(b *Block) bool { return b.Shared != nil })
}

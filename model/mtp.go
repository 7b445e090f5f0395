package model

import (
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// MTP is a head that predicts one token more than the model (multi-token prediction, "DeepSeek-V3", arXiv:2412.19437,
// §2.2, in the form of Qwen3-Next). It computes, from the hidden state h[t] after the model's final norm and the next
// id,
//
//	x[t] = FC( [norm_e(E[id[t+1]]), norm_h(h[t])] );   h'[t] = norm(block(x))[t];   logits of id[t+2] = head(h'[t])
//
// with the embedding E and the head of the model. For further tokens it takes h' in the place of h. The model verifies
// its guesses, so that no text depends on them.
type MTP struct {
	EmbedNorm, HiddenNorm nn.AddNorm
	FC                    *nn.Linear // (d_model, 2·d_model)
	Backbone                         // one block and the norm after it
	Parameters

	of     *Model
	config Config
}

// NewMTP returns a head for m whose parameters have no values yet. layer is the entry of its block.
func NewMTP(m *Model, layer string) (*MTP, error) {
	h := &MTP{of: m, config: m.Config}
	c := &h.config
	c.Layers, c.EmbedNorm, c.MaxPositions = layer, false, 0
	bb, err := newBackbone(c, false)
	if err != nil {
		return nil, err
	}
	h.Backbone = bb
	h.use(m.backend)
	h.EmbedNorm, h.HiddenNorm, h.FC = c.newNorm(), c.newNorm(), nn.NewLinear(2*c.DModel, c.DModel, nn.InitStd)
	h.FC.Bias = nil
	h.Parameters = Parameters{of: h, backbone: &h.Backbone, shape: c}
	_, err = shapesOf(h)
	return h, err
}

// Params visits the parameters under the names of the release. The block's names are those in a model of one layer.
func (h *MTP) Params(prefix string, visit nn.Visitor) {
	h.EmbedNorm.Params(prefix+"mtp.pre_fc_norm_embedding.", visit)
	h.HiddenNorm.Params(prefix+"mtp.pre_fc_norm_hidden.", visit)
	h.FC.Params(prefix+"mtp.fc.", visit)
	h.params(prefix, h.config.naming(), visit)
}

// LoadAlike is Load in the precision of the model: packed if the model is packed, and otherwise as LoadStored.
func (h *MTP) LoadAlike(w Weights) error {
	p := h.of.precision
	return h.load(w, &packing{precision: p, stored: p == engine.Float32})
}

// PackAlike converts the weights to the precision of the model, which is packed.
func (h *MTP) PackAlike() error { return h.pack(h.of.precision, engine.PackRounded) }

// Forward maps ids, and the hidden states (n, d_model) before each of them, to the head's hidden states (n, d_model).
// It updates the states of the rows.
func (h *MTP) Forward(t *autograd.Tape, ids []int32, hidden *tensor.Tensor, r *Rows) *tensor.Tensor {
	_, e := h.EmbedNorm.AddForward(t, h.config.embed(t, h.of.Embedding, ids), nil)
	_, x := h.HiddenNorm.AddForward(t, hidden, nil)
	return h.run(t, h.FC.Forward(t, t.Join(e, x)), r, 0)
}

// Guesses holds what the MTP head of a model remembers of a sequence.
type Guesses struct {
	State  *State    // state of the head after all ids
	Hidden []float32 // hidden state of the model after the last id
}

// clone returns a copy. It reuses the memory of to unless that is nil.
func (g *Guesses) clone(to *Guesses) *Guesses {
	switch {
	case g == nil:
		return nil
	case to == nil:
		return &Guesses{g.State.Clone(), slices.Clone(g.Hidden)}
	}
	g.State.CopyTo(to.State)
	to.Hidden = append(to.Hidden[:0], g.Hidden...)
	return to
}

// Follow runs the head over the positions that the model has read: the ids of rows with states, and the hidden states
// (n, d_model) after them. If the head has not seen a sequence from its start, it begins with these positions.
func (h *MTP) Follow(t *autograd.Tape, ids []int32, hidden *tensor.Tensor, r *Rows) {
	d := h.config.DModel
	var read []int32
	var before []float32
	rows, at := &Rows{}, 0
	for i, s := range r.states {
		l := r.Len(i)
		if s != nil && l > 0 {
			if s.Guesses == nil {
				s.Guesses = &Guesses{State: h.NewState()}
			}
			g, from := s.Guesses, at
			if before = append(before, g.Hidden...); len(g.Hidden) == 0 {
				from, g.Hidden = at+1, make([]float32, d)
			}
			read = append(read, ids[from:at+l]...)
			before = slices.Grow(before, (l-1)*d)
			for j := range l - 1 {
				before = before[:len(before)+d]
				hidden.CopyRowTo(before[len(before)-d:], at+j)
			}
			hidden.CopyRowTo(g.Hidden, at+l-1)
			if at+l > from {
				rows.Add(at+l-from, g.State)
			}
		}
		at += l
	}
	if len(read) > 0 {
		x := t.New(len(read), d)
		x.CopyFrom(before)
		h.Forward(t, read, x, rows)
	}
}

package generate

import (
	"context"
	"slices"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/model"
)

// MTPDrafts returns a Drafter that guesses with the model's own head for multi-token prediction (model.Model.MTP). The
// head reads the same ids as the model, from the first one that the model reads with it. Without such a head there are
// no guesses.
func MTPDrafts() Drafter { return mtpDraft{} }

type mtpDraft struct{}

// mostMTP is the maximum number of ids of a guess. The head is trained to predict one, and each id costs a product with
// the embeddings.
const mostMTP = 3

// Draft returns no guess: ids alone are not enough.
func (mtpDraft) Draft(context.Context, []int32, int) ([]int32, error) { return nil, nil }

// draftAt lets the head read, in a copy of its state, the ids that the state of the batch has not read, and then its
// own guesses.
func (mtpDraft) draftAt(ctx context.Context, s *Batch, text []int32, n int) (guess []int32, err error) {
	m, g := s.model, s.states[0].Guesses
	d := m.Config.DModel
	if m.MTP == nil || g == nil || len(text) == 0 || len(s.ahead.hidden) < s.ahead.sure*d {
		return nil, nil
	}
	ids := append(slices.Clone(s.ahead.tail()), text[len(text)-1])
	hidden := append(slices.Clone(g.Hidden), s.ahead.hidden[:s.ahead.sure*d]...)
	state := g.State.Clone()
	for n = min(n, mostMTP); len(guess) < n && ctx.Err() == nil; {
		best, last, err := bestOfMTP(m, ids, hidden, state)
		if err != nil { // a broken model has no guess
			return guess, nil
		}
		guess = append(guess, best)
		ids, hidden = guess[len(guess)-1:], last
	}
	return guess, ctx.Err()
}

// bestOfMTP returns the id that the head finds most probable after ids, and the last hidden state of the head.
func bestOfMTP(m *model.Model, ids []int32, hidden []float32, state *model.State) (best int32, last []float32,
	err error) {
	tape := m.Tapes.Lend()
	defer m.Tapes.Return(tape)
	x := tape.New(len(ids), m.Config.DModel)
	x.CopyFrom(hidden)
	y := m.MTP.Forward(tape, ids, x, model.OneRow(len(ids), state))
	at := len(ids) - 1
	last = make([]float32, m.Config.DModel)
	y.CopyRowTo(last, at)
	logits := m.LogitsAt(tape, y, []int32{int32(at)}).Floats()
	best, err = sample.Best(logits[:m.Config.VocabSize])
	return best, last, err
}

// hearing returns a call that stores the hidden states after ids, some of which are drafts, for the next guess.
func (a *ahead) hearing(m *model.Model, drafts int) call {
	if m.MTP == nil || drafts == 0 {
		return call{}
	}
	d := m.Config.DModel
	a.hidden = slices.Grow(a.hidden[:0], len(a.ids)*d)[:len(a.ids)*d]
	return call{f: func(at int, hidden []float32) { copy(a.hidden[at*d:], hidden) }}
}

package generate

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// mtpModel returns a model over bytes with a head for multi-token prediction.
func mtpModel(t testing.TB) *model.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.NumHeads, c.Norm, c.MLP = 16, 256, 2, model.NormRMSPlusOne, "swiglu(bias=false)"
	c.Layers = "gated-deltanet,gated-attention"
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	h, err := model.NewMTP(m, "gated-attention/swiglu(bias=false)")
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3)
	h.Init(4)
	for _, all := range []nn.Module{m, h} {
		all.Params("", func(_ string, p *nn.Param) {
			if p.Role == nn.Weight || p.Role == nn.Table {
				x := make([]float32, p.Len())
				p.CopyTo(x)
				for i := range x {
					x[i] *= 8
				}
				p.CopyFrom(x)
			}
		})
	}
	m.MTP = h
	return m
}

// mtpGuess returns the n ids that the head finds most probable after a text. It computes each from the whole text: from
// the hidden states of all ids but the last, and those of the head for its own guesses.
func mtpGuess(m *model.Model, text []int32, n int) (guess []int32) {
	tape, d := autograd.NewTape(cpu.Backend{}), m.Config.DModel
	l := len(text) - 1
	hidden := m.Forward(tape, text[:l], model.EqualRows(1, l)).Floats()
	ids := slices.Clone(text[1:])
	for range n {
		x := tape.New(len(ids), d)
		x.CopyFrom(hidden)
		y := m.MTP.Forward(tape, ids, x, model.EqualRows(1, len(ids)))
		logits := m.Logits(tape, y).Floats()
		best := argmax(logits[len(logits)-m.Config.PaddedVocab():])
		guess, ids = append(guess, best), append(ids, best)
		hidden = append(hidden, y.Floats()[(len(ids)-2)*d:]...)
	}
	return guess
}

// mtpChecked is a Drafter that compares the guesses of the head with those of mtpGuess. It returns other guesses, some
// of them right, so that the batch is ahead of its state.
type mtpChecked struct {
	wrongAt
	t interface{ Fatalf(string, ...any) }
	m *model.Model
	n *int
}

func (c mtpChecked) draftAt(ctx context.Context, s *Batch, text []int32, n int) ([]int32, error) {
	got, err := mtpDraft{}.draftAt(ctx, s, text, n)
	want := mtpGuess(c.m, text, min(n, mostMTP))
	if err != nil || !slices.Equal(got, want) {
		c.t.Fatalf("after %d ids, %d of them behind the state: %v, %v, want %v", len(text), len(s.ahead.tail()), got,
			err, want)
	}
	if len(s.ahead.tail()) > 0 {
		*c.n++
	}
	return c.Draft(ctx, text, n)
}

// TestMTPDrafts checks that the head guesses the ids that it finds most probable, also when the batch is ahead of its
// state and after a prompt that was read in pieces, and that the text and the final bits are those without drafts, both
// greedy and sampled.
func TestMTPDrafts(t *testing.T) {
	m := mtpModel(t)
	behind, drafted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		o := Options{MaxTokens: 40, IgnoreEnd: true}
		o.Temperature = rapid.SampledFrom([]float64{0, 0.8}).Draw(t, "temperature")
		o.Seed = rapid.Uint64().Draw(t, "seed")
		want, told := said(t, m, o)
		all := slices.Clone(prompt)
		for _, p := range told {
			all = append(all, p.IDs...)
		}
		every := rapid.SampledFrom([]int{1, 2, 3, 5}).Draw(t, "wrong")
		wrong := wrongAt{all, func(at int) bool { return at%every == every-1 }}
		o.Draft = rapid.SampledFrom([]Drafts{MTPDrafts, func() Drafter {
			return mtpChecked{wrong, t, m, &behind}
		}}).Draw(t, "drafts")
		got, pieces := said(t, m, o)
		var ids []int32
		for _, p := range pieces {
			ids = append(ids, p.IDs...)
		}
		if !slices.Equal(ids, all[len(prompt):]) {
			t.Fatalf("wrote %v, want %v", ids, all[len(prompt):])
		}
		drafted += got.Stats.DraftedTokens
		for _, s := range []*Batch{got, want} {
			feed(t, s, []int32{7})
		}
		if !slices.Equal(got.Logits(0), want.Logits(0)) {
			t.Fatal("other logits afterwards")
		}
		equalStates(t, got, want)
	})
	if behind == 0 || drafted == 0 {
		t.Errorf("%d guesses behind the state, %d guessed ids", behind, drafted)
	}
	s := NewBatch(m, 1)
	s.Chunk = 5
	feed(t, s, text(1, 23))
	s = s.Fork()
	feed(t, s, text(2, 3))
	whole := append(slices.Clone(text(1, 23)), text(2, 3)...)
	got, err := mtpDraft{}.draftAt(t.Context(), s, append(whole, 9), 3)
	if want := mtpGuess(m, append(whole, 9), 3); err != nil || !slices.Equal(got, want) {
		t.Errorf("after pieces: %v, %v, want %v", got, err, want)
	}
}

// Package generate continues texts with a model. A Batch reads prompts into recurrent states and steps many sequences
// together. A Writer samples tokens and turns them into text, up to an end token or a stop string.
package generate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/model"
)

// DefaultChunk is the default number of positions that Feed reads at a time.
const DefaultChunk = 512

// Batch is a batch of sequences being read or written by a model. For each sequence it holds only the recurrent state
// (and the keys and values of attention layers) and the logits after the last position. It does not store the text, and
// each call borrows its working memory from the model. A Batch must be used by one goroutine at a time. Any number of
// batches can share a model, and the function Feed advances many of them in one call.
//
// # What is the same to the last bit
//
// Feed reads its ids in pieces. A piece ends at the end of the call, and at every position that is a multiple of Chunk,
// counted from the start of the sequence. The same pieces give the same bits: on any number of cores, in a batch or
// alone, together with sequences of any length, and after Fork, Repeat or saving. So a call that ends at a multiple of
// Chunk makes no difference: if two divisions of a text into calls differ only in such ends, they give the same logits
// and the same continuation.
//
// Other pieces, from another Chunk or from calls that end elsewhere, give the same results up to rounding, since a
// recurrence and a convolution add in different orders. In float32, logits then differ by some millionths of the
// largest. If a model is packed as bf16 or int8, the inputs of every product are rounded, to 8 bits of precision or to
// 255 steps. Each position is rounded by itself, independent of its piece, but a number near the middle of two steps
// may be rounded either way. Logits then differ by up to some thousandths of the largest. So the continuation may
// differ where two tokens are almost equally probable. That is rare in float32. In int8 it happened in one text of
// twenty.
type Batch struct {
	// Chunk is the number of positions after which Feed starts a new piece. A value below 1 means DefaultChunk. Larger
	// pieces are faster, up to some hundred positions, and take more memory while they are read.
	Chunk int
	// Progress, unless it is nil, is called by Feed after each piece with the number of positions of the call that have
	// been read.
	Progress func(read, total int)
	Stats    Stats

	model  *model.Model
	states []*model.State // of each sequence
	logits []float32      // (batch, padded vocabulary), nil for none
	// pending holds the ids that Generate sampled last and that the model has not read yet, one for each sequence: none
	// if a sequence has no such id. It is nil if no sequence has one.
	pending []int32
	ahead   ahead
}

// NewBatch returns a batch of n empty sequences. It panics if n is below 1.
func NewBatch(m *model.Model, n int) *Batch {
	if n < 1 {
		panic(fmt.Sprintf("generate.NewBatch: batch of %d sequences, want at least 1", n))
	}
	s := &Batch{Chunk: DefaultChunk, model: m, states: make([]*model.State, n)}
	for i := range s.states {
		s.states[i] = m.NewState()
	}
	return s
}

// Resume returns a batch of one sequence that continues from a state and the logits after its last id. The batch takes
// ownership of the state and copies the logits, which have the form of Batch.Logits. They may be nil.
func Resume(m *model.Model, state *model.State, logits []float32) *Batch {
	s := &Batch{Chunk: DefaultChunk, model: m, states: []*model.State{state}}
	if logits != nil {
		s.logits = make([]float32, m.Config.PaddedVocab())
		copy(s.logits, logits)
	}
	return s
}

// Feed reads l ids for each sequence of the batch (ids is (batch, l), row-major) and computes the logits after the last
// one. The documentation of Batch describes how a text may be divided into calls.
//
// Feed checks ctx before each piece. When ctx is done, it returns the error of ctx. The batch is then at the end of a
// piece (see Position) and has no logits: feed the remaining ids, or drop the batch. After any other error the batch is
// unchanged.
func (s *Batch) Feed(ctx context.Context, ids []int32) error {
	return Feed(ctx, Part{Batch: s, IDs: ids})
}

// flush reads the pending ids of the sequences for which some returns true.
func (s *Batch) flush(some func(i int) bool) error {
	b := lend()
	defer b.giveBack()
	for i := range s.pending {
		if s.waits(i) && some(i) {
			if err := s.checkLength(i, 1); err != nil {
				return err
			}
			s.ahead.forget()
			b.addOf(&Part{Batch: s, Drawn: true}, i, s.pending[i:i+1], 0, true)
		}
	}
	if len(b.last) > 0 {
		b.run(s.model)
	}
	for _, p := range b.last {
		s.pending[p.i] = none
	}
	return nil
}

// none marks a sequence without a pending id.
const none = -1

// waits reports whether sequence i has a pending id.
func (s *Batch) waits(i int) bool { return s.pending != nil && s.pending[i] != none }

// Check returns an error unless the batch can read runs of ids, one after another, each in the form that Feed takes.
func (s *Batch) Check(runs ...[]int32) error {
	n, vocab, l := len(s.states), s.model.Config.PaddedVocab(), 0
	for _, ids := range runs {
		if len(ids) == 0 || len(ids)%n != 0 {
			return fmt.Errorf("generate: %d ids for a batch of %d, want at least one for each", len(ids), n)
		}
		for i, id := range ids {
			if id < 0 || int(id) >= vocab {
				return fmt.Errorf("generate: id %d at position %d, want ids from 0 to %d", id, i, vocab-1)
			}
		}
		l += len(ids) / n
	}
	for i := range s.states {
		more := l
		if s.waits(i) {
			more++
		}
		if err := s.checkLength(i, more); err != nil {
			return err
		}
	}
	return nil
}

// Piece returns the maximum number of ids of sequence i in the next piece that Feed reads.
func (s *Batch) Piece(i int) int {
	chunk := s.Chunk
	if chunk < 1 {
		chunk = DefaultChunk
	}
	return chunk - s.PositionOf(i)%chunk
}

// checkLength returns an error unless the model can take l more ids of sequence i.
func (s *Batch) checkLength(i, l int) error {
	if most, at := s.model.MaxLength(), s.read(i); most > 0 && at+l > most {
		return fmt.Errorf("generate: %d ids after %d, want at most %d in all, the length of the model",
			l, at, most)
	}
	return nil
}

// Logits returns the logits after the last id fed to sequence i, over the tokens of the vocabulary (without its
// padding), or nil if there are none. The slice belongs to the batch and is valid until the next call of Feed.
func (s *Batch) Logits(i int) []float32 {
	if s.logits == nil {
		return nil
	}
	v := s.model.Config.PaddedVocab()
	return s.logits[i*v:][:s.model.Config.VocabSize]
}

// Len returns the number of sequences.
func (s *Batch) Len() int { return len(s.states) }

// Position returns the number of ids of each sequence, fed or sampled by Generate. If Generate has ended sequences at
// different positions, it returns that of the longest.
func (s *Batch) Position() int {
	most := 0
	for i := range s.states {
		most = max(most, s.PositionOf(i))
	}
	return most
}

// PositionOf returns the number of ids of sequence i.
func (s *Batch) PositionOf(i int) int {
	if s.waits(i) {
		return s.read(i) + 1
	}
	return s.read(i)
}

// read returns the number of ids of sequence i that the model has read.
func (s *Batch) read(i int) int {
	if i == 0 {
		return s.states[i].Position + s.ahead.sure
	}
	return s.states[i].Position
}

// Prefill is like Feed, and adds its tokens and time to Stats.
func (s *Batch) Prefill(ctx context.Context, ids []int32) error {
	start, before := time.Now(), s.Position()
	err := s.Feed(ctx, ids)
	s.Stats.PrefillTokens += len(s.states) * (s.Position() - before)
	s.Stats.PrefillSeconds += time.Since(start).Seconds()
	return err
}

// StateSize returns the size in bytes of the recurrent states, including keys and values.
func (s *Batch) StateSize() int {
	n := 0
	for _, state := range s.states {
		n += state.Size()
	}
	return n
}

// State returns the state of sequence i, for saving. If drafts have been taken (see Take), it may have to read ids
// first.
func (s *Batch) State(i int) *model.State {
	s.settle()
	return s.states[i]
}

// Model returns the model that the batch runs.
func (s *Batch) Model() *model.Model { return s.model }

// Fork returns an independent batch in the same state, which may be used by another goroutine. Progress is not copied.
func (s *Batch) Fork() *Batch {
	s.settle()
	f := &Batch{
		Chunk: s.Chunk, model: s.model, logits: slices.Clone(s.logits), pending: slices.Clone(s.pending),
	}
	for _, state := range s.states {
		f.states = append(f.states, state.Clone())
	}
	return f
}

// Repeat returns a batch of n copies of the batch's only sequence, to generate several samples after one prompt.
func (s *Batch) Repeat(n int) (*Batch, error) {
	if len(s.states) != 1 || n < 1 {
		return nil, fmt.Errorf("generate: %d copies of a batch of %d sequences, want at least one of one", n,
			len(s.states))
	}
	if err := s.flush(func(int) bool { return true }); err != nil {
		return nil, err
	}
	s.settle()
	r := &Batch{Chunk: s.Chunk, model: s.model}
	for range n {
		r.logits = append(r.logits, s.logits...)
		r.states = append(r.states, s.states[0].Clone())
	}
	return r, nil
}

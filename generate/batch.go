// Package generate continues texts with a model: a Batch reads prompts into recurrent states and steps many sequences
// together, and a writer turns the tokens that are drawn into text, up to an end or a stop string.
package generate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/model"
)

// DefaultChunk is how many positions Feed runs at a time.
const DefaultChunk = 512

// Batch is a batch of sequences being read or written by a model. It holds nothing but the recurrent state of each
// (and the keys and values of attention layers) and the logits after its last position: the text itself is not kept,
// and the memory to compute in is borrowed from the model for the time of a call. A Batch is for one goroutine; any
// number of batches can share a model, and Feed takes many of them one step further in one call.
//
// # What is the same to the last bit
//
// Feed runs its ids in pieces. A piece ends where the call ends, and at every position that is a multiple of Chunk,
// counted from the start of the sequence. The same pieces give the same bits: on any number of cores, in a batch or
// alone, beside sequences of any age, and after Fork, Repeat or saving. So a call that ends at a multiple of Chunk
// makes no difference: if two ways to cut a text into calls differ only in such ends, they give the same logits and the
// same continuation.
//
// Other pieces, from another Chunk or from calls that end elsewhere, give the same up to rounding, since a recurrence
// and a convolution add in different orders. In float32 logits then differ by some millionths of the largest. If a
// model is packed as bf16 or int8 the inputs of every product are rounded, to 8 bits of precision or to 255 steps. Each
// position is rounded by itself, independent of its piece, but a number near the middle of two steps may be rounded
// either way. Logits then differ by up to some thousandths of the largest. So the continuation may differ where two
// tokens are almost equally probable. In float32 that is rare; in int8 it was one text of twenty.
type Batch struct {
	// Chunk is the number of positions after which Feed starts a new piece; below 1 it means DefaultChunk. Larger
	// pieces are faster, up to some hundred positions, and take more memory while they run.
	Chunk int
	// Progress, unless it is nil, is called by Feed after each piece with how many positions of the call have been
	// read.
	Progress func(read, total int)
	Stats    Stats

	model  *model.Model
	states []*model.State // of each sequence
	logits []float32      // (batch, padded vocabulary), nil for none
	// pending are the ids that Generate chose last, which the model has not read yet: none for each sequence without
	// one, or nil for all without.
	pending []int32
	ahead   ahead
}

// NewBatch returns a batch of n sequences at their start. It panics if n is below 1.
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

// Resume returns a batch of one sequence that continues from a state, which is its own from now on, and the logits
// after its last id: those of Batch.Logits, copied, or nil if there are none.
func Resume(m *model.Model, state *model.State, logits []float32) *Batch {
	s := &Batch{Chunk: DefaultChunk, model: m, states: []*model.State{state}}
	if logits != nil {
		s.logits = make([]float32, m.Config.PaddedVocab())
		copy(s.logits, logits)
	}
	return s
}

// Feed reads l ids for each sequence of the batch (ids is (batch, l), row-major) and computes the logits after the last
// one. Batch says how a text may be cut into calls.
//
// It looks at ctx before each piece, so that it ends soon after ctx is done, with its error. The batch is then at the
// end of a piece (see Position) without logits: feed the ids from there on, or drop it. After any other error it is
// unchanged.
func (s *Batch) Feed(ctx context.Context, ids []int32) error {
	return Feed(ctx, Part{Batch: s, IDs: ids})
}

// flush reads the ids that Generate chose last for some of the sequences.
func (s *Batch) flush(some func(i int) bool) error {
	b := lend()
	defer b.giveBack()
	for i := range s.pending {
		if s.waits(i) && some(i) {
			if err := s.checkLength(i, 1); err != nil {
				return err
			}
			b.add(s, i, s.pending[i:i+1], false, true)
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

// none is no pending id.
const none = -1

// waits reports whether sequence i has an id that has not been read.
func (s *Batch) waits(i int) bool { return s.pending != nil && s.pending[i] != none }

// Check returns an error unless the batch can read runs of ids, one after another, each as Feed takes it.
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

// Piece is how many ids of sequence i the next piece of a call of Feed has at most.
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

// Logits are the logits after the last id fed to sequence i, over the tokens of the vocabulary (without its padding).
// The slice is the batch's own and changes with the next Feed; nil before the first.
func (s *Batch) Logits(i int) []float32 {
	if s.logits == nil {
		return nil
	}
	v := s.model.Config.PaddedVocab()
	return s.logits[i*v:][:s.model.Config.VocabSize]
}

// Len is the number of sequences.
func (s *Batch) Len() int { return len(s.states) }

// Position is the number of ids of each sequence: those fed and those that Generate has drawn. Where Generate has ended
// sequences at different places it is that of the longest.
func (s *Batch) Position() int {
	most := 0
	for i := range s.states {
		most = max(most, s.PositionOf(i))
	}
	return most
}

// PositionOf is the number of ids of sequence i.
func (s *Batch) PositionOf(i int) int {
	if s.waits(i) {
		return s.read(i) + 1
	}
	return s.read(i)
}

// read is the number of ids of sequence i that the model has read.
func (s *Batch) read(i int) int {
	if i == 0 {
		return s.states[i].Position + s.ahead.sure
	}
	return s.states[i].Position
}

// Prefill is Feed, timed for Stats.
func (s *Batch) Prefill(ctx context.Context, ids []int32) error {
	start, before := time.Now(), s.Position()
	err := s.Feed(ctx, ids)
	s.Stats.PrefillTokens += len(s.states) * (s.Position() - before)
	s.Stats.PrefillSeconds += time.Since(start).Seconds()
	return err
}

// StateSize is the number of bytes of the recurrent state, keys and values included.
func (s *Batch) StateSize() int {
	n := 0
	for _, state := range s.states {
		n += state.Size()
	}
	return n
}

// State is the state of sequence i, for saving. Among drafts (see Take) it may have to read ids first.
func (s *Batch) State(i int) *model.State {
	s.settle()
	return s.states[i]
}

// Model is the model that the batch runs.
func (s *Batch) Model() *model.Model { return s.model }

// Fork returns an independent batch in the same state, which may continue in another goroutine. Progress stays after.
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

// Repeat returns a batch of n copies of this one's only sequence: the way to draw several samples after one prompt.
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

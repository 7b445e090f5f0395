package generate

import "github.com/hippo-ssm/hippo/model"

// StepRows is the maximum number of ids that are read one at a time in one call of the model: sampled ids of a text
// that is read again, or one sampled id and the drafts after it. A call with one id takes as long as reading the
// weights. A call with StepRows ids takes twice as long; there the processor is as busy as memory.
const StepRows = 16

// ahead holds the ids by which a batch of one sequence is ahead of states[0]: ids of the text, and drafts after them.
// Both have been read in a copy of the state. If all drafts turn out to be sampled, the copy replaces the state.
// Otherwise the copy is dropped, and the ids of the text are read again together with the next ones, in the same call.
type ahead struct {
	ids    []int32      // ids after states[0]: of the text, then drafts
	sure   int          // number of ids that belong to the text
	drafts int          // number of drafts when ids were read
	state  *model.State // after all of ids; nil if there are no drafts
	logits []float32    // (drafts+1, padded vocabulary): after the id before the drafts and after each draft
	hidden []float32    // (ids, d_model): after each id; only of a model with an MTP head
	spare  *model.State // memory to reuse for state
}

// tail returns the ids of the text that states[0] has not read.
func (a *ahead) tail() []int32 { return a.ids[:a.sure] }

// forget drops the remaining drafts.
func (a *ahead) forget() {
	if a.state != nil {
		a.ids, a.state, a.spare = a.ids[:a.sure], nil, a.state
	}
}

// Room returns the maximum number of drafts that may follow the next id.
func (s *Batch) Room() int {
	n := StepRows - 1 - s.ahead.sure
	if most := s.model.MaxLength(); most > 0 {
		n = min(n, most-1-s.PositionOf(0))
	}
	return max(0, n)
}

// Take reports whether id is the next draft of those that a Part has read. If so, it moves the batch, of one sequence,
// past id, as if id had been fed: the batch has the logits after id. Otherwise Take drops the drafts.
func (s *Batch) Take(id int32) bool {
	a := &s.ahead
	if a.state == nil || a.ids[a.sure] != id {
		a.forget()
		return false
	}
	v := s.model.Config.PaddedVocab()
	a.sure++
	row := a.drafts - (len(a.ids) - a.sure)
	s.logits = a.logits[row*v:][:v:v]
	if s.Stats.AcceptedTokens++; a.sure == len(a.ids) {
		s.states[0], a.spare = a.state, s.states[0]
		a.ids, a.sure, a.state = a.ids[:0], 0, nil
	}
	return true
}

// settle reads the ids of the text that states[0] has not read.
func (s *Batch) settle() {
	a := &s.ahead
	if a.sure == 0 {
		return
	}
	b := lend()
	defer b.giveBack()
	b.rows.AddStepped(a.sure, s.states[0])
	b.ids = append(b.ids, a.tail()...)
	b.run(s.model)
	a.ids, a.sure = a.ids[a.sure:], 0
}

// Rest drops all drafts and releases their memory.
func (s *Batch) Rest() {
	s.ahead.forget()
	s.ahead.spare, s.ahead.hidden = nil, nil
	if s.ahead.logits != nil {
		s.logits = append([]float32(nil), s.logits...)
		s.ahead.logits = nil
	}
}

// addDrawn adds the tail of s and ids to the pass, to be read one at a time. The last ids are drafts.
func (b *pass) addDrawn(s *Batch, ids []int32, drafts int, silent bool) {
	a, v, state := &s.ahead, s.model.Config.PaddedVocab(), s.states[0]
	a.forget()
	a.ids = append(a.ids[:a.sure:a.sure], ids...)
	if drafts > 0 {
		state = s.copied()
		a.state, a.drafts = state, drafts
		if n := (drafts + 1) * v; cap(a.logits) < n {
			a.logits = make([]float32, n)
		}
		a.logits = a.logits[:(drafts+1)*v]
		s.logits = a.logits[:v:v]
		s.Stats.DraftedTokens += drafts
	}
	a.sure = len(a.ids) - drafts
	b.rows.AddStepped(len(a.ids), state)
	b.ids = append(b.ids, a.ids...)
	switch {
	case drafts > 0:
		for i := range drafts + 1 {
			b.last = append(b.last, place{to: a.logits[i*v:][:v]})
			b.ends = append(b.ends, int32(len(b.ids)-1-drafts+i))
		}
		return
	case !silent:
		b.last, b.ends = append(b.last, place{s: s}), append(b.ends, int32(len(b.ids)-1))
	}
	a.ids, a.sure = a.ids[:0], 0 // this call reads them
}

// copied returns a copy of the state, for reading drafts.
func (s *Batch) copied() *model.State {
	a := &s.ahead
	if a.spare == nil {
		return s.states[0].Clone()
	}
	state := a.spare
	a.spare = nil
	return s.states[0].CopyTo(state)
}

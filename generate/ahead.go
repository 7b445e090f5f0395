package generate

import "github.com/hippo-ssm/hippo/model"

// StepRows is the most ids that are read one at a time in one call of the model: drawn ids of a text that is read
// again, or one drawn id and the drafts after it. A call of one takes as long as reading the weights. One of so many
// takes twice as long, where the processor is as busy as memory.
const StepRows = 16

// ahead is what a batch of one sequence has beside states[0]: ids of the text that the state does not have, and drafts
// after them, which have been read in a copy of the state. If all drafts are drawn the copy takes the place of the
// state. If not it is dropped, and the ids of the text are read again with the next ones, in the same call.
type ahead struct {
	ids    []int32      // after states[0]
	sure   int          // how many of them are the text
	drafts int          // how many drafts followed the text when they were read
	state  *model.State // after all of ids; nil if they are the text
	logits []float32    // (drafts+1, padded vocabulary), after the id before the drafts and each of them
	hidden []float32    // (ids, d_model), after each of them; of a model with an MTP alone
	spare  *model.State // memory for state
}

// tail is the ids of the text that the state does not have.
func (a *ahead) tail() []int32 { return a.ids[:a.sure] }

// forget drops the drafts that have not been drawn.
func (a *ahead) forget() {
	if a.state != nil {
		a.ids, a.state, a.spare = a.ids[:a.sure], nil, a.state
	}
}

// Room is the most drafts that may follow the next id.
func (s *Batch) Room() int {
	n := StepRows - 1 - s.ahead.sure
	if most := s.model.MaxLength(); most > 0 {
		n = min(n, most-1-s.PositionOf(0))
	}
	return max(0, n)
}

// Take moves the batch, of one sequence, past id if id is the next one of the drafts of a Part, which have been read:
// it then has the logits after it, and all is as if it had been fed. Otherwise Take forgets the drafts and returns
// false.
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

// settle reads the ids of the text that the state does not have.
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

// Rest forgets all drafts and gives back their memory.
func (s *Batch) Rest() {
	s.ahead.forget()
	s.ahead.spare, s.ahead.hidden = nil, nil
	if s.ahead.logits != nil {
		s.logits = append([]float32(nil), s.logits...)
		s.ahead.logits = nil
	}
}

// addDrawn puts ids that are read one at a time after the others, the last of them drafts, with the tail before them.
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
	a.ids, a.sure = a.ids[:0], 0 // the call reads them
}

// copied returns a copy of the state to read drafts in.
func (s *Batch) copied() *model.State {
	a := &s.ahead
	if a.spare == nil {
		return s.states[0].Clone()
	}
	state := a.spare
	a.spare = nil
	return s.states[0].CopyTo(state)
}

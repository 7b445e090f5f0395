package session

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Text is a text that has been read and written, and what is left of it.
type Text struct {
	Plan  []Segment      // how it was read, as Session.Segments says
	Names map[string]int // of places in it
	// At is a place from which the model continues, at a cut of the plan; nil for the beginning.
	At *Snapshot
}

// From returns a session at the end of a text. What lies after its place is read when it is needed, in the pieces of
// the plan: so the session continues to the bit as the one that the text is of. Log-probabilities are not known.
func From(m *model.Model, tok tokenizer.Tokenizer, o Options, t Text) (*Session, error) {
	s := New(m, tok, o)
	for _, part := range t.Plan {
		if err := s.check(part.IDs); err != nil {
			return nil, err
		}
		s.text.add(part.Drawn, part.IDs...)
	}
	for range s.text.ids {
		s.logProbs = append(s.logProbs, float32(math.NaN()))
	}
	for name, at := range t.Names {
		if at < 0 || at > len(s.text.ids) {
			return nil, fmt.Errorf("session: found the mark %q at %d, want at most %d", name, at, len(s.text.ids))
		}
		s.names[name] = at
	}
	if t.At == nil {
		return s, nil
	}
	if at := t.At.Position; at > len(s.text.ids) || !s.text.isCut(at) {
		return nil, fmt.Errorf("session: found a state at %d of %d ids, not at a cut of the text", at, len(s.text.ids))
	}
	s.at = t.At
	s.mark()
	return s, nil
}

package session

import (
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Text is a text that a model has read and written, with an optional snapshot to continue from.
type Text struct {
	Plan  []Segment      // the text, divided as it was read: see Session.Segments
	Names map[string]int // positions of named marks
	// At is the snapshot to continue from. It must be at a cut of Plan. nil means the start of the text.
	At *Snapshot
}

// From returns a session at the end of a text. The session reads the ids after At when it needs them, in the pieces of
// the plan, so it continues with the same bits as the original session. Log-probabilities are unknown.
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

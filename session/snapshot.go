package session

import (
	"slices"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// Snapshot is a place in a text: what a model carries there. It never changes, and any number of sessions may continue
// from it at the same time. The pages of keys and values are shared until somebody writes to them.
type Snapshot struct {
	Position int // the number of ids read
	State    *model.State
	Logits   []float32 // after the last id; nil if they were not requested
}

// Take returns a snapshot of where a session of one sequence stands. Every id that it has drawn must have been read.
func Take(s *generate.Batch) *Snapshot {
	return &Snapshot{Position: s.Position(), State: s.State(0).Clone(), Logits: slices.Clone(s.Logits(0))}
}

// Session returns a session that continues from the snapshot, in pieces of Chunk.
func (n *Snapshot) Session(m *model.Model) *generate.Batch {
	s := generate.Resume(m, n.State.Clone(), n.Logits)
	s.Chunk = Chunk(m)
	return s
}

// Size is the number of bytes that the snapshot holds. Pages that others share are counted.
func (n *Snapshot) Size() int { return n.State.Size() + 4*len(n.Logits) }

// Chunk is at which multiples a text that is read is cut (see generate.Batch): the length of a piece at which a model
// is about as fast as with longer ones. A short one leaves less to read again where two texts part, and holds others up
// for a shorter time.
func Chunk(m *model.Model) int {
	if m.Convolves() {
		return 256
	}
	return 64
}

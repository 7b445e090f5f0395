package session

import (
	"slices"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// Snapshot is the state of a model at a position in a text. It never changes, and any number of sessions may continue
// from it at the same time. They share its pages of keys and values until one of them writes to a page.
type Snapshot struct {
	Position int // number of ids read
	State    *model.State
	Logits   []float32 // after the last id; nil if they were not requested
}

// Take returns a snapshot of a batch of one sequence. Every sampled id must have been read.
func Take(s *generate.Batch) *Snapshot {
	return &Snapshot{Position: s.Position(), State: s.State(0).Clone(), Logits: slices.Clone(s.Logits(0))}
}

// Session returns a batch that continues from the snapshot and reads in pieces of Chunk(m) ids.
func (n *Snapshot) Session(m *model.Model) *generate.Batch {
	s := generate.Resume(m, n.State.Clone(), n.Logits)
	s.Chunk = Chunk(m)
	return s
}

// Size returns the size of the snapshot in bytes, including the pages that it shares.
func (n *Snapshot) Size() int { return n.State.Size() + 4*len(n.Logits) }

// Chunk returns the default piece length (see generate.Batch). It is about the shortest at which the model reads at
// full speed. With shorter pieces, less is read again when two texts diverge, and other requests are delayed less.
func Chunk(m *model.Model) int {
	if m.Convolves() {
		return 256
	}
	return 64
}

package autograd

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
)

// Tapes lends tapes, with the memory that they have gathered, to whoever computes for the time of one call, so that
// what is idle holds none. There are as many as there have been calls at once; the garbage collector takes those that
// stay unused. Any number of goroutines may use it.
type Tapes struct {
	backend engine.Backend
	free    sync.Pool
}

// NewTapes returns Tapes on engines of a backend.
func NewTapes(b engine.Backend) *Tapes { return &Tapes{backend: b} }

// Lend returns an empty tape that does not record. Give it back with Return.
func (p *Tapes) Lend() *Tape {
	if t, ok := p.free.Get().(*Tape); ok {
		return t
	}
	return NewTape(p.backend)
}

// Return takes back what Lend gave. Every tensor made on the tape is dead afterwards.
func (p *Tapes) Return(t *Tape) {
	t.Reset()
	p.free.Put(t)
}

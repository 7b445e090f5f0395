package autograd

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
)

// Tapes lends tapes, with the memory that they have gathered, for the time of one call, so that an idle session holds
// none. There are as many tapes as there have been concurrent calls; the garbage collector frees those that stay
// unused. Several goroutines may use Tapes concurrently.
type Tapes struct {
	backend engine.Backend
	free    sync.Pool
}

// NewTapes returns Tapes on engines of a backend.
func NewTapes(b engine.Backend) *Tapes { return &Tapes{backend: b} }

// Lend returns an empty tape that does not record. Return it with Return.
func (p *Tapes) Lend() *Tape {
	if t, ok := p.free.Get().(*Tape); ok {
		return t
	}
	return NewTape(p.backend)
}

// Return takes back a tape from Lend. No tensor created on it may be used afterwards.
func (p *Tapes) Return(t *Tape) {
	t.Reset()
	p.free.Put(t)
}

package tensor

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// Spares is memory for copies that are made again and again, such as those of a state before each turn of a
// conversation. The system gives memory out page by page, as each is touched for the first time, which takes several
// times as long as copying to it; Warm does that ahead of time. The zero value is ready for use by any number of
// goroutines, and nil is Spares without memory.
type Spares struct {
	mu    sync.Mutex
	n     int         // elements of a piece, as it was wanted last
	taken int         // pieces since Warm was done
	ready [][]float32 // pieces that were touched
	next  []float32   // one that is being touched
	done  int         // how much of next was
}

// spareBytes is the most memory that waits, unless one piece is larger, and warmPart what Warm touches in a call: about
// a millisecond.
const spareBytes, warmPart = 64 << 20, 1 << 20

// Rooms is the function Rooms, in memory that Warm has made ready if there is any of that size. Its contents are
// unspecified.
func (s *Spares) Rooms(xs ...*Tensor) [][]float32 { return sideBySide(s.take, roomLengths(xs)) }

// take returns a piece of n elements.
func (s *Spares) take(n int) []float32 {
	if s == nil {
		return hugepage.Make[float32](n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != s.n {
		s.n, s.taken, s.ready, s.next = n, 0, nil, nil
	}
	s.taken++
	last := len(s.ready) - 1
	if last < 0 {
		return hugepage.Make[float32](n)
	}
	piece := s.ready[last]
	s.ready[last], s.ready = nil, s.ready[:last]
	return piece
}

// Warm makes a part of the memory ready that Rooms will want: as many pieces as since Warm was done before. It reports
// whether there is more to do.
func (s *Spares) Warm() (more bool) {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 || len(s.ready) >= min(s.taken, max(1, spareBytes/(4*s.n))) {
		s.taken = 0
		return false
	}
	if s.next == nil {
		s.next, s.done = hugepage.Make[float32](s.n), 0
	}
	end := min(s.n, s.done+warmPart/4)
	clear(s.next[s.done:end])
	if s.done = end; end == s.n {
		s.ready, s.next = append(s.ready, s.next), nil
	}
	return true
}

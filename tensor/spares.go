package tensor

import (
	"sync"

	"github.com/hippo-ssm/hippo/internal/hugepage"
)

// Spares provides memory for copies that are made again and again, such as those of a state before each turn of a
// conversation. The system allocates each page when it is first touched, which takes several times as long as copying
// to it. Warm does that ahead of time. The zero value is ready for use by any number of goroutines. A nil Spares has no
// memory ready.
type Spares struct {
	mu    sync.Mutex
	n     int         // number of elements of a piece in the last request
	taken int         // number of pieces taken since Warm was done
	ready [][]float32 // pieces that have been touched
	next  []float32   // piece that is being touched
	done  int         // number of elements of next that have been touched
}

// spareBytes is the most memory that is kept ready, unless one piece is larger. warmPart is the number of bytes that a
// call of Warm touches, in about a millisecond.
const spareBytes, warmPart = 64 << 20, 1 << 20

// Rooms is the function Rooms, but uses memory that Warm has prepared if there is any of that size. Its contents are
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

// Warm prepares a part of the memory for Rooms, up to as many pieces as were taken since Warm was last done. It reports
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

package store

import "context"

// SetMemory changes the memory budget in bytes. Marks that exceed the budget are evicted, into the bucket if there is
// one.
func (s *Store) SetMemory(ctx context.Context, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Memory = max(0, bytes)
	s.makeRoom(ctx, noMore, false)
}

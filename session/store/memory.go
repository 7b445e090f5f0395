package store

import "context"

// SetMemory changes the memory budget in bytes. Marks over the budget are evicted as usual: into the bucket, if there
// is one.
func (s *Store) SetMemory(ctx context.Context, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Memory = max(0, bytes)
	s.makeRoom(ctx, noMore, false)
}

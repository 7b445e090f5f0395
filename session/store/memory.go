package store

import "context"

// SetMemory changes how many bytes the store may hold in memory. What no longer has room goes as it does when something
// new comes: into the bucket where there is one.
func (s *Store) SetMemory(ctx context.Context, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Memory = max(0, bytes)
	s.makeRoom(ctx, noMore, false)
}

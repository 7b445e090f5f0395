package store

import "testing"

// TestSetMemory: a store that is given less memory gives up at once what has no room, into its bucket where there is
// one. Given more again, it keeps more.
func TestSetMemory(t *testing.T) {
	m := language(t, "s4d")
	for _, bucket := range []Bucket{nil, Folder(t.TempDir())} {
		s := open(t, m, Options{Memory: roomFor(m, 6), Bucket: bucket})
		for i := range 6 {
			put(t, s, text(uint64(i), 60), fake(m, 60))
		}
		s.SetMemory(t.Context(), roomFor(m, 2))
		got := s.Stats()
		if got.Marks > 2 || got.Marks == 0 || got.Memory > roomFor(m, 2) {
			t.Errorf("with less memory there are %+v", got)
		}
		if bucket != nil && (got.Lost != 0 || got.Marks+got.Objects < 6) {
			t.Errorf("with a bucket marks were lost: %+v", got)
		}
		s.writers.Wait() // marks are written ahead of need
		check(t, s)
		s.SetMemory(t.Context(), roomFor(m, 6))
		for i := range 6 {
			put(t, s, text(uint64(i), 60), fake(m, 60))
		}
		if got := s.Stats(); got.Marks != 6 {
			t.Errorf("with more memory again there are %+v", got)
		}
		s.SetMemory(t.Context(), 0)
		if got := s.Stats(); got.Marks != 0 {
			t.Errorf("without memory there are %+v", got)
		}
	}
}

package store

import (
	"errors"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestSetMemory checks that a store with a smaller budget evicts at once the marks that do not fit, into its bucket if
// it has one, and that with a larger budget it stores more again.
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
		s.writers.Wait() // some marks may still be written ahead
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

// TestTooLargeIsSaid checks that a mark larger than all memory is counted and recorded in Found, and that the first one
// is reported. With a bucket it is stored there.
func TestTooLargeIsSaid(t *testing.T) {
	m := language(t, "s4d")
	said := 0
	s := open(t, m, Options{Memory: 1000, Report: func(err error) {
		if said++; !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	}})
	for seed := range uint64(2) {
		_, found, err := s.Open(t.Context(), Reading{Runner: session.Direct{}, Plan: whole(text(seed, 60))})
		if err != nil || !found.TooLarge || found.Kept != 0 {
			t.Errorf("found %+v, %v", found, err)
		}
	}
	if got := s.Stats(); said != 1 || got.TooLarge < 2 || got.Lost != got.TooLarge {
		t.Errorf("%d were reported of %+v", said, got)
	}
	s = open(t, m, Options{Memory: 1000, Bucket: Folder(t.TempDir())})
	_, found, err := s.Open(t.Context(), Reading{Runner: session.Direct{}, Plan: whole(text(1, 60))})
	if err != nil || found.TooLarge || found.Kept != 60 || s.Stats().TooLarge != 0 {
		t.Errorf("with a bucket: %+v, %v", found, err)
	}
}

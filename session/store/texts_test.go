package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestTextsAreKnownAfterRestart checks that a new store on a bucket reports where a text diverges from texts of an
// earlier store, as that store would, encrypted and not, and that it continues from the marks of that store.
func TestTextsAreKnownAfterRestart(t *testing.T) {
	for _, secret := range [][]byte{nil, []byte("0123456789abcdef")} {
		m, bucket := language(t, hybrid), newMemory()
		begin := text(1, 100)
		o := Options{Memory: room, Bucket: bucket, Key: secret}
		s := open(t, m, o)
		want(t, s, m, session.Direct{}, whole(begin, text(2, 60)))
		want(t, s, m, session.Direct{}, whole(begin, text(3, 60)))
		want(t, s, m, session.Direct{}, []session.Segment{{IDs: begin}, {IDs: text(4, 9), Drawn: true}})
		edited := slices.Clone(begin)
		edited[90]++
		asked := [][]session.Segment{
			whole(edited), whole(begin, text(2, 60), text(5, 9)), whole(text(6, 50)), whole(begin, text(2, 7)),
			{{IDs: begin}, {IDs: text(4, 5), Drawn: true}, {IDs: text(7, 3)}},
		}
		var before []Miss
		for _, plan := range asked {
			before = append(before, s.Find(t.Context(), plan).Miss)
		}
		for range 3 { // each restarts on the bucket of the one before
			if err := errors.Join(s.Flush(t.Context()), s.WriteTexts(t.Context())); err != nil {
				t.Fatal(err)
			}
			s = open(t, m, o)
		}
		for i, plan := range asked {
			if f := s.Find(t.Context(), plan); f.Miss != before[i] {
				t.Errorf("%v after a restart, want %v", f.Miss, before[i])
			}
			want(t, s, m, session.Direct{}, plan)
		}
		kept := slices.DeleteFunc(bucket.names(), func(name string) bool { return !s.isTexts(name) })
		if len(kept) != 1 {
			t.Errorf("the texts are in %q, want one object", kept)
		}
	}
}

// TestTextsOfTwoStoresAreKept checks that a later store knows the texts of two stores that ran at the same time.
func TestTextsOfTwoStoresAreKept(t *testing.T) {
	m, bucket := language(t, hybrid), newMemory()
	o := Options{Memory: room, Bucket: bucket}
	a, b := open(t, m, o), open(t, m, o)
	want(t, a, m, session.Direct{}, whole(text(1, 40)))
	want(t, b, m, session.Direct{}, whole(text(2, 40)))
	for _, s := range []*Store{a, b, a} {
		if err := s.WriteTexts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, m, o)
	for seed := range uint64(2) {
		edited := text(seed+1, 40)
		edited[39]++
		if f := c.Find(t.Context(), whole(edited)); f.Miss != (Miss{Edited, 39}) {
			t.Errorf("text %d: %v, want edited at 39", seed+1, f.Miss)
		}
	}
}

// TestDamagedTextsAreSetAside checks that texts with any byte changed or cut off are refused, quarantined and reported,
// and that the store continues.
func TestDamagedTextsAreSetAside(t *testing.T) {
	m, bucket := language(t, hybrid), newMemory()
	s := open(t, m, Options{Memory: room, Bucket: bucket})
	want(t, s, m, session.Direct{}, whole(text(1, 40)))
	s.mu.Lock()
	data, _ := s.encodeTexts()
	s.mu.Unlock()
	for i := range data {
		damaged := slices.Clone(data)
		damaged[i] ^= 1 << (i % 8)
		if _, err := decodeTexts(damaged, s.origin); !errors.Is(err, session.ErrDamaged) {
			t.Fatalf("byte %d of %d is changed, and the error is %v", i, len(data), err)
		}
		if _, err := decodeTexts(data[:i], s.origin); !errors.Is(err, session.ErrDamaged) {
			t.Fatalf("%d bytes are left of %d, and the error is %v", i, len(data), err)
		}
	}
	if err := bucket.Put(context.Background(), s.model+textsFolder+"00", data[:20]); err != nil {
		t.Fatal(err)
	}
	var told []string
	s = open(t, m, Options{Memory: room, Bucket: bucket, Report: func(err error) { told = append(told, err.Error()) }})
	if len(told) != 1 || !strings.Contains(told[0], aside) {
		t.Errorf("told %q", told)
	}
	want(t, s, m, session.Direct{}, whole(text(1, 40)))
}

package store

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// TestMarksOfOneTextShareItsPages checks that keys and values shared by the marks of a long text are counted once. So
// the turns of a conversation fit into memory that could hold only a few separate copies of its states.
func TestMarksOfOneTextShareItsPages(t *testing.T) {
	const long, turns, more = 1280, 12, 2 * chunk
	m := language(t, "attention,s4d")
	ids := text(1, long+turns*more)
	s := generate.NewBatch(m, 1)
	if err := s.Feed(t.Context(), ids[:long]); err != nil {
		t.Fatal(err)
	}
	own, paged := snapshotSize(session.Take(s))
	store := open(t, m, Options{Memory: 2*(own+paged) + 2*turns*own})
	var plan []session.Segment // each turn is a segment, so its end is a cut
	for i := range turns {
		from, to := long+(i-1)*more, long+i*more
		plan = append(plan, session.Segment{IDs: ids[max(0, from)*min(i, 1) : to]})
		read := &counting{}
		found := want(t, store, m, read, slices.Clone(plan))
		if n := read.took(); i > 0 && (found.Cached != from || n != more) {
			t.Fatalf("turn %d: %d ids are read, behind %d that were there, want %d behind %d", i, n, found.Cached, more,
				from)
		}
		check(t, store)
	}
	if got := store.Stats(); got.Lost > 0 {
		t.Errorf("%d marks are lost of %d turns", got.Lost, turns)
	}
	// Other marks share the pages of evicted marks, so a page is freed with the last mark that has it.
	store.SetMemory(t.Context(), 0)
	check(t, store)
	if n := len(store.marks.pages); n > 0 || store.marks.bytes != 0 {
		t.Errorf("%d pages and %d bytes are held of no marks", n, store.marks.bytes)
	}
}

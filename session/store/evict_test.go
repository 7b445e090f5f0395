package store

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
)

// fake returns a mark at a position. All have the same size, and none is read from.
func fake(m *model.Model, at int) *session.Snapshot {
	return &session.Snapshot{Position: at, State: m.NewState(), Logits: make([]float32, 20_000)}
}

// put stores a text with marks.
func put(t testing.TB, s *Store, ids []int32, marks ...*session.Snapshot) {
	t.Helper()
	if err := s.Put(t.Context(), whole(ids), nil, marks...); err != nil {
		t.Fatal(err)
	}
}

// roomFor returns a budget for n, but not n+1, marks of a model.
func roomFor(m *model.Model, n int) int64 {
	one, _ := snapshotSize(fake(m, 1))
	return int64(n)*one + one*9/10
}

// TestWhatCostsLeastGoesFirst checks that of unused marks those with the shortest texts are evicted first.
func TestWhatCostsLeastGoesFirst(t *testing.T) {
	m := language(t, "s4d")
	s := open(t, m, Options{Memory: roomFor(m, 5)})
	lengths := []int{60, 20, 90, 40, 70, 200, 210}
	for i, n := range lengths {
		put(t, s, text(uint64(i), n), fake(m, n))
	}
	for i, n := range lengths {
		found := s.Find(t.Context(), whole(text(uint64(i), n)))
		if want := n >= 60; (found.Cached == n) != want || !want && found.Miss != (Miss{Evicted, n}) {
			t.Errorf("of %d ids %d are there (%v)", n, found.Cached, found.Miss)
		}
	}
	if got := s.Stats(); got.Lost != 2 || got.Marks != 5 || got.Memory > s.o.Memory {
		t.Errorf("%+v", got)
	}
}

// TestWhatIsUsedStays checks that a text in repeated use stays longer than longer unused ones, and that an unused text
// is eventually evicted, whatever its cost.
func TestWhatIsUsedStays(t *testing.T) {
	m := language(t, "s4d")
	s := open(t, m, Options{Memory: roomFor(m, 3)})
	used, unused := text(100, 40), text(101, 300)
	put(t, s, unused, fake(m, 300))
	put(t, s, used, fake(m, 40))
	for i := range 40 {
		if found := s.Find(t.Context(), whole(used)); found.Cached != 40 {
			t.Fatalf("after %d other texts the one in use is gone", i)
		}
		put(t, s, text(uint64(i), 60), fake(m, 60))
	}
	if found := s.Find(t.Context(), whole(unused)); found.Cached != 0 {
		t.Error("after 40 other texts the one that nobody uses is there")
	}
}

// TestMarksInsideGoBeforeEnds checks that marks inside a text are evicted before the one at its end, since only texts
// that diverge between them and the next mark need them. A mark where texts have diverged stays.
func TestMarksInsideGoBeforeEnds(t *testing.T) {
	m := language(t, "s4d")
	s := open(t, m, Options{Memory: roomFor(m, 5)})
	a, b := text(1, 280), text(2, 160)
	put(t, s, a, fake(m, 160), fake(m, 240), fake(m, 280))
	put(t, s, slices.Concat(a[:160], b), fake(m, 320))
	put(t, s, text(3, 100), fake(m, 100))
	put(t, s, text(4, 100), fake(m, 100))
	var there []int
	for _, at := range []int{160, 240, 280} {
		r := read(whole(a), chunk)
		if s.find(t.Context(), r, r.keys(s.origin), at).Cached == at {
			there = append(there, at)
		}
	}
	if !slices.Equal(there, []int{160, 280}) {
		t.Errorf("the marks at %d are there, want those where texts parted and at the end", there)
	}
}

// TestTextsWithoutMarksAreBounded checks that texts that only serve to explain misses take a limited part of the
// budget.
func TestTextsWithoutMarksAreBounded(t *testing.T) {
	m := language(t, "s4d")
	s := open(t, m, Options{Memory: roomFor(m, 8)})
	for i := range 400 {
		put(t, s, text(uint64(i), 100), fake(m, 100))
		if s.Stats().Memory > s.o.Memory {
			t.Fatalf("%d bytes, want at most %d", s.Stats().Memory, s.o.Memory)
		}
	}
	check(t, s)
	if s.tree.bareBytes > s.o.Memory/bareShare+nodeSize+400 || s.tree.bare.Len() == 0 {
		t.Errorf("%d texts without a mark, of %d bytes", s.tree.bare.Len(), s.tree.bareBytes)
	}
}

// TestPutRefuses checks that Put refuses marks and log-probabilities that do not belong to the text, and New invalid
// options.
func TestPutRefuses(t *testing.T) {
	m := language(t, "s4d")
	s := open(t, m, Options{Memory: room})
	for _, at := range []int{0, 5, 41} {
		if err := s.Put(t.Context(), whole(text(1, 40)), nil, fake(m, at)); err == nil {
			t.Errorf("a mark at %d of 40 ids is taken", at)
		}
	}
	if err := s.Put(t.Context(), whole(text(1, 4)), make([]float32, 5)); err == nil {
		t.Error("5 log-probabilities of 4 ids are taken")
	}
	id := session.Identity{Chunk: 1}
	for _, o := range []Options{
		{}, {Model: m}, {Identity: id}, {Model: m, Identity: id, Memory: -1}, {Model: m, Identity: id, Disk: -1},
		{Model: m, Identity: id, Key: []byte("short")},
	} {
		if _, err := New(t.Context(), o); err == nil {
			t.Errorf("made a store of %+v", o)
		}
	}
}

// TestMarkWithLogitsReplacesOneWithout checks that at the end of a text only a mark with logits is found.
func TestMarkWithLogitsReplacesOneWithout(t *testing.T) {
	m := language(t, "s4d")
	s := open(t, m, Options{Memory: room})
	ids := text(1, 40)
	bare := fake(m, 40)
	bare.Logits = nil
	for i, mark := range []*session.Snapshot{bare, fake(m, 40), bare} {
		put(t, s, ids, mark)
		if found := s.Find(t.Context(), whole(ids)); (found.Cached == 40) != (i > 0) {
			t.Errorf("step %d: found up to %d", i, found.Cached)
		}
		check(t, s)
	}
	if n := s.Stats().Marks; n != 1 {
		t.Errorf("%d marks, want 1", n)
	}
}

// TestMemoryOverflowsIntoTheBucket checks that marks that do not fit in memory are found in the bucket, by this store
// and by others, and that none is lost.
func TestMemoryOverflowsIntoTheBucket(t *testing.T) {
	m, bucket, r := language(t, hybrid), newMemory(), &counting{}
	o := Options{Memory: 150_000, Bucket: bucket}
	s := open(t, m, o)
	for i := range 30 {
		want(t, s, m, r, whole(text(uint64(i), 100)))
	}
	if st := s.Stats(); st.Marks > 20 || st.Objects < 30 {
		t.Errorf("%+v", st)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, m, o)} {
		r.took()
		for i := range 30 {
			want(t, s, m, r, whole(text(uint64(i), 100)))
		}
		if n := r.took(); n > 30*chunk {
			t.Errorf("%d ids were read again, want at most a piece of each text", n)
		}
	}
}

// TestOthersMarksAreSeen checks that a store finds a mark that another wrote after the store listed the bucket.
func TestOthersMarksAreSeen(t *testing.T) {
	m, bucket := language(t, "s4d"), newMemory()
	o := Options{Memory: room, Bucket: bucket, Refresh: -1}
	a, b := open(t, m, o), open(t, m, o)
	plan := whole(text(1, 100))
	want(t, a, m, session.Direct{}, plan)
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := want(t, b, m, session.Direct{}, plan); found.Cached != 100 {
		t.Errorf("found %d ids, want 100", found.Cached)
	}
}

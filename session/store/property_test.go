package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
)

// drawPlan returns a random text that may share a prefix with an earlier one. Its last segment is read or sampled.
func drawPlan(t *rapid.T, earlier [][]session.Segment) []session.Segment {
	var plan []session.Segment
	if len(earlier) > 0 && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
		old := rapid.SampledFrom(earlier).Draw(t, "earlier")
		n := 0
		for _, s := range old {
			n += len(s.IDs)
		}
		plan = part(old, 0, rapid.IntRange(0, n).Draw(t, "until"))
	}
	ids := text(uint64(rapid.IntRange(0, 1000).Draw(t, "ids")), rapid.IntRange(1, 70).Draw(t, "length"))
	drawn := rapid.IntRange(0, 4).Draw(t, "drawn") == 0
	if !drawn && rapid.Bool().Draw(t, "canonical") {
		for _, s := range slices.Backward(plan) {
			ids = append(slices.Clone(s.IDs), ids...)
		}
		plan = nil
	}
	return append(plan, session.Segment{IDs: ids, Drawn: drawn})
}

// TestAnyStoreGivesTheBitsOfReading checks stores that share a bucket, with marks evicted, damaged or removed at
// random. Every text must open with the same bits as without a store, exactly the ids that were not found are read, and
// no budget is exceeded.
func TestAnyStoreGivesTheBitsOfReading(t *testing.T) {
	m := language(t, hybrid)
	known := map[string][]float32{}
	rapid.Check(t, func(t *rapid.T) {
		bucket, r := newMemory(), &counting{}
		limit := int64(rapid.SampledFrom([]int{0, 300_000, 1 << 20}).Draw(t, "disk"))
		damaged := 0
		key := rapid.SampledFrom([][]byte{nil, []byte("0123456789abcdef")}).Draw(t, "key")
		makeStore := func() *Store {
			o := Options{
				Model: m, Identity: session.Identity{Chunk: chunk}, Bucket: bucket, Disk: limit, Refresh: -1,
				Key: key, Memory: int64(rapid.SampledFrom([]int{1000, 40_000, 150_000, room}).Draw(t, "memory")),
				Report: func(err error) {
					if !errors.Is(err, ErrTooLarge) {
						damaged--
					}
				},
			}
			if rapid.IntRange(0, 3).Draw(t, "only memory") == 0 {
				o.Bucket = nil
			}
			s, err := New(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		stores := []*Store{makeStore(), makeStore()}
		var plans [][]session.Segment
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "store")
			s := stores[i].Scope(rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "scope"))
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0:
				if err := s.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			case 1:
				stores[i] = makeStore()
			case 2:
				names := slices.DeleteFunc(bucket.names(), func(n string) bool { return n[:6] == aside })
				if len(names) > 0 {
					damage(t, bucket, rapid.SampledFrom(names).Draw(t, "object"))
					damaged++
				}
			case 3:
				plan := drawPlan(t, plans)
				n := read(plan, chunk).len()
				from := rapid.IntRange(0, n).Draw(t, "from")
				got, _, err := s.Score(t.Context(), Reading{Runner: r, Plan: plan}, from)
				want, _, err2 := nothing(t, m).Score(t.Context(), Reading{Runner: session.Direct{}, Plan: plan},
					from)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("scores from %d of %v are %v, alone %v", from, plan, got, want)
				}
				plans = append(plans, plan)
			default:
				plan := drawPlan(t, plans)
				r.took()
				got, found, err := s.Open(t.Context(), Reading{Runner: r, Plan: plan})
				if err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprint(plan)
				if known[text] == nil {
					known[text] = plain(t, m, plan)
				}
				if !slices.Equal(bits(got), known[text]) {
					t.Fatalf("other bits after %+v", *found)
				}
				if n := read(plan, chunk).len(); r.took() != n-found.Cached || got.Position() != n {
					t.Fatalf("not %d ids were read for %d, to %d", n-found.Cached, n, got.Position())
				}
				plans = append(plans, plan)
			}
			for _, s := range stores {
				s.Close()
				st := s.Stats()
				if st.Memory > max(s.o.Memory, s.tree.root(s.origin).size()+objectSize*int64(st.Objects)) {
					t.Fatalf("%d bytes in memory, want at most %d", st.Memory, s.o.Memory)
				}
				check(t, s)
			}
			if limit > 0 && bucket.most > limit+limit/8 {
				t.Fatalf("%d bytes in the bucket, want at most %d", bucket.most, limit)
			}
		}
		if damaged < 0 {
			t.Fatalf("%d more errors were told than objects were damaged", -damaged)
		}
	})
}

// nothing returns a store that can store nothing.
func nothing(t *rapid.T, m *model.Model) *Store {
	s, err := New(t.Context(), Options{Model: m, Identity: session.Identity{Chunk: chunk}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// damage changes, truncates or removes an object.
func damage(t *rapid.T, b *memory, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data := slices.Clone(b.objects[name])
	what := rapid.IntRange(0, 2).Draw(t, "damage")
	if len(data) == 0 {
		what = 2
	}
	switch what {
	case 0:
		data[rapid.IntRange(0, len(data)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	case 1:
		data = data[:rapid.IntRange(0, len(data)-1).Draw(t, "left")]
	case 2:
		delete(b.objects, name)
		return
	}
	b.objects[name] = data
}

// check recomputes the counts of a store and compares them.
func check(t interface{ Fatalf(string, ...any) }, s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nodes, bare, marks int64
	paged := map[any]int{}
	var walk func(n *node)
	walk = func(n *node) {
		nodes += n.size()
		if n.bare != nil {
			bare += n.size()
		}
		if (n.bare != nil) != (len(n.kids) == 0 && n.mark == nil && n.parent != nil) {
			t.Fatalf("a node at %d is bare, or not, and should not be", n.end())
		}
		if m := n.mark; m != nil {
			own, _ := snapshotSize(m.snapshot)
			marks += own
			m.snapshot.State.Pages(func(page any, bytes, _ int) { paged[page] = bytes })
			if m.at != n || s.marks.heap[m.place] != m || m.snapshot.Position != n.end() {
				t.Fatalf("the mark at %d is elsewhere", n.end())
			}
		}
		for i, kid := range n.kids {
			if kid.parent != n || kid.start != n.end() || len(kid.syms) == 0 || kid.syms[len(kid.syms)-1]&1 == 0 ||
				kid.logp != nil && len(kid.logp) != len(kid.syms) {
				t.Fatalf("a child of a node at %d is wrong", n.end())
			}
			if i == 0 {
				walk(kid)
				continue
			}
			if last := n.kids[i-1].syms; slices.Compare(last, kid.syms) >= 0 || samePieces(last, kid.syms) > 0 {
				t.Fatalf("children of a node at %d are in the wrong order, or begin alike", n.end())
			}
			walk(kid)
		}
	}
	for _, root := range s.tree.roots {
		walk(root)
	}
	for _, bytes := range paged {
		marks += int64(bytes)
	}
	var stored int64
	for _, m := range s.marks.heap {
		if m.stored {
			stored += m.bytes
		}
	}
	if nodes != s.tree.bytes || stored != s.marks.stored || bare != s.tree.bareBytes || marks != s.marks.bytes {
		t.Fatalf("counted %d, %d, %d bytes of nodes, bare ones and marks, want %d, %d, %d", s.tree.bytes,
			s.tree.bareBytes, s.marks.bytes, nodes, bare, marks)
	}
	var objects int64
	for k, o := range s.index.objects {
		if o.key != k {
			t.Fatalf("an object has another key")
		}
		objects += o.size
	}
	if objects != s.index.bytes || s.index.writing != 0 || s.marks.leaving != 0 || len(s.claims) > 0 {
		t.Fatalf("counted %d bytes of objects, want %d; %d being written, %d marks leaving, %d claims", s.index.bytes,
			objects, s.index.writing, s.marks.leaving, len(s.claims))
	}
}

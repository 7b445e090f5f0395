package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestOpenReadsWhatIsNotStored checks that a known text is not read again, that a longer one is read from the last
// multiple of the chunk, and that one that diverges is read from the mark before. The store explains each miss. It sets
// a mark where texts diverge, so the next text that diverges there is read from there.
func TestOpenReadsWhatIsNotStored(t *testing.T) {
	m, r := language(t, hybrid), &counting{}
	s := open(t, m, Options{Memory: room})
	a, b, c := text(1, 200), text(2, 100), text(3, 100)
	drawn := []session.Segment{{IDs: a[:90]}, {IDs: a[90:100], Drawn: true}, {IDs: b[:50]}}
	for _, step := range []struct {
		name   string
		plan   []session.Segment
		cached int
		miss   Miss
	}{
		{"the first text", whole(a), 0, Miss{Nothing, 0}},
		{"the same", whole(a), 200, Miss{Whole, 200}},
		{"a longer one", whole(a, b), 192, Miss{Longer, 200}},
		{"a shorter one", whole(a[:180]), 160, Miss{Inside, 180}},
		{"edited between marks", whole(a[:80], c), 0, Miss{Edited, 80}},
		{"edited there again, where a mark was left", whole(a[:80], b), 80, Miss{Edited, 80}},
		{"edited elsewhere", whole(a[:100], c), 80, Miss{Edited, 100}},
		{"another beginning", whole(a[:3], c), 0, Miss{Start, 3}},
		{"a reply that was drawn", drawn, 80, Miss{Cut, 90}},
		{"the reply again", drawn, 150, Miss{Whole, 150}},
		{"the reply as text", whole(a[:100], b[:50]), 96, Miss{Edited, 100}},
		{"an edit of what was drawn", []session.Segment{{IDs: a[:90]}, {IDs: c[:5], Drawn: true}}, 80,
			Miss{Edited, 90}},
	} {
		n := 0
		for _, x := range step.plan {
			n += len(x.IDs)
		}
		found := want(t, s, m, r, step.plan)
		if found.Cached != step.cached || found.Miss != step.miss {
			t.Errorf("%s: cached %d, %v (%d at %d), want %d, %v (%d at %d)", step.name, found.Cached, found.Miss,
				found.Miss.Reason, found.Miss.At, step.cached, step.miss, step.miss.Reason, step.miss.At)
		}
		if got := r.took(); got != n-found.Cached {
			t.Errorf("%s: %d ids were read, want %d", step.name, got, n-found.Cached)
		}
	}
}

// TestRereadIsBounded checks that if a text diverges from a long one, at most as many ids are read again as the long
// one has after the divergence, plus a piece. The next text that diverges there reads at most a piece again.
func TestRereadIsBounded(t *testing.T) {
	m, r := language(t, "s4d"), &counting{}
	a := text(1, 1000)
	for at := 1; at < 1000; at += 37 {
		s := open(t, m, Options{Memory: room})
		want(t, s, m, r, whole(a))
		r.took()
		if want(t, s, m, r, whole(a[:at], []int32{(a[at] + 1) % vocab})); r.took() > 1000-at+chunk {
			t.Errorf("parted at %d: more ids were read than lie behind", at)
		}
		want(t, s, m, r, whole(a[:at], []int32{(a[at] + 2) % vocab}))
		if n := r.took(); n > chunk {
			t.Errorf("parted at %d again: %d ids were read, want at most %d", at, n, chunk)
		}
	}
}

// TestScoreReadsTheContextOnce checks that a context with many endings is read once, and that each ending has the same
// log-probabilities as alone. A repeated request reads nothing.
func TestScoreReadsTheContextOnce(t *testing.T) {
	m, r := language(t, hybrid), &counting{}
	s := open(t, m, Options{Memory: room})
	common := text(1, 500)
	var plans [][]session.Segment
	total := len(common)
	for i := range 20 {
		ending := text(uint64(i), 3+i)
		plans = append(plans, []session.Segment{{IDs: common}, {IDs: ending}})
		total += len(ending)
	}
	score := func(s *Store, r session.Runner, plan []session.Segment, from int) []float32 {
		t.Helper()
		logp, _, err := s.Score(t.Context(), Reading{Runner: r, Plan: plan}, from)
		if err != nil {
			t.Fatal(err)
		}
		return logp
	}
	alone := func(plan []session.Segment, from int) []float32 {
		return score(open(t, m, Options{Memory: 0}), session.Direct{}, plan, from)
	}
	for _, plan := range plans {
		if got := score(s, r, plan, len(common)); !slices.Equal(got, alone(plan, len(common))) {
			t.Errorf("scores are %v, alone %v", got, alone(plan, len(common)))
		}
	}
	if got := r.took(); got != total {
		t.Errorf("%d ids were read, want %d", got, total)
	}
	for _, plan := range plans {
		score(s, r, plan, len(common))
	}
	if got := r.took(); got != 0 {
		t.Errorf("%d ids were read again, want none", got)
	}
	// The log-probabilities of the context were not computed yet: they need one read.
	for i := range 3 {
		got, want := score(s, r, plans[i], 0), alone(plans[i], 0)
		if len(got) != len(want) || !isUnknown(got[0]) || !slices.Equal(got[1:], want[1:]) {
			t.Errorf("scores of all differ")
		}
		n := r.took()
		if first := i == 0; first != (n > 0) {
			t.Errorf("text %d: %d ids were read", i, n)
		}
	}
	if _, _, err := s.Score(t.Context(), Reading{Runner: r, Plan: plans[0]}, 504); err == nil {
		t.Error("scores from behind the end")
	}
}

// TestWhatManyWantIsReadOnce checks that of concurrent texts with the same prefix one reads the prefix and the others
// wait for it. If that one is canceled, another reads it.
func TestWhatManyWantIsReadOnce(t *testing.T) {
	m, r := language(t, hybrid), &counting{}
	s := open(t, m, Options{Memory: room})
	common, total := text(1, 600), 600
	var all sync.WaitGroup
	for i := range 16 {
		plan := []session.Segment{{IDs: common}, {IDs: text(uint64(i+2), 10)}}
		total += 10
		all.Go(func() {
			got, _, err := s.Open(context.Background(), Reading{Runner: r, Plan: plan})
			if err != nil {
				t.Error(err)
			} else if !slices.Equal(bits(got), plain(t, m, plan)) {
				t.Errorf("text %d: other bits", i)
			}
		})
	}
	all.Wait()
	if got := r.took(); got != total {
		t.Errorf("%d ids were read, want %d", got, total)
	}
	canceled, cancel := context.WithCancel(t.Context())
	plan := whole(text(100, 600))
	g := Reading{Runner: session.Direct{}, Plan: plan, Progress: func(read, total int) { cancel() }}
	all.Go(func() {
		if _, _, err := s.Open(canceled, g); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
	<-canceled.Done()
	want(t, s, m, r, plan)
	all.Wait()
	if len(s.claims) > 0 {
		t.Errorf("%d claims are left", len(s.claims))
	}
}

// TestMissesAreExplained checks that every reason has its own explanation.
func TestMissesAreExplained(t *testing.T) {
	seen := map[string]bool{}
	for r := Whole; r <= Between; r++ {
		seen[fmt.Sprint(Miss{r, 7})] = true
	}
	if len(seen) != int(Between)+1 {
		t.Errorf("%d explanations of %d reasons", len(seen), Between+1)
	}
}

// stopping is a Runner that records where requests end, and whether they have logits there.
type stopping struct{ ends, silent []int }

func (r *stopping) Run(ctx context.Context, q *session.Request) error {
	err := session.Direct{}.Run(ctx, q)
	if at := q.Session.Position(); q.Session.Logits(0) == nil {
		r.silent = append(r.silent, at)
	} else {
		r.ends = append(r.ends, at)
	}
	return err
}

// TestTurnHasLogitsOnce checks that a turn after a stored text is read with logits only at its end. Marks at multiples
// of the chunk have no logits, so a text that ends there is read from the mark before.
func TestTurnHasLogitsOnce(t *testing.T) {
	m, r := language(t, hybrid), &stopping{}
	s := open(t, m, Options{Memory: room})
	a, b := text(1, 90), text(2, 50)
	want(t, s, m, r, whole(a))
	*r = stopping{}
	turn := []session.Segment{{IDs: a}, {IDs: b[:1], Drawn: true}, {IDs: b[1:]}}
	want(t, s, m, r, turn)
	if want := []int{96, 128}; !slices.Equal(r.silent, want) || !slices.Equal(r.ends, []int{140}) {
		t.Errorf("stopped with logits at %v and without at %v, want [140] and %v", r.ends, r.silent, want)
	}
	turn[2].IDs = b[1 : 128-90]
	if found := want(t, s, m, r, turn); found.Cached != 96 {
		t.Errorf("cached %d of a text that ends at a mark without logits, want 96", found.Cached)
	}
	if found := want(t, s, m, r, turn); found.Cached != 128 {
		t.Errorf("cached %d of the same text again, want 128", found.Cached)
	}
}

package host

import (
	"context"
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/generate/sample"
)

// TestScoresForget checks that scores stay within their budget, and that unused ones are evicted.
func TestScoresForget(t *testing.T) {
	one := (&block{ids: make([]Token, 4), of: Wanted{Top: 1}}).size()
	s := newScores(4, 3*one)
	text := func(i int32) []int32 { return []int32{i, i, i, i, i} }
	for i := range int32(5) {
		s.keep(s.keys("", text(i)), make([]Token, 5), Wanted{Top: 1})
		known, release, err := s.claim(t.Context(), s.keys("", text(0)), Wanted{Top: 1})
		if err != nil || len(known) != 4 {
			t.Errorf("after %d others %d ids of a text that is asked for are known (%v)", i, len(known), err)
		} else {
			release()
		}
	}
	if s.bytes > s.most || len(s.blocks) != 3 || s.recent.Len() != 3 {
		t.Errorf("%d blocks of %d bytes, want 3 of at most %d", len(s.blocks), s.bytes, s.most)
	}
	for i, want := range []int{4, 0, 0, 4, 4} {
		known, release, err := s.claim(t.Context(), s.keys("", text(int32(i))), Wanted{Top: 1})
		if err != nil || len(known) != want {
			t.Errorf("of text %d %d ids are known (%v), want %d", i, len(known), err, want)
		}
		release()
	}
	if known, release, _ := s.claim(t.Context(), s.keys("", text(4)), Wanted{Top: 2}); len(known) != 0 {
		t.Errorf("%d ids are known with more alternatives than were kept", len(known))
	} else {
		release()
	}
}

// TestScoresAddUp checks that scores of a text with ranks and with alternatives are both kept, and are not mixed up.
func TestScoresAddUp(t *testing.T) {
	s := newScores(2, 1<<20)
	keys := s.keys("", []int32{1, 2})
	one := []Token{{ID: 1, Top: []sample.TokenProb{{ID: 7}}}, {ID: 2, Top: []sample.TokenProb{{ID: 8}}}}
	other := []Token{{ID: 1, Rank: 3}, {ID: 2, Rank: 4}}
	all := Wanted{Top: 1, Ranks: true}
	s.keep(keys, one, Wanted{Top: 1})
	if got := s.known(keys, Wanted{Ranks: true}); len(got) != 0 {
		t.Errorf("ranks are known, which were not counted: %+v", got)
	}
	s.keep(keys, other, Wanted{Ranks: true})
	got := s.known(keys, all)
	for i := range got {
		if got[i].Rank != other[i].Rank || got[i].Top[0] != one[i].Top[0] {
			t.Errorf("token %d: %+v, want the rank of %+v and the alternative of %+v", i, got[i], other[i], one[i])
		}
	}
	if len(got) != 2 || s.recent.Len() != 1 || s.bytes != (&block{ids: got, of: all}).size() {
		t.Errorf("%d tokens in %d blocks of %d bytes", len(got), s.recent.Len(), s.bytes)
	}
}

// TestClaims checks that one of several requests scores a block, while the others wait until it is done or has given
// up.
func TestClaims(t *testing.T) {
	s := newScores(2, 1<<20)
	keys := s.keys("", []int32{1, 2, 3})
	_, release, err := s.claim(t.Context(), keys, Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.claim(ctx, keys, Wanted{}); err == nil {
		t.Error("a second one has the claim")
	}
	got := make(chan string)
	for range 2 {
		go func() {
			known, release, err := s.claim(t.Context(), keys, Wanted{})
			if len(known) == 0 && err == nil {
				s.keep(keys, make([]Token, 3), Wanted{})
			}
			release()
			got <- fmt.Sprint(len(known), err)
		}()
	}
	release() // it has given up
	a, b := <-got, <-got
	if a > b {
		a, b = b, a
	}
	if a != "0 <nil>" || b != "2 <nil>" {
		t.Errorf("got %s and %s, want one that scores and one that waits for it", a, b)
	}
}

package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestEndingsReadTheContextOnce: the endings of one context read it once, in one request or several, but for what lies
// behind the last multiple of the chunk, and have the scores that they would have alone.
func TestEndingsReadTheContextOnce(t *testing.T) {
	s := newSite(t, Options{})
	var read atomic.Int64
	inner := s.model.runner
	s.model.runner = runnerFunc(func(ctx context.Context, r *session.Request) error {
		for _, part := range r.Segments {
			read.Add(int64(len(part.IDs)))
		}
		return inner.Run(ctx, r)
	})
	rng := rand.New(rand.NewPCG(4, 5))
	shared := make([]int32, 4*s.model.scores.chunk+10)
	for i := range shared {
		shared[i] = rng.Int32N(256)
	}
	var prompts [][]int32
	for i := range int32(8) {
		prompts = append(prompts, append(slices.Clone(shared), 65+i, 66, 67+i))
	}
	want := int64(len(prompts[0]))
	for _, batch := range [][][]int32{prompts[:4], prompts[4:7], prompts[7:], prompts[:1]} {
		a := post[harnessAnswer](s, "/v1/completions", loglikelihoods(t, batch))
		contexts := slices.Repeat([]int{len(shared)}, len(batch))
		sums, _ := a.parseLogprobs(t, contexts)
		for i, ids := range batch {
			own, _ := truth(t, s.model, ids)
			for j, x := range a.Choices[i].Logprobs.Token[1:len(ids)] {
				if *x != own[j+1] {
					t.Fatalf("token %d has %v, want %v", j+1, *x, own[j+1])
				}
			}
			if sum := own[len(shared)] + own[len(shared)+1] + own[len(shared)+2]; sums[i] != sum {
				t.Errorf("got the sum %v, want %v", sums[i], sum)
			}
		}
	}
	want += 8 * 13 // the seven others, and the one that came again, from the last multiple on
	if got := read.Load(); got != want {
		t.Errorf("%d ids were read, want %d", got, want)
	}
}

// TestScoresForget: scores stay within their memory, and what goes is what was not used.
func TestScoresForget(t *testing.T) {
	one := (&block{ids: make([]scored, 4), top: 1}).size()
	s := newScores(4, 3*one)
	text := func(i int32) []int32 { return []int32{i, i, i, i, i} }
	for i := range int32(5) {
		s.keep(s.keys(text(i)), make([]scored, 5), 1)
		if known, release, err := s.claim(t.Context(), s.keys(text(0)), 1); err != nil || len(known) != 4 {
			t.Errorf("after %d others %d ids of a text that is asked for are known (%v)", i, len(known), err)
		} else {
			release()
		}
	}
	if s.bytes > s.most || len(s.blocks) != 3 || s.recent.Len() != 3 {
		t.Errorf("%d blocks of %d bytes, want 3 of at most %d", len(s.blocks), s.bytes, s.most)
	}
	for i, want := range []int{4, 0, 0, 4, 4} {
		known, release, err := s.claim(t.Context(), s.keys(text(int32(i))), 1)
		if err != nil || len(known) != want {
			t.Errorf("of text %d %d ids are known (%v), want %d", i, len(known), err, want)
		}
		release()
	}
	if known, release, _ := s.claim(t.Context(), s.keys(text(4)), 2); len(known) != 0 {
		t.Errorf("%d ids are known with more alternatives than were kept", len(known))
	} else {
		release()
	}
}

// TestClaims: of those that want the same block one scores it, and the others wait, until it is there or given up.
func TestClaims(t *testing.T) {
	s := newScores(2, 1<<20)
	keys := s.keys([]int32{1, 2, 3})
	_, release, err := s.claim(t.Context(), keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.claim(ctx, keys, 0); err == nil {
		t.Error("a second one has the claim")
	}
	got := make(chan string)
	for range 2 {
		go func() {
			known, release, err := s.claim(t.Context(), keys, 0)
			if len(known) == 0 && err == nil {
				s.keep(keys, make([]scored, 3), 0)
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

package generate

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
)

// packed returns a small model packed in a precision.
func packed(t testing.TB, layers string, p engine.Precision) *model.Model {
	t.Helper()
	m := language(t, layers)
	if err := m.Pack(p); err != nil {
		t.Fatal(err)
	}
	return m
}

// feedTo feeds ids in calls that end at the given positions, which may be unsorted and repeated, and at the last id.
func feedTo(t interface{ Fatal(...any) }, s *Batch, ids []int32, ends []int) {
	ends = append(slices.Clone(ends), len(ids))
	slices.Sort(ends)
	at := 0
	for _, end := range slices.Compact(ends) {
		if end > at {
			feed(t, s, ids[at:end])
			at = end
		}
	}
}

// TestCallsEndAtMultiplesWithoutTrace checks that additional calls that end at a multiple of Chunk, counted from the
// start of the sequence, do not change the logits by a bit, in every precision and wherever the other calls end.
func TestCallsEndAtMultiplesWithoutTrace(t *testing.T) {
	const l, chunk = 140, 24
	for _, layers := range []string{hybrid, "mamba,window-attention(window=30),hyena"} {
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4, engine.Int4Min} {
			m := packed(t, layers, p)
			rapid.Check(t, func(rt *rapid.T) {
				ids := text(rapid.Uint64().Draw(rt, "seed"), l)
				ends := rapid.SliceOfN(rapid.IntRange(1, l-1), 0, 3).Draw(rt, "ends")
				more := slices.Clone(ends)
				for _, i := range rapid.SliceOfN(rapid.IntRange(1, l/chunk), 1, 4).Draw(rt, "multiples") {
					more = append(more, i*chunk)
				}
				a, b := NewBatch(m, 1), NewBatch(m, 1)
				a.Chunk, b.Chunk = chunk, chunk
				feedTo(rt, a, ids, ends)
				feedTo(rt, b, ids, more)
				if !slices.Equal(logits(a), logits(b)) {
					rt.Errorf("%s in %v: calls that end at %v and at %v too leave other logits", layers, p, ends, more)
				}
			})
		}
	}
}

// TestOtherPiecesAreNear checks that pieces of other lengths give logits as close as the documentation of Batch says.
// If products round their inputs, to 8 bits or to integers, a difference in the last bit of an input can change its
// rounded value.
func TestOtherPiecesAreNear(t *testing.T) {
	const l, prompts = 90, 20
	for p, most := range map[engine.Precision]float64{engine.Float32: 1e-5, engine.BF16: 4e-3, engine.Int8: 2e-2} {
		m := packed(t, hybrid, p)
		worst := 0.0
		for i := range prompts {
			ids := text(uint64(i), l)
			whole := NewBatch(m, 1)
			feed(t, whole, ids)
			want := logits(whole)
			size := 0.0
			for _, v := range want {
				size = max(size, math.Abs(float64(v)))
			}
			s := NewBatch(m, 1)
			s.Chunk = 7
			feed(t, s, ids)
			for j, v := range logits(s) {
				worst = max(worst, math.Abs(float64(v-want[j]))/size)
			}
		}
		if worst > most {
			t.Errorf("%v: logits are %g of the largest apart, want at most %g", p, worst, most)
		}
	}
}

// TestFeedStops checks that Feed reads no further piece once its context is done and returns the error, and that the
// batch then cannot sample but can be fed further with the same bits.
func TestFeedStops(t *testing.T) {
	const l, chunk = 100, 16
	m := language(t, hybrid)
	ids := text(1, l)
	whole := NewBatch(m, 1)
	whole.Chunk = chunk
	feed(t, whole, ids)

	s := NewBatch(m, 1)
	s.Chunk = chunk
	ctx, cancel := context.WithCancel(t.Context())
	var told []int
	s.Progress = func(read, total int) {
		if total != l {
			t.Errorf("%d positions in all, want %d", total, l)
		}
		if told = append(told, read); len(told) == 3 {
			cancel()
		}
	}
	if err := s.Prefill(ctx, ids); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	s.Progress = nil
	if !slices.Equal(told, []int{16, 32, 48}) || s.Position() != 48 || s.Stats.PrefillTokens != 48 {
		t.Errorf("told of %v, at position %d, %d counted; want 16, 32 and 48", told,
			s.Position(), s.Stats.PrefillTokens)
	}
	for _, err := range s.Generate(t.Context(), nil, nil, Options{MaxTokens: 1}) {
		if err == nil || !strings.Contains(err.Error(), "not to its end") {
			t.Errorf("drawing in the middle of a prompt: %v", err)
		}
	}
	if err := s.Feed(ctx, ids[48:]); !errors.Is(err, context.Canceled) || s.Position() != 48 {
		t.Errorf("a context that is done before: %v, position %d", err, s.Position())
	}
	feed(t, s, ids[48:])
	if !slices.Equal(logits(s), logits(whole)) {
		t.Error("continued it has other logits than fed at once")
	}
	before := logits(s)
	err := s.Feed(ctx, ids)
	if !errors.Is(err, context.Canceled) || s.Position() != l || !slices.Equal(logits(s), before) {
		t.Errorf("a context that was done before the first piece: %v at position %d, or other logits",
			err, s.Position())
	}
}

// TestNewSessionOfNothing checks that NewBatch panics for a batch without sequences.
func TestNewSessionOfNothing(t *testing.T) {
	m := language(t, "h3")
	for _, batch := range []int{0, -1} {
		func() {
			defer func() {
				if said, ok := recover().(string); !ok || !strings.Contains(said, "want at least 1") {
					t.Errorf("a batch of %d: %q", batch, said)
				}
			}()
			NewBatch(m, batch)
		}()
	}
}

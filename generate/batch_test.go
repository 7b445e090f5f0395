package generate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

const vocab = 13

// language returns a small model of these layers whose probabilities differ clearly.
func language(t testing.TB, layers string) *model.Model {
	t.Helper()
	return toymodel.New(t, layers, vocab)
}

const hybrid = "h3,attention,s4d,h3"

func text(seed uint64, n int) []int32 { return toymodel.Text(seed, n, vocab) }

func feed(t interface{ Fatal(...any) }, s *Batch, ids []int32) {
	if err := s.Feed(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
}

// logits returns a copy of the logits of all sequences.
func logits(s *Batch) []float32 {
	var out []float32
	for i := range s.Len() {
		out = append(out, s.Logits(i)...)
	}
	return out
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// greedy continues every sequence by its n most probable ids and returns the ids of each.
func greedy(t interface{ Fatal(...any) }, s *Batch, n int) [][]int32 {
	out := make([][]int32, s.Len())
	for range n {
		var next []int32
		for i := range out {
			id := argmax(s.Logits(i))
			out[i], next = append(out[i], id), append(next, id)
		}
		feed(t, s, next)
	}
	return out
}

// TestFeedAnyChunking checks that the logits after a prompt are the same up to rounding, and greedy text exactly the
// same, however the prompt is divided into calls and pieces.
func TestFeedAnyChunking(t *testing.T) {
	const l, n = 90, 20
	m := language(t, hybrid)
	rapid.Check(t, func(rt *rapid.T) {
		prompt := text(rapid.Uint64().Draw(rt, "seed"), l)
		whole := NewBatch(m, 1)
		feed(rt, whole, prompt)
		want := logits(whole)
		s := NewBatch(m, 1)
		s.Chunk = rapid.SampledFrom([]int{0, 1, 5, 23, 24, 64}).Draw(rt, "chunk")
		for lo := 0; lo < l; {
			hi := lo + rapid.IntRange(1, l-lo).Draw(rt, "call")
			feed(rt, s, prompt[lo:hi])
			lo = hi
		}
		for i, v := range logits(s) {
			if e := math.Abs(float64(v - want[i])); !(e <= 1e-5) {
				rt.Errorf("logit %d is %v, want %v", i, v, want[i])
			}
		}
		if s.Position() != l {
			rt.Errorf("position %d, want %d", s.Position(), l)
		}
		if got, want := greedy(rt, s, n), greedy(rt, whole, n); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Errorf("greedy ids %v, want %v", got, want)
		}
	})
}

// TestBatchIsEachAlone checks that a sequence has the same logits, bit by bit, and the same greedy text in a batch and
// alone.
func TestBatchIsEachAlone(t *testing.T) {
	const batch, l, n = 3, 40, 30
	m := language(t, hybrid)
	prompts := text(1, batch*l)
	together := NewBatch(m, batch)
	together.Chunk = 30
	feed(t, together, prompts)
	first := logits(together)
	ids := greedy(t, together, n)
	last := logits(together)
	for i := range batch {
		alone := NewBatch(m, 1)
		alone.Chunk = 30
		feed(t, alone, prompts[i*l:][:l])
		if !slices.Equal(logits(alone), first[i*vocab:][:vocab]) {
			t.Errorf("sequence %d has other logits alone", i)
		}
		if got := greedy(t, alone, n)[0]; !slices.Equal(got, ids[i]) {
			t.Errorf("sequence %d continues alone with %v, in company with %v", i, got, ids[i])
		}
		if !slices.Equal(logits(alone), last[i*vocab:][:vocab]) {
			t.Errorf("sequence %d has other logits alone after %d ids", i, n)
		}
	}
}

// TestFeedTooLong checks that a model with a mixer of a fixed length returns an error with the maximum for a longer
// text, and can then read on.
func TestFeedTooLong(t *testing.T) {
	s := NewBatch(language(t, "h3,gmlp(l_max=20)"), 1)
	if err := s.Feed(t.Context(), text(1, 15)); err != nil {
		t.Fatal(err)
	}
	err := s.Feed(t.Context(), text(2, 6))
	if err == nil || !strings.Contains(err.Error(), "6 ids after 15, want at most 20 in all") {
		t.Errorf("feeding 6 more: %v", err)
	}
	if err := s.Feed(t.Context(), text(2, 5)); err != nil {
		t.Errorf("feeding 5 more: %v", err)
	}
}

// TestFork checks that a fork continues as the batch would, and that they do not affect each other.
func TestFork(t *testing.T) {
	m := language(t, hybrid)
	s := NewBatch(m, 2)
	if f := s.Fork(); f.Logits(0) != nil || f.Position() != 0 {
		t.Error("the fork of a new session is not new")
	}
	feed(t, s, text(2, 60))
	want := greedy(t, s.Fork(), 20)
	f := s.Fork()
	before := logits(s)
	feed(t, f, text(3, 10))
	if !slices.Equal(logits(s), before) || s.Position() != 30 || f.Position() != 35 {
		t.Errorf("a fork changes its original: positions %d and %d", s.Position(), f.Position())
	}
	if got := greedy(t, s, 20); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the session continues with %v, its fork with %v", got, want)
	}
}

// TestRepeat checks that every copy continues independently, like a separate batch.
func TestRepeat(t *testing.T) {
	m := language(t, hybrid)
	s := NewBatch(m, 1)
	feed(t, s, text(4, 40))
	r, err := s.Repeat(3)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != 3 || r.Position() != 40 || r.StateSize() != 3*s.StateSize() {
		t.Errorf("batch %d, position %d, %d bytes, want 3, 40, %d", r.Len(), r.Position(),
			r.StateSize(), 3*s.StateSize())
	}
	for i := range 3 {
		if !slices.Equal(r.Logits(i), s.Logits(0)) {
			t.Errorf("copy %d starts with other logits", i)
		}
	}
	ways := text(5, 3*7)
	feed(t, r, ways)
	for i := range 3 {
		one := s.Fork()
		feed(t, one, ways[i*7:][:7])
		if !slices.Equal(r.Logits(i), one.Logits(0)) {
			t.Errorf("copy %d does not go its own way", i)
		}
	}
	if _, err := r.Repeat(2); err == nil {
		t.Error("a session of three sequences is repeated")
	}
	if _, err := s.Repeat(0); err == nil {
		t.Error("a session is repeated no times")
	}
	if empty, err := NewBatch(m, 1).Repeat(2); err != nil || empty.Logits(1) != nil {
		t.Errorf("a new session repeated: %v", err)
	}
}

// TestStateTensors checks that a batch whose state is set from the tensors of another continues like that one.
func TestStateTensors(t *testing.T) {
	m := language(t, hybrid)
	s, r := NewBatch(m, 1), NewBatch(m, 1)
	feed(t, s, text(6, 50))
	s.State(0).Tensors(func(name string, x *tensor.Tensor) {
		data := make([]float32, x.Len())
		x.CopyTo(data)
		if err := r.State(0).Restore(name, x.Shape(), data); err != nil {
			t.Fatal(err)
		}
	})
	next := text(7, 3)
	feed(t, s, next)
	feed(t, r, next)
	if !slices.Equal(logits(s), logits(r)) {
		t.Error("it goes on differently")
	}
}

// TestFeedErrors checks that a call with ids that cannot be read is refused and changes nothing.
func TestFeedErrors(t *testing.T) {
	m := language(t, hybrid)
	s := NewBatch(m, 2)
	feed(t, s, text(8, 20))
	before := logits(s)
	for _, bad := range [][]int32{{}, {1}, {1, 2, 3}, {1, -1}, {1, 2, 3, int32(m.Config.PaddedVocab())}, {1 << 30, 1}} {
		if err := s.Feed(t.Context(), bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	if s.Position() != 10 || !slices.Equal(logits(s), before) {
		t.Error("a refused call changed the session")
	}
}

// TestStats checks that Prefill counts the ids that it reads.
func TestStats(t *testing.T) {
	s := NewBatch(language(t, "h3"), 2)
	for range 2 {
		if err := s.Prefill(t.Context(), text(9, 30)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Stats.PrefillTokens != 60 || s.Stats.PrefillSeconds <= 0 {
		t.Errorf("%+v", s.Stats)
	}
}

// TestStateSize checks that the state of a model without attention has the same size after 20,000 positions as after
// one, and that attention stores 2·d_model numbers for each position.
func TestStateSize(t *testing.T) {
	size := func(layers string, l int) int {
		s := NewBatch(language(t, layers), 1)
		feed(t, s, text(10, l))
		return s.StateSize()
	}
	if one, many := size("h3,s4d", 1), size("h3,s4d", 20_000); one != many || one == 0 {
		t.Errorf("%d bytes after one position, %d after 20,000", one, many)
	}
	if fixed, l := size("h3", 1), 700; size("h3,attention", l)-fixed != 4*2*16*l {
		t.Errorf("with attention %d bytes after %d positions, want %d", size("h3,attention", l), l, fixed+4*2*16*l)
	}
}

// BenchmarkDecode measures the time of a token at several positions. For a model without attention it is the same at
// all.
func BenchmarkDecode(b *testing.B) {
	for _, layers := range []string{"h3*4", "h3*3,attention"} {
		for _, position := range []int{1000, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", layers, position), func(b *testing.B) {
				s := NewBatch(language(b, layers), 1)
				feed(b, s, text(11, position))
				b.ReportAllocs()
				for b.Loop() {
					feed(b, s, []int32{1})
				}
			})
		}
	}
}

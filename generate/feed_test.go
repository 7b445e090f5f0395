package generate

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// ages lists the numbers of ids that batches have read before they continue together.
var ages = []int{0, 3, 41, 24, 90, 1}

// TestFeedTogether checks that batches at different positions that read ids in one call, one id each or pieces of
// different lengths, have the same logits as alone, to the last bit, for every mixer that reads from left to right.
func TestFeedTogether(t *testing.T) {
	const chunk = 24
	for _, kind := range append(model.MixerNames(), hybrid) {
		t.Run(kind, func(t *testing.T) {
			m := language(t, kind)
			var alone, together []*Batch
			for i, age := range ages {
				s := NewBatch(m, 1+i%2)
				s.Chunk = chunk
				if age > 0 {
					feed(t, s, text(uint64(i), age*s.Len()))
				}
				alone, together = append(alone, s), append(together, s.Fork())
			}
			for round, lengths := range [][]int{{1, 1, 1, 1, 1, 1}, {30, 1, 7, 24, 1, 50}, {1, 1, 1, 1, 1, 1}} {
				var parts []Part
				for i, s := range alone {
					ids := text(uint64(100*round+i), lengths[i]*s.Len())
					feed(t, s, ids)
					parts = append(parts, Part{Batch: together[i], IDs: ids})
				}
				if err := Feed(t.Context(), parts...); err != nil {
					t.Fatal(err)
				}
				for i, s := range alone {
					if !slices.Equal(logits(together[i]), logits(s)) {
						t.Errorf("round %d: session %d of age %d has other logits beside others", round, i, ages[i])
					}
					if got, want := together[i].Position(), s.Position(); got != want {
						t.Errorf("round %d: session %d is at position %d, want %d", round, i, got, want)
					}
				}
			}
		})
	}
}

// TestFeedTogetherPacked is like TestFeedTogether, for a model packed in each precision.
func TestFeedTogetherPacked(t *testing.T) {
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4, engine.Int4Min} {
		t.Run(p.String(), func(t *testing.T) {
			m := packed(t, "h3,attention,mamba", p)
			var parts []Part
			var want [][]float32
			for i, age := range ages[1:] {
				s := NewBatch(m, 1)
				feed(t, s, text(uint64(i), age))
				other, next := s.Fork(), text(uint64(50+i), 1)
				feed(t, s, next)
				parts, want = append(parts, Part{Batch: other, IDs: next}), append(want, logits(s))
			}
			if err := Feed(t.Context(), parts...); err != nil {
				t.Fatal(err)
			}
			for i, part := range parts {
				if !slices.Equal(logits(part.Batch), want[i]) {
					t.Errorf("session %d has other logits beside others", i)
				}
			}
		})
	}
}

// TestFeedTogetherErrors checks that if one batch cannot read its ids, no batch reads any.
func TestFeedTogetherErrors(t *testing.T) {
	m := language(t, hybrid)
	a, b := NewBatch(m, 1), NewBatch(m, 2)
	feed(t, a, text(1, 5))
	before := logits(a)
	for what, parts := range map[string][]Part{
		"an id outside": {{Batch: a, IDs: []int32{1}}, {Batch: b, IDs: []int32{1, 1 << 20}}},
		"an odd number": {{Batch: a, IDs: []int32{1}}, {Batch: b, IDs: []int32{1, 2, 3}}},
		"nothing":       {{Batch: a, IDs: []int32{1}}, {Batch: b}},
		"another model's": {{Batch: a, IDs: []int32{1}},
			{Batch: NewBatch(language(t, hybrid), 1), IDs: []int32{1}}},
	} {
		if err := Feed(t.Context(), parts...); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if !slices.Equal(logits(a), before) || a.Position() != 5 || b.Position() != 0 {
		t.Error("a refused call changed a session")
	}
	ctx, cancel := context.WithCancel(t.Context())
	a.Chunk = 8
	a.Progress = func(int, int) { cancel() }
	err := Feed(ctx, Part{Batch: a, IDs: text(2, 30)}, Part{Batch: b, IDs: text(3, 4)})
	if !errors.Is(err, context.Canceled) || a.Position() != 8 || a.Logits(0) != nil ||
		b.Position() != 2 || b.Logits(0) == nil {
		t.Errorf("stopped after the first round: %v, positions %d and %d", err, a.Position(), b.Position())
	}
	if err := Feed(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEndedSampleLeaves checks that a sequence that has ended is not read while the others continue, and that the batch
// can then continue with all sequences, each from its own position.
func TestEndedSampleLeaves(t *testing.T) {
	m := byteModel(t)
	whole, _, _ := collect(t, fed(t, m), drawn(30))
	tok := ending{tokenizer.Bytes(), whole[0][5]} // the id ends sample 0
	batch, err := fed(t, m).Repeat(3)
	if err != nil {
		t.Fatal(err)
	}
	counts, most := make([]int, 3), 0
	for p, err := range batch.Generate(t.Context(), tok, nil, drawn(30)) {
		if err != nil {
			t.Fatal(err)
		}
		counts[p.Sample] += len(p.IDs)
	}
	for i, n := range counts {
		if got := batch.PositionOf(i); got != len(prompt)+n {
			t.Errorf("sequence %d is at position %d after %d ids", i, got, len(prompt)+n)
		}
		if read := batch.State(i).Position; read != len(prompt)+n-1 { // all but the last sampled id
			t.Errorf("of sequence %d the model has read %d ids, want %d", i, read, len(prompt)+n-1)
		}
		most = max(most, n)
	}
	if counts[0] == most || batch.Position() != len(prompt)+most {
		t.Errorf("the sequences have %v ids, the session is at position %d", counts, batch.Position())
	}
	next := []int32{65, 66, 67}
	feed(t, batch, next)
	for i := range 3 {
		o := drawn(30)
		o.Seed += uint64(i)
		one := fed(t, m)
		for _, err := range one.Generate(t.Context(), tok, nil, o) {
			if err != nil {
				t.Fatal(err)
			}
		}
		feed(t, one, next[i:i+1])
		if !slices.Equal(batch.Logits(i), one.Logits(0)) {
			t.Errorf("sequence %d goes on otherwise than alone", i)
		}
	}
	if _, err := batch.Repeat(2); err == nil || !strings.Contains(err.Error(), "3 sequences") {
		t.Errorf("repeating three sequences: %v", err)
	}
}

// TestFeedSilently checks that a batch has no logits after a Silent part, and that Silent does not affect later
// results.
func TestFeedSilently(t *testing.T) {
	m := language(t, hybrid)
	a, beside := NewBatch(m, 1), NewBatch(m, 1)
	a.Chunk = 8
	b, ids := a.Fork(), text(1, 20)
	feed(t, a, ids)
	feed(t, beside, ids[:1])
	for at := 0; at < 20; {
		piece := min(b.Piece(0), 20-at)
		if want := min(8-at%8, 20-at); piece != want {
			t.Fatalf("a piece of %d at position %d, want %d", piece, at, want)
		}
		other := Part{Batch: beside, IDs: ids[:1]}
		if err := Feed(t.Context(), Part{Batch: b, IDs: ids[at:][:piece], Silent: at+piece < 20}, other); err != nil {
			t.Fatal(err)
		}
		if at += piece; (b.Logits(0) == nil) != (at < 20) || beside.Logits(0) == nil {
			t.Errorf("after %d ids there are %d logits, and %d of the session beside", at, len(b.Logits(0)),
				len(beside.Logits(0)))
		}
	}
	if !slices.Equal(logits(a), logits(b)) {
		t.Error("the logits are others")
	}
}

// TestEachBesideOthers checks that Each receives the same logits whether a batch is fed alone or with others, whose
// positions share products and cores, on one core and on several.
func TestEachBesideOthers(t *testing.T) {
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
		m := packed(t, "h3,attention,mamba", p)
		lengths := []int{1, 5, 40, 23}
		told := func(together bool) [][][]float32 {
			each, parts := make([][][]float32, len(lengths)), make([]Part, len(lengths))
			for i, l := range lengths {
				s := NewBatch(m, 1)
				s.Chunk, each[i] = 16+i, make([][]float32, l)
				parts[i] = Part{Batch: s, IDs: text(uint64(i), l), Silent: i == 1}
				parts[i].Each = func(at int, logits []float32) { each[i][at] = slices.Clone(logits) }
			}
			calls := [][]Part{parts}
			if !together {
				calls = slices.Collect(slices.Chunk(parts, 1))
			}
			for _, some := range calls {
				if err := Feed(t.Context(), some...); err != nil {
					t.Fatal(err)
				}
			}
			for i, part := range parts {
				if last := part.Batch.Logits(0); part.Silent != (last == nil) ||
					last != nil && !slices.Equal(last, each[i][lengths[i]-1]) {
					t.Errorf("%v: session %d is left with other logits than were told last", p, i)
				}
			}
			return each
		}
		want := told(false)
		for _, procs := range []int{1, 4} {
			before := runtime.GOMAXPROCS(procs)
			got := told(true)
			runtime.GOMAXPROCS(before)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, %d cores: told other logits beside others", p, procs)
			}
		}
	}
}

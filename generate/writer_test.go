package generate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestWriterGoesOn checks that a writer restored from the state of another returns the same ids and texts, also in the
// middle of a character and of a stop string.
func TestWriterGoesOn(t *testing.T) {
	logits := func(i int) []float32 {
		x := make([]float32, 256)
		for _, b := range "h\xc3\xa4st\xe2\x82\xac" {
			x[byte(b)] = float32(4 + i%3)
		}
		x[0xe2], x[0x82], x[0xac], x[0xc3], x[0xa4] = 5, 5, 5, 5, 5
		return x
	}
	o := DefaultOptions()
	o.Temperature, o.TopK, o.RepetitionPenalty, o.MaxTokens, o.Stop = 1, 7, 1.2, 60, []string{"hst", "ss\u20ac"}
	o.EndIDs = []int32{0}
	partial, held := 0, 0
	for seed := range uint64(40) {
		o.Seed = seed
		history := []int32{1, 2, 3}
		a, err := NewWriter(tokenizer.Bytes(), history, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; a.End() == ""; i++ {
			state := a.State()
			partial, held = partial+len(state.Partial), held+len(state.Held)
			b, err := NewWriter(tokenizer.Bytes(), history, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Restore(state); err != nil {
				t.Fatal(err)
			}
			var told []string
			var id int32
			for _, w := range []*Writer{a, b} {
				var text []byte
				if text, id, err = w.Next(logits(i)); err != nil {
					t.Fatal(err)
				}
				told = append(told, fmt.Sprintf("%q %d %q", text, id, w.End()))
			}
			if told[0] != told[1] {
				t.Fatalf("seed %d, id %d: %s, from its state %s", seed, i, told[0], told[1])
			}
			if a.End() == "" && !slices.Equal(a.State().Fresh, b.State().Fresh) {
				t.Fatal("other ids are fresh")
			}
			history = append(history, id)
		}
	}
	if partial == 0 || held == 0 {
		t.Errorf("%d bytes of characters and %d of stop strings were pending, want some of both", partial, held)
	}
	w, err := NewWriter(tokenizer.Bytes(), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	good := w.State()
	for want, bad := range map[string]WriterState{
		"60 tokens":   {Tokens: 60, Random: good.Random},
		"random":      {Random: []byte("x")},
		"pending":     {Random: good.Random, Partial: []byte("a")},
		"held back":   {Random: good.Random, Held: []byte("x")},
		"1 of them":   {Random: good.Random, Fresh: []int32{1}},
		"found \"hst": {Random: good.Random, Held: []byte("hst")},
	} {
		w, err := NewWriter(tokenizer.Bytes(), nil, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Restore(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("restored from %+v: %v, want %q", bad, err, want)
		}
	}
}

// TestEachID checks that Each receives, at the ends of pieces, the same logits as feeding the ids up to there alone,
// for batches of several sequences and together with other batches.
func TestEachID(t *testing.T) {
	m := language(t, hybrid)
	const chunk, l = 24, 60
	ids := text(1, 2*l)
	each := make([][]float32, 2*l)
	s, other := NewBatch(m, 2), NewBatch(m, 1)
	s.Chunk, other.Chunk = chunk, chunk
	err := Feed(t.Context(), Part{Batch: other, IDs: ids[:50]},
		Part{Batch: s, IDs: ids, Each: func(at int, logits []float32) { each[at] = slices.Clone(logits) }})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(each, func(logits []float32) bool { return logits == nil }); i >= 0 {
		t.Errorf("not told the logits after id %d", i)
	}
	for i := range 2 {
		for _, end := range []int{chunk, 2 * chunk, l} {
			alone := NewBatch(m, 1)
			alone.Chunk = chunk
			feed(t, alone, ids[i*l:][:end])
			if !slices.Equal(alone.Logits(0), each[i*l+end-1]) {
				t.Errorf("other logits after id %d of sequence %d", end, i)
			}
		}
		if !slices.Equal(s.Logits(i), each[i*l+l-1]) {
			t.Errorf("the last logits of sequence %d are others", i)
		}
	}
}

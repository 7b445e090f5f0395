package generate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/engine"
	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// wrongAt is a Drafter that guesses the ids of a known text, except those that wrong selects.
type wrongAt struct {
	text  []int32
	wrong func(at int) bool
}

func (w wrongAt) Draft(_ context.Context, text []int32, n int) (guess []int32, err error) {
	for at := len(text); at < len(w.text) && len(guess) < n; at++ {
		id := w.text[at]
		if w.wrong(at) {
			id = (id + 1) % 256
		}
		guess = append(guess, id)
	}
	return guess, nil
}

// TestDraftsChangeNothing checks that with drafts a text has the same ids, pieces and end, and the batch the same
// logits, state and position afterwards, for any options and any guesses.
func TestDraftsChangeNothing(t *testing.T) {
	m, constraint := byteModel(t), digits(t)
	byModel, err := ModelDrafts(m, m)
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		o := Options{MaxTokens: rapid.IntRange(1, 90).Draw(t, "tokens")}
		o.Temperature = rapid.SampledFrom([]float64{0, 0.3, 1.5}).Draw(t, "temperature")
		o.Seed, o.TopK = rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]int{0, 3}).Draw(t, "top k")
		o.TopP = rapid.SampledFrom([]float64{0, 0.9}).Draw(t, "top p")
		o.MinP = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "min p")
		o.RepetitionPenalty = rapid.SampledFrom([]float64{0, 1.2}).Draw(t, "penalty")
		o.FrequencyPenalty = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "frequency")
		if rapid.Bool().Draw(t, "bias") {
			o.LogitBias = map[int32]float32{65: 3, 66: -5}
		}
		if rapid.Bool().Draw(t, "constraint") {
			o.Constraint = constraint
		}
		o.Stop = rapid.SampledFrom([][]string{nil, {"9"}, {"e", "\x00"}}).Draw(t, "stop")
		o.MinTokens = rapid.SampledFrom([]int{0, 5}).Draw(t, "least")

		want, told := said(t, m, o)
		all := slices.Clone(prompt)
		for _, p := range told {
			all = append(all, p.IDs...)
		}
		every := rapid.SampledFrom([]int{1, 2, 3, 5, 1000}).Draw(t, "wrong")
		o.Draft = rapid.SampledFrom([]Drafts{NGrams, byModel, func() Drafter {
			return wrongAt{all, func(at int) bool { return at%every == every-1 }}
		}}).Draw(t, "drafts")
		got, pieces := said(t, m, o)
		if len(pieces) != len(told) {
			t.Fatalf("%d pieces, want %d", len(pieces), len(told))
		}
		for i, p := range pieces {
			if string(p.Text) != string(told[i].Text) || !slices.Equal(p.IDs, told[i].IDs) || p.End != told[i].End {
				t.Fatalf("piece %d is %q %v %s, want %q %v %s", i, p.Text, p.IDs, p.End, told[i].Text, told[i].IDs,
					told[i].End)
			}
		}
		if got.Position() != want.Position() {
			t.Fatalf("at %d, want %d", got.Position(), want.Position())
		}
		accepted += got.Stats.AcceptedTokens
		for _, s := range []*Batch{got, want} {
			feed(t, s, []int32{7}) // also reads the last id
		}
		if !slices.Equal(got.Logits(0), want.Logits(0)) {
			t.Fatal("other logits afterwards")
		}
		equalStates(t, got, want)
	})
	if accepted == 0 {
		t.Error("no draft was right")
	}
}

// equalStates fails the test unless the states of two batches have the same bits.
func equalStates(t interface{ Fatal(...any) }, got, want *Batch) {
	state := map[string][]float32{}
	want.State(0).Tensors(func(name string, x *tensor.Tensor) { state[name] = x.Floats() })
	got.State(0).Tensors(func(name string, x *tensor.Tensor) {
		if !slices.Equal(x.Floats(), state[name]) {
			t.Fatal("another state", name)
		}
	})
}

// said generates a text after the prompt and returns the batch and the pieces.
func said(t interface{ Fatal(...any) }, m *model.Model, o Options) (s *Batch, pieces []Piece) {
	s = NewBatch(m, 1)
	feed(t, s, prompt)
	for p, err := range s.Generate(context.Background(), tokenizer.Bytes(), prompt, o) {
		if err != nil {
			t.Fatal(err)
		}
		p.Text = slices.Clone(p.Text)
		pieces = append(pieces, p)
	}
	return s, pieces
}

// TestNGrams checks that NGrams guesses the ids that followed the longest match, the last one of equals, and at most as
// many as the match has.
func TestNGrams(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"aaa", ""}, {"abcdefg", ""}, {"abXab", ""},
		{"abcXYZ abc", "XYZ"},
		{"abcX abcY abc", "Y ab"},
		{"1abcX 2abcY 1abc", "X 2a"},
		{"a long text and more; a long text ", "and more; "},
		{"xyxyxy", "xyxy"},
		{"=-=-=-=-=-=-=-=-", "=-=-=-=-=-"},
	} {
		got, err := NGrams().Draft(t.Context(), []int32(c.text), 10)
		if err != nil || string(got) != c.want {
			t.Errorf("after %q: %q, %v, want %q", c.text, string(got), err, c.want)
		}
	}
	d := NGrams()
	for _, c := range []struct{ text, want string }{ // texts for one Drafter
		{"abcXYZ abc", "XYZ"}, {"abcXYZ abcXYZ abc", "XYZ abcXYZ"}, {"abcX abc", "X a"}, {"Zbc; Zbcd; Zbc", "d; Zb"},
	} {
		if got, err := d.Draft(t.Context(), []int32(c.text), 10); err != nil || string(got) != c.want {
			t.Errorf("after %q: %q, %v, want %q", c.text, string(got), err, c.want)
		}
	}
}

// TestDraftingRests checks that guesses become longer while they are right, and pause after wrong ones.
func TestDraftingRests(t *testing.T) {
	all := []int32(strings.Repeat("x", 400))
	wrong := true
	d := newDrafting(func() Drafter { return wrongAt{all, func(int) bool { return wrong }} })
	// guesses samples n ids x and returns the number of guesses and the length of the longest.
	guesses := func(n int) (count, longest int) {
		for i := range n {
			if len(d.guess) == 0 {
				g, err := d.next(t.Context(), nil, all[:i], StepRows-1)
				if err != nil {
					t.Fatal(err)
				}
				if len(g) > 0 {
					count++
				}
				longest = max(longest, len(g))
			}
			d.drawn('x')
		}
		return count, longest
	}
	if n, longest := guesses(100); n > 15 || longest != firstWidth {
		t.Errorf("%d guesses of up to %d ids where all are wrong, want few of %d", n, longest, firstWidth)
	}
	wrong = false
	if n, longest := guesses(200); n > 40 || longest != StepRows-1 {
		t.Errorf("%d guesses of up to %d ids where all are right, want few of %d", n, longest, StepRows-1)
	}
	if d.accepted < 150 || d.accepted > d.drafted {
		t.Errorf("%d of %d ids were drawn, want most of 200", d.accepted, d.drafted)
	}
}

// TestModelDrafts checks that a small model with another vocabulary is refused, and that a small model guesses the ids
// that it would write itself, continuing from states of earlier texts.
func TestModelDrafts(t *testing.T) {
	m, other := byteModel(t), language(t, "h3")
	if _, err := ModelDrafts(m, other); err == nil || !strings.Contains(err.Error(), "vocab_size: found ") {
		t.Errorf("a model of another vocabulary: %v", err)
	}
	drafts, err := ModelDrafts(m, m)
	if err != nil {
		t.Fatal(err)
	}
	ids, _, _ := collect(t, fed(t, m), Options{MaxTokens: 40})
	all := append(slices.Clone(prompt), ids[0]...)
	for _, from := range []int{len(prompt), 12, 25, 9} {
		d := drafts().(*modelDraft)
		got, err := d.Draft(t.Context(), all[:from], 6)
		if err != nil || !slices.Equal(got, all[from:from+6]) {
			t.Errorf("after %d ids: %v, %v, want %v", from, got, err, all[from:from+6])
		}
		if len(d.read) != from || d.at.Position() != from {
			t.Errorf("after %d ids it has read %d, and is at %d", from, len(d.read), d.at.Position())
		}
	}
	if n := len(drafts().(*modelDraft).of.last); n != 4 {
		t.Errorf("%d texts are remembered, want 4", n)
	}
}

// TestDraftsErrors checks that invalid drafts are refused and change nothing.
func TestDraftsErrors(t *testing.T) {
	m := byteModel(t)
	two := NewBatch(m, 2)
	long := make([]int32, StepRows+1)
	for name, p := range map[string]Part{
		"none that is no guess": {Batch: fed(t, m), IDs: []int32{1, 2}, Drawn: true, Drafts: 2},
		"below 0":               {Batch: fed(t, m), IDs: []int32{1, 2}, Drawn: true, Drafts: -1},
		"not drawn":             {Batch: fed(t, m), IDs: []int32{1, 2}, Drafts: 1},
		"two sequences":         {Batch: two, IDs: []int32{1, 2, 3, 4}, Drawn: true, Drafts: 1},
		"silent":                {Batch: fed(t, m), IDs: []int32{1, 2}, Drawn: true, Drafts: 1, Silent: true},
		"too many":              {Batch: fed(t, m), IDs: long, Drawn: true, Drafts: 3},
	} {
		at := p.Batch.Position()
		if err := Feed(t.Context(), p); err == nil || !strings.Contains(err.Error(), "drafts among") {
			t.Errorf("%s: %v", name, err)
		}
		if p.Batch.Position() != at {
			t.Errorf("%s: at %d, want %d", name, p.Batch.Position(), at)
		}
	}
}

// unstepped is a backend whose engines do not support stepped rows.
type unstepped struct{ engine.Backend }

func (b unstepped) Open(s *engine.Step) engine.Engine {
	return struct{ engine.Engine }{b.Backend.Open(s)}
}

// TestDrawnAreOneByOne checks that ids read with Drawn give the same logits and state as one call for each: in each
// precision, in a model whose products are large enough to be computed in several ways, and on an engine that does not
// support stepped rows.
func TestDrawnAreOneByOne(t *testing.T) {
	ids := text(3, 50)
	for i, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4, engine.Float32} {
		c := model.DefaultConfig()
		c.DModel, c.VocabSize, c.NumHeads, c.DState = 192, 600, 4, 16
		c.Layers = "h3,mamba,attention,mamba2,linear-attention/swiglu,gated-deltanet,rwkv7*2,mamba3"
		m, err := model.New(c)
		if err != nil {
			t.Fatal(err)
		}
		m.Init(5)
		if i < 4 {
			err = m.Pack(p)
		} else {
			m.Use(unstepped{m.Backend()})
		}
		if err != nil {
			t.Fatal(err)
		}
		one, many := NewBatch(m, 1), NewBatch(m, 1)
		for _, s := range []*Batch{one, many} {
			feed(t, s, ids[:9])
		}
		want := make([][]float32, 0, len(ids))
		for _, id := range ids[9:] {
			feed(t, one, []int32{id})
			want = append(want, slices.Clone(one.Logits(0)))
		}
		for at, n := 9, 2; at < len(ids); at, n = at+n, n+5 { // 2, 7, 12 and 17 at a time, then the rest
			err := Feed(t.Context(), Part{Batch: many, IDs: ids[at:min(len(ids), at+n)], Drawn: true,
				Each: func(i int, logits []float32) {
					if !slices.Equal(logits, want[at-9+i]) {
						t.Errorf("%v: other logits after id %d, the %dth of %d", p, at+i, i, n)
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(one.Logits(0), many.Logits(0)) {
			t.Errorf("%v: other logits at the end", p)
		}
		equalStates(t, many, one)
	}
}

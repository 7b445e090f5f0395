package generate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// byteModel returns a model over bytes whose probabilities differ clearly.
func byteModel(t testing.TB) *model.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "h3,attention", 2, 8
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3)
	m.Params("", func(_ string, p *nn.Param) {
		if p.Role == nn.Weight || p.Role == nn.Table {
			x := make([]float32, p.Len())
			p.CopyTo(x)
			for i := range x {
				x[i] *= 8
			}
			p.CopyFrom(x)
		}
	})
	return m
}

var prompt = []int32("Call me")

func fed(t testing.TB, m *model.Model) *Batch {
	t.Helper()
	s := NewBatch(m, 1)
	if err := s.Feed(t.Context(), prompt); err != nil {
		t.Fatal(err)
	}
	return s
}

// collect returns the ids, text and end of every sequence.
func collect(t testing.TB, s *Batch, o Options) (ids [][]int32, text []string, end []string) {
	t.Helper()
	n := s.Len()
	ids, text, end = make([][]int32, n), make([]string, n), make([]string, n)
	for p, err := range s.Generate(context.Background(), tokenizer.Bytes(), prompt, o) {
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(p.Text) {
			t.Errorf("a piece that is not whole characters: %q", p.Text)
		}
		ids[p.Sample], text[p.Sample], end[p.Sample] = append(ids[p.Sample], p.IDs...),
			text[p.Sample]+string(p.Text), p.End
	}
	return ids, text, end
}

func drawn(n int) Options {
	return Options{Options: sample.Options{Temperature: 1, Seed: 11}, MaxTokens: n}
}

// TestGenerateGreedy checks that greedy text consists of the argmax of the logits, fed back one by one.
func TestGenerateGreedy(t *testing.T) {
	m := byteModel(t)
	got, text, end := collect(t, fed(t, m), Options{MaxTokens: 40})
	s := fed(t, m)
	var want []int32
	for range 40 {
		l := s.Logits(0)
		want = append(want, int32(slices.Index(l, slices.Max(l))))
		if err := s.Feed(t.Context(), want[len(want)-1:]); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got[0], want) || end[0] != EndLength {
		t.Errorf("got %v (%s), want %v", got[0], end[0], want)
	}
	if w := string([]rune(string(tokenizer.Bytes().Decode(nil, want)))); text[0] != w {
		t.Errorf("text %q, want %q", text[0], w)
	}
}

// TestGenerateBatch checks that samples generated together equal those generated alone with consecutive seeds.
func TestGenerateBatch(t *testing.T) {
	m := byteModel(t)
	batch, err := fed(t, m).Repeat(3)
	if err != nil {
		t.Fatal(err)
	}
	got, _, _ := collect(t, batch, drawn(30))
	for i := range 3 {
		o := drawn(30)
		o.Seed += uint64(i)
		want, _, _ := collect(t, fed(t, m), o)
		if !slices.Equal(got[i], want[0]) {
			t.Errorf("sample %d: got %v, alone %v", i, got[i], want[0])
		}
	}
	if slices.Equal(got[0], got[1]) {
		t.Error("two samples are the same")
	}
}

// TestGenerateStop checks that the text ends before the stop string, and that no part of the stop string is written.
func TestGenerateStop(t *testing.T) {
	m := byteModel(t)
	_, text, _ := collect(t, fed(t, m), drawn(60))
	whole := text[0]
	for at := 5; at+3 < len(whole); at += 7 {
		stop := whole[at : at+3]
		if strings.ContainsRune(stop, utf8.RuneError) || !utf8.ValidString(stop) {
			continue // invalid UTF-8 has been replaced
		}
		o := drawn(60)
		o.Stop = []string{stop}
		_, got, end := collect(t, fed(t, m), o)
		if want := whole[:strings.Index(whole, stop)]; got[0] != want || end[0] != EndStop {
			t.Errorf("stop %q: got %q (%s), want %q", stop, got[0], end[0], want)
		}
	}
}

// TestGenerateGoesOn checks that a batch that is stopped and continued writes the same text as one that is not stopped,
// and that its position counts the sampled ids.
func TestGenerateGoesOn(t *testing.T) {
	m := byteModel(t)
	want, _, _ := collect(t, fed(t, m), Options{MaxTokens: 30})
	s := fed(t, m)
	var got []int32
	for _, n := range []int{1, 12, 17} {
		ids, _, _ := collect(t, s, Options{MaxTokens: n})
		got = append(got, ids[0]...)
		if s.Position() != len(prompt)+len(got) {
			t.Errorf("position %d after %d ids", s.Position(), len(prompt)+len(got))
		}
	}
	if !slices.Equal(got, want[0]) {
		t.Errorf("in parts %v, at once %v", got, want[0])
	}
	fork := s.Fork()
	a, _, _ := collect(t, s, Options{MaxTokens: 9})
	b, _, _ := collect(t, fork, Options{MaxTokens: 9})
	if !slices.Equal(a[0], b[0]) {
		t.Error("a fork goes on otherwise than what it was forked from")
	}
}

// TestGenerateErrors checks the errors for a batch without ids, a length of 0, and a context that is done.
func TestGenerateErrors(t *testing.T) {
	m := byteModel(t)
	first := func(s *Batch, ctx context.Context, o Options) error {
		for _, err := range s.Generate(ctx, tokenizer.Bytes(), nil, o) {
			return err
		}
		return nil
	}
	ctx := context.Background()
	if err := first(NewBatch(m, 1), ctx, drawn(5)); err == nil ||
		!strings.Contains(err.Error(), "nothing has been fed") {
		t.Errorf("an empty session: %v", err)
	}
	if err := first(fed(t, m), ctx, Options{}); err == nil || !strings.Contains(err.Error(), "max_tokens: found 0") {
		t.Errorf("no length: %v", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := first(fed(t, m), done, drawn(5)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
}

// TestGenerateEnd checks that the end-of-text token ends a sequence unless IgnoreEnd is set.
func TestGenerateEnd(t *testing.T) {
	m := byteModel(t)
	whole, _, _ := collect(t, fed(t, m), drawn(40))
	tok := ending{tokenizer.Bytes(), whole[0][10]}
	at := slices.Index(whole[0], tok.id)
	for _, ignore := range []bool{false, true} {
		o, n, end := drawn(40), 0, ""
		o.IgnoreEnd = ignore
		for p, err := range fed(t, m).Generate(context.Background(), tok, nil, o) {
			if err != nil {
				t.Fatal(err)
			}
			n, end = n+len(p.IDs), p.End
		}
		if wantN, wantEnd := at+1, EndText; !ignore && (n != wantN || end != wantEnd) ||
			ignore && (n != 40 || end != EndLength) {
			t.Errorf("ignore_end %v: %d tokens, ended by %s; the end of text is token %d", ignore, n, end, at)
		}
	}
}

// ending is a tokenizer in which one of the bytes is the end-of-text token.
type ending struct {
	tokenizer.Tokenizer
	id int32
}

func (e ending) EndOfText() (int32, bool) { return e.id, true }

// TestEndIDs checks that a text ends at any of EndIDs, that the id's text is not written, and that the batch counts the
// id.
func TestEndIDs(t *testing.T) {
	m := byteModel(t)
	o := DefaultOptions()
	o.Temperature, o.MaxTokens = 0, 30
	ids, _, _ := collect(t, fed(t, m), o)
	at := 7
	for slices.Index(ids[0], ids[0][at]) < at {
		at++
	}
	o.EndIDs = []int32{1, ids[0][at]}
	s := fed(t, m)
	ended, text, end := collect(t, s, o)
	if !slices.Equal(ended[0], ids[0][:at+1]) || end[0] != EndText || s.Position() != len(prompt)+at+1 {
		t.Errorf("got %v, %q at %d; want %v", ended[0], end[0], s.Position(), ids[0][:at+1])
	}
	want := strings.ToValidUTF8(string(tokenizer.Bytes().Decode(nil, ids[0][:at])), "")
	if got := strings.ReplaceAll(text[0], "\ufffd", ""); got != want {
		t.Errorf("got %q, want %q", text[0], want)
	}
	o.IgnoreEnd = true
	if on, _, _ := collect(t, fed(t, m), o); !slices.Equal(on[0], ids[0]) {
		t.Errorf("with IgnoreEnd: got %v, want %v", on[0], ids[0])
	}
}

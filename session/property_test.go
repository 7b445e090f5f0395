package session

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// plain is the reference for a Session: a text that is read again from its start for every query.
type plain struct {
	m     *model.Model
	chunk int
	read  []Segment
}

func (p *plain) ids() (all []int32) {
	for _, s := range p.read {
		all = append(all, s.IDs...)
	}
	return all
}

// session returns a batch that has read the whole text.
func (p *plain) session(t *rapid.T) *generate.Batch {
	s, _ := p.told(t)
	return s
}

// told is like session, and also returns the log-probabilities of all ids but the first.
func (p *plain) told(t *rapid.T) (*generate.Batch, []float32) {
	s, all := generate.NewBatch(p.m, 1), p.ids()
	s.Chunk = p.chunk
	logProbs := make([]float32, len(all))
	for _, part := range p.read {
		step := len(part.IDs)
		if part.Drawn {
			step = 1
		}
		for ids := range slices.Chunk(part.IDs, step) {
			from := s.Position()
			err := generate.Feed(context.Background(), generate.Part{Batch: s, IDs: ids,
				Each: func(at int, logits []float32) {
					if i := from + at + 1; i < len(all) {
						logProbs[i] = float32(sample.LogProb(logits, all[i]))
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, logProbs
}

func (p *plain) fork() *plain { return &plain{p.m, p.chunk, slices.Clone(p.read)} }

// rewind removes all but the first n ids.
func (p *plain) rewind(n int) {
	var kept []Segment
	for _, s := range p.read {
		if s.IDs = s.IDs[:min(n, len(s.IDs))]; len(s.IDs) > 0 {
			kept = append(kept, s)
		}
		n -= len(s.IDs)
	}
	p.read = kept
}

// player is a session and its reference.
type player struct {
	s     *Session
	p     *plain
	named map[string]int
	// rest holds the expected remaining pieces of an interrupted reply.
	rest []generate.Piece
}

// reply returns the expected pieces of a reply.
func (p *plain) reply(t *rapid.T, o generate.Options) (pieces []generate.Piece) {
	for piece, err := range p.session(t).Generate(context.Background(), tokenizer.Bytes(), p.ids(), o) {
		if err != nil {
			t.Fatal(err)
		}
		piece.Text = slices.Clone(piece.Text)
		pieces = append(pieces, piece)
	}
	return pieces
}

// take receives n pieces of a reply and checks them. It then leaves the loop, or cancels the context of the reply.
func (x *player) take(t *rapid.T, reply func(context.Context) iter.Seq2[generate.Piece, error], n int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	leave := rapid.Bool().Draw(t, "leave")
	for piece, err := range reply(ctx) {
		if err != nil && n <= 0 && errors.Is(err, context.Canceled) {
			break
		}
		if err != nil || n <= 0 {
			t.Fatalf("%d pieces to take, got %v and %v", n, piece, err)
		}
		want := x.rest[0]
		if string(piece.Text) != string(want.Text) || !slices.Equal(piece.IDs, want.IDs) || piece.End != want.End {
			t.Fatalf("got the piece %q %v %s, want %q %v %s", piece.Text, piece.IDs, piece.End, want.Text, want.IDs,
				want.End)
		}
		x.rest = x.rest[1:]
		x.p.read = append(x.p.read, Segment{piece.IDs, true})
		if n--; n == 0 && leave {
			break
		} else if n == 0 {
			cancel()
		}
	}
	if x.s.Unfinished() != (len(x.rest) > 0) {
		t.Fatalf("unfinished is %v with %d pieces to come", x.s.Unfinished(), len(x.rest))
	}
}

// check compares all that can be observed of the session with the reference.
func (x *player) check(t *rapid.T) {
	if got, want := x.s.IDs(), x.p.ids(); !slices.Equal(got, want) {
		t.Fatalf("the text is %v, want %v", got, want)
	}
	if x.s.Unfinished() != (len(x.rest) > 0) {
		t.Fatalf("unfinished is %v with %d pieces to come", x.s.Unfinished(), len(x.rest))
	}
	want, logProbs := x.p.told(t)
	if len(x.s.LogProbs()) != len(logProbs) {
		t.Fatalf("%d log-probabilities of %d ids", len(x.s.LogProbs()), len(logProbs))
	}
	for i, got := range x.s.LogProbs() {
		s := x.s.text.spans[x.s.text.spanOf(i)]
		if known := i > 0 && (s.Drawn || x.s.o.LogProbs); known != (got == got) || known && got != logProbs[i] {
			t.Fatalf("the log-probability of id %d is %v, want %v (if known: %v)", i, got, logProbs[i], known)
		}
	}
	f := x.s.Fork()
	if err := f.settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.logits(), want.Logits(0)) {
		t.Fatalf("other logits at %d of %v", f.Position(), x.p.read)
	}
}

// scripted is a Drafter that guesses the ids after position from correctly, except that one of every wrong ids is
// wrong.
type scripted struct {
	from, wrong int
	ids         []int32
}

func (s scripted) Draft(_ context.Context, text []int32, n int) (guess []int32, err error) {
	for at := len(text) - s.from; at < len(s.ids) && len(guess) < n; at++ {
		id := s.ids[at]
		if at%s.wrong == s.wrong-1 {
			id = (id + 1) % 256
		}
		guess = append(guess, id)
	}
	return guess, nil
}

func script(from int, pieces []generate.Piece, wrong int) generate.Drafts {
	s := scripted{from: from, wrong: wrong}
	for _, p := range pieces {
		s.ids = append(s.ids, p.IDs...)
	}
	return func() generate.Drafter { return s }
}

// step applies a random operation to the session and the reference.
func (x *player) step(t *rapid.T, lengths *rapid.Generator[int], all *[]*player) {
	ctx, chunk := context.Background(), x.p.chunk
	seed := rapid.Uint64Range(0, 1<<20)
	switch what := rapid.IntRange(0, 12).Draw(t, "what"); what {
	case 0, 1:
		ids := text(seed.Draw(t, "text"), lengths.Draw(t, "length"))
		if what == 1 && len(ids) > 0 { // Append is canceled in the middle
			stopped, cancel := context.WithCancel(ctx)
			x.s.Progress = func(int, int) { cancel() }
			before := x.s.Position()
			err := x.s.Append(stopped, ids)
			x.s.Progress = nil
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			at := x.s.Position()
			if at < before || err == nil && at != before+len(ids) || err != nil && at > before && at%chunk != 0 {
				t.Fatalf("stopped at %d of %d + %d: %v", at, before, len(ids), err)
			}
			if err != nil && rapid.Bool().Draw(t, "given up") {
				ids = ids[:at-before]
				if again, err := x.s.Rewind(ctx, at); err != nil || again > chunk && x.s.o.Budget == DefaultBudget {
					t.Fatalf("%d read again to go on at %d: %v", again, at, err)
				}
			} else if err := x.s.Append(ctx, ids[at-before:]); err != nil {
				t.Fatal(err)
			}
			x.rest = nil
		} else if err := x.s.Append(ctx, ids); err != nil {
			t.Fatal(err)
		}
		if len(ids) > 0 {
			x.p.read, x.rest = append(x.p.read, Segment{IDs: ids}), nil
		}
	case 2, 3:
		if len(x.p.read) == 0 {
			return
		}
		o := generate.DefaultOptions()
		o.Seed, o.Temperature, o.MaxTokens = seed.Draw(t, "seed"), 2, rapid.IntRange(1, 80).Draw(t, "tokens")
		o.RepetitionPenalty, o.Stop = 1.1, []string{"e", "th"}
		x.rest = x.p.reply(t, o)
		if wrong := rapid.SampledFrom([]int{0, 1, 2, 3, 7, 1000}).Draw(t, "wrong drafts"); wrong > 0 {
			o.Draft = script(x.s.Position(), x.rest, wrong)
		}
		reply := func(ctx context.Context) iter.Seq2[generate.Piece, error] { return x.s.Generate(ctx, o) }
		x.take(t, reply, rapid.IntRange(1, len(x.rest)).Draw(t, "pieces"))
	case 4:
		if x.s.Unfinished() {
			x.take(t, x.s.Continue, rapid.IntRange(1, len(x.rest)).Draw(t, "pieces"))
		}
	case 5:
		f := x.s.Fork()
		if o := f.Origin(); o.Session != x.s.ID() || o.Position != x.s.Position() {
			t.Fatalf("the fork comes from %v", o)
		}
		named := map[string]int{}
		for name, at := range x.named {
			named[name] = at
		}
		*all = append(*all, &player{f, x.p.fork(), named, x.rest})
	case 6:
		name := fmt.Sprint("mark", rapid.IntRange(0, 2).Draw(t, "name"))
		x.s.Mark(name)
		x.named[name] = x.s.Position()
	case 7, 8:
		to, n := rapid.IntRange(0, x.s.Position()).Draw(t, "to"), x.s.Position()
		near := x.s.Near(to)
		again, err := x.s.Rewind(ctx, to)
		if err != nil || to < n && again != to-near || to == n && again != 0 {
			t.Fatalf("rewinding to %d of %d has read %d ids again, want those from %d: %v", to, n, again, near, err)
		}
		x.rewound(to, n)
	case 10, 11:
		x.reload(t, FileOptions{Marks: rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "saved")})
	case 12:
		x.anew(t)
	case 9:
		ids := text(seed.Draw(t, "ending"), 1+lengths.Draw(t, "length")/8)
		if len(x.p.read) == 0 {
			return
		}
		x.score(t, ids)
	}
}

// rewound applies a rewind from one position to another to the reference.
func (x *player) rewound(to, from int) {
	if to == from {
		return
	}
	x.p.rewind(to)
	x.rest = nil
	for name, at := range x.named {
		if at > to {
			delete(x.named, name)
		}
	}
	if fmt.Sprint(x.named) != fmt.Sprint(x.s.Marks()) {
		panic(fmt.Sprintf("marks are %v, want %v", x.s.Marks(), x.named))
	}
}

// anew replaces the session by one that From creates from its text, with one of its marks or none.
func (x *player) anew(t *rapid.T) {
	o := Text{Plan: x.s.Segments(), Names: x.s.Marks()}
	if n := rapid.IntRange(0, len(x.s.marks)).Draw(t, "place"); n < len(x.s.marks) {
		o.At = x.s.marks[n]
	}
	s, err := From(x.s.Model(), tokenizer.Bytes(), x.s.o, o)
	if err != nil {
		t.Fatal(err)
	}
	s.logProbs = x.s.logProbs // From cannot know them
	x.s, x.rest = s, nil
}

// reload saves the session and replaces it by the loaded one.
func (x *player) reload(t *rapid.T, o FileOptions) {
	var file bytes.Buffer
	if err := x.s.Encode(&file, o); err != nil {
		t.Fatal(err)
	}
	s, err := Decode(file.Bytes(), x.s.Model(), tokenizer.Bytes(), x.s.o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.ID() != x.s.ID() || s.Origin() != x.s.Origin() || fmt.Sprint(s.Marks()) != fmt.Sprint(x.s.Marks()) {
		t.Fatalf("saved %s from %v with %v, loaded %s from %v with %v", x.s.ID(), x.s.Origin(), x.s.Marks(), s.ID(),
			s.Origin(), s.Marks())
	}
	x.s = s
}

// score compares the log-probabilities of an ending with the reference.
func (x *player) score(t *rapid.T, ids []int32) {
	got, err := x.s.Score(context.Background(), ids, ids[:1], nil)
	if err != nil {
		t.Fatal(err)
	}
	s, want := x.p.session(t), make([]float32, len(ids))
	want[0] = float32(sample.LogProb(s.Logits(0), ids[0]))
	if len(ids) > 1 {
		err := generate.Feed(context.Background(), generate.Part{Batch: s, IDs: ids[:len(ids)-1],
			Each: func(i int, logits []float32) { want[i+1] = float32(sample.LogProb(logits, ids[i+1])) }})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got[0], want) || !slices.Equal(got[1], want[:1]) || len(got[2]) != 0 {
		t.Fatalf("scores %v, want %v", got, want)
	}
}

// models returns the layers of the models to test: each mixer that reads from left to right, and hybrids.
func models() []string {
	return append(model.MixerNames(), hybrid, "mamba2,window-attention(window=30),s4d", "hyena,attention+h3")
}

// TestSessionIsPlain checks that after any operations a session equals, to the last bit, a text that is read and
// written from its start: its logits, its replies, and the log-probabilities of endings.
func TestSessionIsPlain(t *testing.T) {
	games(t, "40")
	for _, layers := range models() {
		t.Run(layers, func(t *testing.T) {
			plays(t, packed(t, layers), func(*model.Model) Runner { return Direct{} })
		})
	}
}

// games sets the number of checks that rapid runs in a test, unless -rapid.checks is set.
func games(t *testing.T, n string) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if before := checks.Value.String(); before == checks.DefValue {
		t.Cleanup(func() { checks.Value.Set(before) })
		if err := checks.Value.Set(n); err != nil {
			t.Fatal(err)
		}
	}
}

// packed returns models of these layers: an unpacked one, and one packed in each precision.
func packed(t *testing.T, layers string) []*model.Model {
	all := []*model.Model{language(t, layers)}
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
		m := language(t, layers)
		if err := m.Pack(p); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// plays runs random operations on sessions of models of one shape, each with its runner.
func plays(t *testing.T, models []*model.Model, runner func(*model.Model) Runner) {
	most := Chunk(models[0]) * 5 / 2
	if n := models[0].MaxLength(); n > 0 {
		most = min(most, n/12)
	}
	lengths := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, most))
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(models).Draw(t, "model")
		o := Options{Runner: runner(m), LogProbs: rapid.Bool().Draw(t, "logprobs")}
		o.Budget = rapid.SampledFrom([]int{-1, 0, 20_000}).Draw(t, "budget")
		o.Chunk = rapid.SampledFrom([]int{0, 0, 24}).Draw(t, "chunk")
		s := New(m, tokenizer.Bytes(), o)
		all := []*player{{s, &plain{m: m, chunk: s.Chunk()}, map[string]int{}, nil}}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			x := rapid.SampledFrom(all).Draw(t, "player")
			if n := m.MaxLength(); n > 0 && x.s.Position()+most+80 > n {
				continue
			}
			x.step(t, lengths, &all)
		}
		for _, x := range all {
			x.check(t)
		}
	})
}

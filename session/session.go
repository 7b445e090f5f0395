package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Options configure a session.
type Options struct {
	Runner Runner // nil: Direct
	// Budget is the maximum size of the marks in bytes, not counting the current state. 0 means DefaultBudget, a
	// negative value no marks.
	Budget int
	// LogProbs makes Append store the log-probabilities of the ids that it reads, which slows it down.
	LogProbs bool
	// Chunk is the piece length: a text is cut at its multiples. 0 means the result of the function Chunk. The bits of
	// the results depend on it.
	Chunk    int
	Client   string // see Request
	Priority int
}

// DefaultBudget is the default value of Options.Budget in bytes.
const DefaultBudget = 64 << 20

// Session is a text that a model reads and writes. It can be forked, rewound, saved and loaded at any time, and then
// continues with the same bits as an uninterrupted session. The bits depend only on the text and on how it was read:
// which ids each call of Append read, and which ids Generate sampled.
//
// A Session must be used by one goroutine at a time. During a loop over Generate it may be inspected, forked, marked
// and saved, but not changed.
type Session struct {
	// Progress, unless it is nil, is called during Append with the number of ids read so far and in total.
	Progress func(read, total int)
	Stats    generate.Stats

	model  *model.Model
	tok    tokenizer.Tokenizer
	o      Options
	id     string
	origin Origin

	text     plan
	logProbs []float32 // of each id; NaN if unknown
	names    map[string]int
	marks    []*Snapshot // by position; each is a cut of the text

	// gen, at or both hold the state of the model, which has read the whole text or all but the last ids.
	gen *generate.Batch
	at  *Snapshot

	writer  *generate.Writer // of the current reply, or nil
	reply   generate.Options // the options of writer
	writing bool             // a loop over Generate is running
}

// Origin is the session from which another was forked, and the position of the fork.
type Origin struct {
	Session  string `json:"session"` // its ID, "" for none
	Position int    `json:"position"`
}

// New returns a session at the start of a text.
func New(m *model.Model, tok tokenizer.Tokenizer, o Options) *Session {
	s := open(m, tok, o)
	s.id, s.at = rand.Text(), &Snapshot{State: m.NewState()}
	return s
}

// open returns a session without a state.
func open(m *model.Model, tok tokenizer.Tokenizer, o Options) *Session {
	if o.Runner == nil {
		o.Runner = Direct{}
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Chunk < 1 {
		o.Chunk = Chunk(m)
	}
	return &Session{model: m, tok: tok, o: o, text: plan{chunk: o.Chunk}, names: map[string]int{}}
}

// errWriting is returned by methods that would change the session during a loop over Generate.
var errWriting = errors.New("session: found a loop over Generate that is running, want it to end first")

// errNoLogits is returned if the next id is to be sampled or scored but there are no logits, as at the start of a text.
var errNoLogits = errors.New("session: found no logits to draw from: nothing has been fed, or not to its end; " +
	"want a prompt of at least one token")

// ID returns the unique name of the session.
func (s *Session) ID() string { return s.id }

// Origin returns where the session was forked from, or the zero value if it was not forked.
func (s *Session) Origin() Origin { return s.origin }

// Position returns the number of ids of the text.
func (s *Session) Position() int { return len(s.text.ids) }

// IDs returns the ids of the text. The slice must not be changed.
func (s *Session) IDs() []int32 { return slices.Clip(s.text.ids) }

// LogProbs returns the natural logarithm of the probability of each id given the ids before it: NaN for the first id,
// and for ids read without Options.LogProbs. The slice must not be changed.
func (s *Session) LogProbs() []float32 { return slices.Clip(s.logProbs) }

// Text returns the text.
func (s *Session) Text() []byte { return s.tok.Decode(nil, s.text.ids) }

// Segments returns the text, divided as it was read.
func (s *Session) Segments() []Segment { return s.text.segments(0, len(s.text.ids)) }

// SegmentsFrom returns the segments of the text after a cut.
func (s *Session) SegmentsFrom(at int) []Segment { return s.text.segments(at, len(s.text.ids)) }

// IsCut reports whether the text was cut at a position when it was read.
func (s *Session) IsCut(at int) bool { return s.text.isCut(at) }

// Chunk returns the piece length: a text is cut at its multiples when it is read.
func (s *Session) Chunk() int { return s.text.chunk }

// Model returns the model that reads and writes.
func (s *Session) Model() *model.Model { return s.model }

// StateSize returns the size of the model's state in bytes.
func (s *Session) StateSize() int {
	if s.gen != nil {
		return s.gen.StateSize()
	}
	return s.at.State.Size()
}

// read returns the number of ids that the model has read.
func (s *Session) read() int {
	if s.gen != nil {
		return s.gen.Position()
	}
	return s.at.Position
}

// logits returns the logits after the ids read, or nil.
func (s *Session) logits() []float32 {
	if s.gen != nil {
		return s.gen.Logits(0)
	}
	return s.at.Logits
}

// batch returns the batch, of one sequence, that continues the session.
func (s *Session) batch() *generate.Batch {
	if s.gen == nil {
		s.gen = s.from(s.at)
	}
	return s.gen
}

// from returns a batch that continues from a snapshot.
func (s *Session) from(n *Snapshot) *generate.Batch {
	gen := n.Session(s.model)
	gen.Chunk = s.text.chunk
	return gen
}

// Snapshot returns the state of the model: after the text, or before the last sampled id, which it has not read yet.
func (s *Session) Snapshot() *Snapshot {
	if s.at == nil {
		s.at = Take(s.gen)
	}
	return s.at
}

// run passes a request to the runner, to continue from the current state.
func (s *Session) run(ctx context.Context, r *Request) error {
	r.Session, r.Client, r.Priority = s.batch(), s.o.Client, s.o.Priority
	if r.Next == nil && len(r.Segments) == 0 {
		return nil
	}
	s.at = nil
	return s.o.Runner.Run(ctx, r)
}

// Append reads ids as one segment. It sets marks at the end of the segment and at doubling distances before the end.
//
// When ctx is done, Append returns the error of ctx after at most one more piece. After this or any other error, the
// text ends after the ids that were read (see Position). If ctx was done, Append of the remaining ids gives the same
// bits as one call. To generate from there instead, Rewind to Position first, which computes the logits.
func (s *Session) Append(ctx context.Context, ids []int32) error {
	if s.writing {
		return errWriting
	}
	if err := s.check(ids); err != nil || len(ids) == 0 {
		return err
	}
	s.writer = nil
	start := len(s.text.ids)
	s.text.add(false, ids...)
	for range ids {
		s.logProbs = append(s.logProbs, float32(math.NaN()))
	}
	begin := time.Now()
	defer func() {
		s.Stats.PrefillTokens += max(0, s.read()-start)
		s.Stats.PrefillSeconds += time.Since(begin).Seconds()
		s.Stats.StateBytes = s.StateSize()
	}()
	for _, stop := range s.stops(start) {
		if err := s.readTo(ctx, start, stop); err != nil {
			s.cut(max(start, s.read()))
			return err
		}
		s.mark()
	}
	return nil
}

// AppendText tokenizes and reads text. The tokens of a text read in parts may differ from those of the whole text.
func (s *Session) AppendText(ctx context.Context, text string) error {
	ids, err := s.tok.Encode(nil, []byte(text))
	if err != nil {
		return err
	}
	return s.Append(ctx, ids)
}

// check returns an error unless the model can read ids.
func (s *Session) check(ids []int32) error {
	vocab := s.model.Config.PaddedVocab()
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("session: id %d at position %d, want ids from 0 to %d", id, i, vocab-1)
		}
	}
	if most, at := s.model.MaxLength(), len(s.text.ids); most > 0 && at+len(ids) > most {
		return fmt.Errorf("session: %d ids after %d, want at most %d in all, the length of the model",
			len(ids), at, most)
	}
	return nil
}

// stops returns the positions of the marks to set in the text from start on: its end, and the multiples of the chunk
// whose distance from the end is about one chunk, two, four, and so on.
func (s *Session) stops(start int) []int {
	end := len(s.text.ids)
	stops := []int{end}
	for back := s.text.chunk; end-back > start && s.o.Budget > 0; back *= 2 {
		if at := (end - back) / s.text.chunk * s.text.chunk; at > start && at < stops[len(stops)-1] {
			stops = append(stops, at)
		}
	}
	slices.Reverse(stops)
	return stops
}

// readTo reads the text up to a position. The ids from start on belong to one call of Append.
func (s *Session) readTo(ctx context.Context, start, to int) error {
	from := s.read()
	r := &Request{Segments: s.text.segments(from, to)}
	var last latest
	if s.o.LogProbs {
		r.Each = func(at int, logits []float32) {
			s.learn(start, from+at+1, logits)
			last.keep(at, logits)
		}
		if logits := s.logits(); logits != nil {
			s.learn(start, from, logits)
		}
	}
	if s.Progress != nil {
		total := len(s.text.ids) - start
		r.Progress = func(read, _ int) { s.Progress(max(0, from+read-start), total) }
	}
	err := s.run(ctx, r)
	if err != nil && s.logits() == nil && last.logits != nil { // they are needed to score the next id
		s.gen = s.from(&Snapshot{State: s.gen.State(0), Logits: last.logits})
	}
	return err
}

// latest holds the logits after the last id that any of several goroutines reported.
type latest struct {
	mu     sync.Mutex
	at     int
	logits []float32
}

func (l *latest) keep(at int, logits []float32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at >= l.at {
		l.at, l.logits = at, append(l.logits[:0], logits...)
	}
}

// learn stores the log-probability of id i, unless i is before start or at the end of the text.
func (s *Session) learn(start, i int, logits []float32) {
	if i >= start && i < len(s.text.ids) {
		s.logProbs[i] = float32(sample.LogProb(logits, s.text.ids[i]))
	}
}

// cut truncates the text and everything attached to it to n ids. The model must not have read more.
func (s *Session) cut(n int) {
	s.text, s.logProbs = s.text.until(n), slices.Clip(s.logProbs[:n])
	s.marks = slices.DeleteFunc(s.marks, func(m *Snapshot) bool { return m.Position > n })
	for name, at := range s.names {
		if at > n {
			delete(s.names, name)
		}
	}
}

// Fork returns an independent session that continues from the same position, even during a reply. The two sessions
// share the memory of the text so far. Progress is not copied.
func (s *Session) Fork() *Session {
	s.mark()
	f := open(s.model, s.tok, s.o)
	f.id, f.origin = rand.Text(), Origin{s.id, len(s.text.ids)}
	f.text, f.logProbs, f.marks = s.text.fork(), slices.Clip(s.logProbs), slices.Clone(s.marks)
	for name, at := range s.names {
		f.names[name] = at
	}
	f.at = s.Snapshot()
	if s.writer != nil {
		if err := f.goOn(s.reply, s.writer.State()); err != nil {
			panic(err) // the options and the state come from a valid writer
		}
	}
	return f
}

// Repeat returns a batch of n copies of the current state, to generate several samples together.
func (s *Session) Repeat(ctx context.Context, n int) (*generate.Batch, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return s.batch().Repeat(n)
}

// settle reads the ids at the end of the text that the model has not read yet.
func (s *Session) settle(ctx context.Context) error {
	if s.writing {
		return errWriting
	}
	return s.run(ctx, &Request{Segments: s.text.segments(s.read(), len(s.text.ids))})
}

// SetBudget sets Options.Budget, sets a mark at the current position, and evicts the marks that exceed the budget.
func (s *Session) SetBudget(bytes int) {
	s.o.Budget = bytes
	s.mark()
	s.thin()
}

// goOn creates the writer that continues an interrupted reply.
func (s *Session) goOn(o generate.Options, at generate.WriterState) (err error) {
	if s.writer, err = generate.NewWriter(s.tok, s.text.ids, o); err != nil {
		return err
	}
	s.reply = o
	return s.writer.Restore(at)
}

// Close releases the memory of the session, which must not be used afterwards.
func (s *Session) Close() { *s = Session{} }

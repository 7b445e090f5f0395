package hippo

import (
	"context"
	"fmt"
	"iter"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// Session is a text being read and written by a model: a recurrent state, whose size does not grow with the text (but
// for the attention layers of a hybrid), and the numbers of its tokens. It can be forked, rewound, saved and loaded,
// and goes on in each case to the last bit as it would have gone on without. A session that waits holds no other
// memory, unless SetMarks gives it some. A Session is for one goroutine; any number of them share a model, and a
// program can have thousands.
type Session struct {
	m *Model
	s *session.Session
}

// NewSession returns a session at the start of a text.
func (m *Model) NewSession() *Session { return m.OpenSession(generate.DefaultChunk) }

// OpenSession is NewSession that reads so many tokens at a time (see Session.SetChunk), 0 for a number that suits the
// model.
func (m *Model) OpenSession(chunk int) *Session {
	return &Session{m: m, s: session.New(m.net, m.tok, session.Options{Chunk: chunk, Budget: -1})}
}

// LoadSession reads a session that Save wrote, with the same model at the same precision. key is that of an encrypted
// file, nil for others.
func (m *Model) LoadSession(path string, key []byte) (*Session, error) {
	s, err := session.Load(path, m.net, m.tok, session.Options{Budget: -1}, key)
	if err != nil {
		return nil, err
	}
	return &Session{m: m, s: s}, nil
}

// Whole is the session with all that can be done with it: ids, log-probabilities, pieces of a reply.
func (s *Session) Whole() *session.Session { return s.s }

// SaveOptions say how a session is saved; the zero value saves it exactly, in the open, without marks.
type SaveOptions = session.FileOptions

// Save writes the session to a file: the old file or the whole new one is there after a crash at any moment.
func (s *Session) Save(path string, o SaveOptions) error { return s.s.Save(path, o) }

// Append makes the session read text. It ends soon after ctx is done, at most a chunk of tokens later, with the error
// of ctx. The session then stands behind what it has read by then: take a Fork before a text that may be given up, or
// go back by Rewind.
//
// A text that is appended in parts has the tokens of its parts, which may be others than those of the whole.
func (s *Session) Append(ctx context.Context, text string) error { return s.s.AppendText(ctx, text) }

// Generate reads prompt and continues the text, piece by piece: whole UTF-8 characters, never a part of a stop string.
// It ends after an error, which is the last pair. When it has ended, or the loop over it, the session stands behind the
// text generated so far, and Append or Generate go on from there.
func (s *Session) Generate(ctx context.Context, prompt string, o Options) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.Append(ctx, prompt); err != nil {
			yield("", err)
			return
		}
		texts(s.s.Generate(ctx, s.m.ending(o)), yield)
	}
}

// texts yields the texts of pieces.
func texts(pieces iter.Seq2[generate.Piece, error], yield func(string, error) bool) {
	for piece, err := range pieces {
		if (err != nil || len(piece.Text) > 0) && !yield(string(piece.Text), err) {
			return
		}
	}
}

// Continue goes on with a reply whose loop was left before it ended, also after Save and LoadSession: with the options
// and the random numbers of then.
func (s *Session) Continue(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { texts(s.s.Continue(ctx), yield) }
}

// Fork returns an independent session in the same state: the way to try several continuations.
func (s *Session) Fork() *Session { return &Session{m: s.m, s: s.s.Fork()} }

// Position is the number of tokens of the text.
func (s *Session) Position() int { return s.s.Position() }

// Text is the text read and written so far.
func (s *Session) Text() string { return string(s.s.Text()) }

// Mark gives the end of the text a name, for RewindTo.
func (s *Session) Mark(name string) { s.s.Mark(name) }

// SetMarks has the session keep states behind it, in up to so many bytes besides its own, from which Rewind reads on.
// Without them it reads from the start of the text.
func (s *Session) SetMarks(bytes int) { s.s.SetBudget(bytes) }

// Rewind goes back to a position, as if nothing had been there behind it, and returns how many tokens it had to read
// again.
func (s *Session) Rewind(ctx context.Context, position int) (again int, err error) {
	return s.s.Rewind(ctx, position)
}

// RewindTo is Rewind to where Mark was called.
func (s *Session) RewindTo(ctx context.Context, name string) (again int, err error) {
	return s.s.RewindTo(ctx, name)
}

// Score returns the natural logarithm of the probability of each of several endings of the text. The session does not
// move, and the text before is not read again.
func (s *Session) Score(ctx context.Context, endings ...string) ([]float64, error) {
	ids := make([][]int32, len(endings))
	for i, text := range endings {
		var err error
		if ids[i], err = s.m.tok.Encode(nil, []byte(text)); err != nil {
			return nil, err
		}
	}
	all, err := s.s.Score(ctx, ids...)
	if err != nil {
		return nil, err
	}
	sums := make([]float64, len(all))
	for i, one := range all {
		for _, p := range one {
			sums[i] += float64(p)
		}
	}
	return sums, nil
}

// SetChunk sets how many tokens of a prompt are read at a time, counted from the start of the text: 512, unless it is
// called. It must be called before anything is read. More take more memory and are faster, up to some hundred. The text
// that follows depends on the number by rounding alone: where two tokens are all but equally probable, the other may be
// chosen, which is rare in float32, less so in bf16, and is not in int8. See generate.Batch for what is the same to
// the last bit.
func (s *Session) SetChunk(n int) {
	if s.Position() > 0 {
		panic("hippo.Session.SetChunk: found a text that has been read, want none")
	}
	before := s.s
	*s = *s.m.OpenSession(n)
	s.s.Progress = before.Progress
}

// SetProgress has f called while the session reads, after each chunk, with how many tokens of the text have been read
// and how many there are. A nil f ends that. Forks do not call it.
func (s *Session) SetProgress(f func(read, total int)) { s.s.Progress = f }

// StateSize is the number of bytes of the session's state.
func (s *Session) StateSize() int { return s.s.StateSize() }

// Stats are the speeds of the session so far.
func (s *Session) Stats() generate.Stats { return s.s.Stats }

// Samples reads prompt once and draws n continuations, with seeds o.Seed, o.Seed+1, ... It calls emit with every piece
// of text: several samples are drawn side by side, as many as fit into memory, and the next ones when those have ended.
// A sample is the same however many there are. The session stays behind the prompt; its Stats count the samples.
func (s *Session) Samples(ctx context.Context, prompt string, n int, o Options, emit func(generate.Piece) error) error {
	if n < 1 {
		return fmt.Errorf("samples: found %d, want at least 1", n)
	}
	if err := s.Append(ctx, prompt); err != nil {
		return err
	}
	for first, most := 0, s.sideBySide(o.MaxTokens); first < n; first += most {
		if err := s.samples(ctx, first, min(most, n-first), o, emit); err != nil {
			return err
		}
	}
	return nil
}

// sideBySide is how many samples of that many tokens are drawn at a time.
func (s *Session) sideBySide(tokens int) int {
	const most, memory = 64, 256 << 20
	growth, _ := s.m.net.Growth()
	numbers := 4 * (s.Position() + s.m.net.Config.PaddedVocab())
	each := float64(s.StateSize()+numbers) + float64(growth+4)*float64(tokens)
	return int(max(1, min(most, memory/each)))
}

// samples draws samples first to first+n-1 side by side.
func (s *Session) samples(ctx context.Context, first, n int, o Options, emit func(generate.Piece) error) error {
	batch, err := s.s.Repeat(ctx, n)
	if err != nil {
		return err
	}
	batch.Stats = s.s.Stats
	o.Seed += uint64(first)
	for piece, err := range batch.Generate(ctx, s.m.tok, s.s.IDs(), s.m.ending(o)) {
		s.s.Stats = batch.Stats
		piece.Sample += first
		if err == nil {
			err = emit(piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package hippo

import (
	"context"
	"fmt"
	"iter"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// Session is a text that a model reads and writes. It consists of a recurrent state and the ids of the text's tokens.
// The state does not grow with the text, except in the attention layers of a hybrid. An idle session uses no other
// memory unless SetMarks allows some, so a program can have thousands of sessions.
//
// A session can be forked, rewound, saved and loaded. In each case it continues with the same bits as an undisturbed
// session. A Session must be used by one goroutine at a time. Any number of sessions may share a model.
type Session struct {
	m *Model
	s *session.Session
}

// NewSession returns a session at the start of a text.
func (m *Model) NewSession() *Session { return m.OpenSession(generate.DefaultChunk) }

// OpenSession is like NewSession, with a chunk size in tokens (see Session.SetChunk). If chunk is 0, the session
// chooses a size that suits the model.
func (m *Model) OpenSession(chunk int) *Session {
	return &Session{m: m, s: session.New(m.net, m.tok, session.Options{Chunk: chunk, Budget: -1})}
}

// LoadSession reads a session that Save wrote with the same model at the same precision. key decrypts an encrypted file
// and is nil for other files.
func (m *Model) LoadSession(path string, key []byte) (*Session, error) {
	s, err := session.Load(path, m.net, m.tok, session.Options{Budget: -1}, key)
	if err != nil {
		return nil, err
	}
	return &Session{m: m, s: s}, nil
}

// Whole returns the underlying session. Its interface also offers token ids, log-probabilities and pieces of a reply.
func (s *Session) Whole() *session.Session { return s.s }

// SaveOptions control how a session is saved. The zero value saves it exactly, without encryption and without marks.
type SaveOptions = session.FileOptions

// Save writes the session to a file atomically: after a crash the file is either the old one or the complete new one.
func (s *Session) Save(path string, o SaveOptions) error { return s.s.Save(path, o) }

// Append makes the session read text. When ctx is done, Append returns the error of ctx after at most one more chunk of
// tokens. The session has then read a part of the text. To undo that, take a Fork before Append or call Rewind after
// it.
//
// A text appended in parts is tokenized part by part, so its tokens may differ from those of the whole text.
func (s *Session) Append(ctx context.Context, text string) error { return s.s.AppendText(ctx, text) }

// Generate reads prompt and yields the continuation of the text in pieces. A piece consists of whole UTF-8 characters
// and never contains a part of a stop string. If an error occurs, it is yielded last. When the loop over Generate has
// ended, the session is at the end of the text generated so far. Append and Generate continue from there.
func (s *Session) Generate(ctx context.Context, prompt string, o Options) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.Append(ctx, prompt); err != nil {
			yield("", err)
			return
		}
		texts(s.s.Generate(ctx, s.m.ending(o)), yield)
	}
}

// texts yields the texts of pieces, without empty ones.
func texts(pieces iter.Seq2[generate.Piece, error], yield func(string, error) bool) {
	for piece, err := range pieces {
		if (err != nil || len(piece.Text) > 0) && !yield(string(piece.Text), err) {
			return
		}
	}
}

// Continue resumes a reply whose loop was left before its end, with the same options and random numbers. It also works
// after Save and LoadSession.
func (s *Session) Continue(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { texts(s.s.Continue(ctx), yield) }
}

// Fork returns an independent session in the same state. Use it to try several continuations.
func (s *Session) Fork() *Session { return &Session{m: s.m, s: s.s.Fork()} }

// Position returns the number of tokens of the text.
func (s *Session) Position() int { return s.s.Position() }

// Text returns the text read and written so far.
func (s *Session) Text() string { return string(s.s.Text()) }

// Mark names the current end of the text, for RewindTo.
func (s *Session) Mark(name string) { s.s.Mark(name) }

// SetMarks allows the session to store earlier states in up to the given number of additional bytes. Rewind then reads
// from the nearest earlier state. Without stored states it reads from the start of the text.
func (s *Session) SetMarks(bytes int) { s.s.SetBudget(bytes) }

// Rewind truncates the text to a position and returns the number of tokens that it had to read again.
func (s *Session) Rewind(ctx context.Context, position int) (again int, err error) {
	return s.s.Rewind(ctx, position)
}

// RewindTo is Rewind to the position of the Mark with a name.
func (s *Session) RewindTo(ctx context.Context, name string) (again int, err error) {
	return s.s.RewindTo(ctx, name)
}

// Score returns the natural logarithm of the probability of each ending of the text. It does not change the session and
// does not read the text again.
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

// SetChunk sets the number of tokens of a prompt that are read at a time, counted from the start of the text. The
// default is 512. SetChunk must be called before anything is read. Larger chunks take more memory and are faster, up to
// a few hundred tokens. The generated text depends on the chunk size only through rounding: of two tokens with almost
// equal probabilities the other may be chosen. This is rare in float32, less rare in bf16, and common in int8. See
// generate.Batch for results that are the same to the last bit.
func (s *Session) SetChunk(n int) {
	if s.Position() > 0 {
		panic("hippo.Session.SetChunk: found a text that has been read, want none")
	}
	before := s.s
	*s = *s.m.OpenSession(n)
	s.s.Progress = before.Progress
}

// SetProgress makes the session call f after each chunk that it reads, with the number of tokens read so far and in
// total. A nil f ends the calls. Forks do not call f.
func (s *Session) SetProgress(f func(read, total int)) { s.s.Progress = f }

// StateSize returns the size of the session's state in bytes.
func (s *Session) StateSize() int { return s.s.StateSize() }

// Stats returns the session's token counts and speeds so far.
func (s *Session) Stats() generate.Stats { return s.s.Stats }

// Samples reads prompt once and generates n continuations, with seeds o.Seed, o.Seed+1, ... It calls emit with each
// piece of text. The samples are generated in batches of at most 64, fewer if these would need more than 256 MiB. A
// sample does not depend on the number of samples. The session stays at the end of the prompt. Its Stats count the
// samples.
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

// sideBySide returns the number of samples, each of the given number of tokens, that are generated at a time.
func (s *Session) sideBySide(tokens int) int {
	const most, memory = 64, 256 << 20
	growth, _ := s.m.net.Growth()
	numbers := 4 * (s.Position() + s.m.net.Config.PaddedVocab())
	each := float64(s.StateSize()+numbers) + float64(growth+4)*float64(tokens)
	return int(max(1, min(most, memory/each)))
}

// samples generates samples first to first+n-1 in one batch.
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

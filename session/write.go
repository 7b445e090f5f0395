package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
)

// Generate samples a reply that follows the text. It yields each piece as soon as it is certain. If the loop ends
// before the reply does, or ctx is done, or an error occurs, the text ends after the last sampled id, and Continue
// resumes there.
func (s *Session) Generate(ctx context.Context, o generate.Options) iter.Seq2[generate.Piece, error] {
	return func(yield func(generate.Piece, error) bool) {
		if s.writing {
			yield(generate.Piece{}, errWriting)
			return
		}
		w, err := generate.NewWriter(s.tok, s.text.ids, o)
		if err != nil {
			yield(generate.Piece{}, err)
			return
		}
		s.writer, s.reply = w, o
		s.write(ctx, yield)
	}
}

// Unfinished reports whether a reply was interrupted, which Continue can resume.
func (s *Session) Unfinished() bool { return s.writer != nil }

// Continue resumes an interrupted reply, even after Save and Load. It keeps the options, the random numbers, an
// incomplete character, and text held back because it may start a stop string. Append and Rewind discard an interrupted
// reply.
func (s *Session) Continue(ctx context.Context) iter.Seq2[generate.Piece, error] {
	return func(yield func(generate.Piece, error) bool) {
		switch {
		case s.writing:
			yield(generate.Piece{}, errWriting)
		case s.writer == nil:
			yield(generate.Piece{}, errors.New("session: found no reply that was interrupted"))
		default:
			s.write(ctx, yield)
		}
	}
}

// write continues the reply of s.writer.
func (s *Session) write(ctx context.Context, yield func(generate.Piece, error) bool) {
	from := s.read()
	if from == len(s.text.ids) && s.logits() == nil {
		s.writer = nil
		yield(generate.Piece{}, errNoLogits)
		return
	}
	w := writing{s: s, yield: yield, marked: from}
	s.writing = true
	defer func() { s.writing = false }()
	writer := s.writer
	err := s.run(ctx, &Request{
		Segments: s.text.segments(from, len(s.text.ids)), Next: w.next, Draft: writer.Draft,
	})
	drafted, accepted := writer.Drafted()
	s.Stats.DraftedTokens, s.Stats.AcceptedTokens = s.Stats.DraftedTokens+drafted, s.Stats.AcceptedTokens+accepted
	s.mark()
	if s.at != nil && s.writer == nil {
		s.gen = nil // an idle session needs one copy of the state
	}
	if err != nil && !w.stopped {
		yield(generate.Piece{}, err)
	}
}

// writing is the state of a loop over a reply.
type writing struct {
	s       *Session
	yield   func(generate.Piece, error) bool
	marked  int       // position of the last mark
	since   time.Time // when the last id was sampled
	stopped bool
}

// next samples the next id.
func (w *writing) next(logits []float32) (id int32, more bool, err error) {
	s := w.s
	if n := s.read(); n >= w.marked+s.text.chunk {
		s.mark()
		w.marked = n
	}
	text, id, err := s.writer.Next(logits)
	if err != nil {
		return 0, false, fmt.Errorf("session: position %d: %w", len(s.text.ids), err)
	}
	s.text.add(true, id)
	s.logProbs = append(s.logProbs, float32(sample.LogProb(logits, id)))
	w.count()
	end := s.writer.End()
	if len(text) > 0 || end != "" {
		piece := generate.Piece{Text: text, IDs: s.writer.Fresh(), End: end}
		if end != "" {
			s.writer = nil
		}
		if w.stopped = !w.yield(piece, nil); w.stopped || end != "" {
			return 0, false, nil
		}
		w.since = time.Now()
	}
	s.at = nil
	return id, true, nil
}

// count adds an id to Stats. It leaves out the time spent in the body of the loop, and the first id, whose logits
// existed already.
func (w *writing) count() {
	now := time.Now()
	if !w.since.IsZero() {
		w.s.Stats.DecodeTokens++
		w.s.Stats.DecodeSeconds += now.Sub(w.since).Seconds()
	}
	w.since = now
	w.s.Stats.StateBytes = w.s.StateSize()
}

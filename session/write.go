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

// Generate draws a reply after the text. It yields text as soon as it is certain. If the loop over it ends before the
// reply does, or ctx is done, or after an error, the text ends after the last id drawn, and Continue continues there.
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

// Unfinished reports whether a reply has begun and not ended: Continue continues with it.
func (s *Session) Unfinished() bool { return s.writer != nil }

// Continue continues with a reply that was interrupted, also one from before Save and Load: with its options, its
// random numbers, half a character and text that may be the start of a stop string. Append and Rewind give such a reply
// up.
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
	err := s.run(ctx, &Request{Segments: s.text.segments(from, len(s.text.ids)), Next: w.next})
	s.mark()
	if s.at != nil && s.writer == nil {
		s.gen = nil // a session that waits needs it once
	}
	if err != nil && !w.stopped {
		yield(generate.Piece{}, err)
	}
}

// writing is a loop over a reply.
type writing struct {
	s       *Session
	yield   func(generate.Piece, error) bool
	marked  int       // where the last mark is
	since   time.Time // the last id was drawn
	stopped bool
}

// next draws the next id.
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

// count adds an id to Stats. The time that whoever loops takes is not counted, nor is the first id, whose logits were
// there.
func (w *writing) count() {
	now := time.Now()
	if !w.since.IsZero() {
		w.s.Stats.DecodeTokens++
		w.s.Stats.DecodeSeconds += now.Sub(w.since).Seconds()
	}
	w.since = now
	w.s.Stats.StateBytes = w.s.StateSize()
}

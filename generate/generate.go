package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Options configure how a text is continued.
type Options struct {
	sample.Options
	MaxTokens int      `json:"max_tokens" min:"1" help:"tokens of each continuation"`
	Stop      []string `json:"stop" help:"text before which a continuation ends; it is not part of the output"`
	IgnoreEnd bool     `json:"ignore_end" help:"go on after the end-of-text token"`
	// EndIDs are further tokens that end a text like the end-of-text token, for example the token after each message of
	// a chat.
	EndIDs []int32 `json:"-"`
	// StopIDs are tokens that end a text even with IgnoreEnd.
	StopIDs []int32 `json:"-"`
	// MinTokens is the number of tokens that are sampled before a token or a stop string may end a text.
	MinTokens int `json:"-"`
	// Constraint, unless it is nil, restricts the text. The text then ends where the constraint permits it: with a
	// token that ends texts or, if nothing may follow, without one.
	Constraint *constrain.Constraint `json:"-"`
	// BadWords, unless it is nil, holds the words that must not occur in a text.
	BadWords *constrain.Words `json:"-"`
	// AllowedIDs, unless it is nil, lists the only tokens that may be sampled, including those that end a text.
	AllowedIDs []int32 `json:"-"`
	// Decoder, unless it is nil, decodes tokens instead of the tokenizer: see tokenizer.WithoutSpecial.
	Decoder tokenizer.Tokenizer `json:"-"`
	// IncludeStop includes the stop string that ends a text in the text.
	IncludeStop bool `json:"-"`
	// Draft, unless it is nil, returns a Drafter for each text: NGrams, MTPDrafts or a result of ModelDrafts. It makes
	// a predictable text faster and changes nothing else. A batch of several sequences does not use it.
	Draft Drafts `json:"-"`
}

// DefaultOptions returns options for 200 tokens at temperature 0.8 among the 40 most probable.
func DefaultOptions() Options {
	return Options{Options: sample.Options{Temperature: 0.8, TopK: 40, RepetitionWindow: 256}, MaxTokens: 200}
}

// The reasons why a sequence ended.
const (
	EndLength = "length" // MaxTokens
	EndStop   = "stop"   // a stop string
	EndText   = "eot"    // the end-of-text token, or one of EndIDs or StopIDs
	EndWhole  = "whole"  // the text is complete: its Constraint permits nothing more
)

// Piece is a piece of text of one sequence: whole UTF-8 characters, and never a part of a stop string.
type Piece struct {
	Sample int
	Text   []byte  // valid until the next piece
	IDs    []int32 // the tokens sampled since the sequence's last piece
	End    string  // why the sequence ended, "" while it continues; set in the last piece of every sequence
}

// Stats holds the token counts and times of a batch.
type Stats struct {
	PrefillTokens  int     `json:"prefill_tokens"`
	PrefillSeconds float64 `json:"prefill_seconds"`
	DecodeTokens   int     `json:"decode_tokens"` // of all sequences
	DecodeSeconds  float64 `json:"decode_seconds"`
	StateBytes     int     `json:"state_bytes"`
	DraftedTokens  int     `json:"drafted_tokens,omitempty"`  // guessed tokens
	AcceptedTokens int     `json:"accepted_tokens,omitempty"` // of these, tokens that were then sampled
}

// PrefillSpeed returns the number of tokens read per second.
func (s Stats) PrefillSpeed() float64 { return rate(s.PrefillTokens, s.PrefillSeconds) }

// DecodeSpeed returns the number of tokens written per second.
func (s Stats) DecodeSpeed() float64 { return rate(s.DecodeTokens, s.DecodeSeconds) }

func rate(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// Generate continues every sequence of the batch after the ids fed so far. It samples with seed, seed+1, ... for
// sequences 0, 1, ... It yields text as soon as it is certain. It ends when all sequences have ended, after an error,
// or when ctx is done (with its error). prompt holds the ids that were fed, for the repetition penalty. It may be nil.
// Afterwards the batch is positioned after all sampled tokens, including those of pieces that were not consumed, and
// can be fed or continued. A sequence that ends leaves the batch. It costs nothing while the others continue, and its
// position then differs from theirs (see Batch.PositionOf).
func (s *Batch) Generate(ctx context.Context, tok tokenizer.Tokenizer, prompt []int32,
	o Options) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		defer s.Rest()
		writers, err := s.writers(tok, prompt, o)
		if err == nil && s.logits == nil {
			err = errors.New("generate: found no logits to draw from: nothing has been fed, or not to its end; " +
				"want a prompt of at least one token")
		}
		for running := true; running && err == nil; {
			var pieces []Piece
			if pieces, running, err = s.draw(ctx, writers); err != nil {
				break
			}
			for _, p := range pieces {
				if !yield(p, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Piece{}, err)
		}
	}
}

// draw samples the next token of every sequence that has not ended and returns the text that has thereby become
// certain. running reports whether any sequence continues.
func (s *Batch) draw(ctx context.Context, writers []*Writer) (pieces []Piece, running bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	start, stepped := time.Now(), false
	if len(writers) == 1 && writers[0].drafting != nil && writers[0].End() == "" && s.waits(0) {
		stepped = true
		err = s.advance(ctx, writers[0])
	} else {
		err = s.flush(func(i int) bool {
			if writers[i].End() != "" {
				return false
			}
			stepped = true
			return true
		})
	}
	if err != nil {
		return nil, false, err
	}
	if s.pending == nil {
		s.pending = slices.Repeat([]int32{none}, len(s.states))
	}
	for i, w := range writers {
		if w.End() != "" {
			continue
		}
		text, id, err := w.Next(s.Logits(i))
		if err != nil {
			return nil, false, fmt.Errorf("generate: position %d: %w", s.PositionOf(i), err)
		}
		s.pending[i] = id
		if stepped { // the first token is sampled from the logits of the prompt
			s.Stats.DecodeTokens++
		}
		if running = running || w.End() == ""; len(text) > 0 || w.End() != "" {
			pieces = append(pieces, Piece{Sample: i, Text: text, IDs: w.Fresh(), End: w.End()})
		}
	}
	s.Stats.StateBytes = s.StateSize()
	s.Stats.DecodeSeconds += time.Since(start).Seconds()
	return pieces, running, nil
}

// advance reads the pending id of a batch of one sequence, and drafts of the ids after it.
func (s *Batch) advance(ctx context.Context, w *Writer) error {
	id := s.pending[0]
	s.pending[0] = none
	if s.Take(id) {
		return nil
	}
	guess, err := w.Draft(ctx, s, s.Room())
	if err == nil {
		err = Feed(ctx, Part{Batch: s, IDs: append([]int32{id}, guess...), Drawn: true, Drafts: len(guess)})
	}
	if err != nil {
		s.pending[0] = id
	}
	return err
}

func (s *Batch) writers(tok tokenizer.Tokenizer, prompt []int32, o Options) ([]*Writer, error) {
	var out []*Writer
	for i := range s.states {
		opt := o
		opt.Seed += uint64(i)
		w, err := NewWriter(tok, prompt, opt)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

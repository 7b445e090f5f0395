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

// Options say how to continue a text.
type Options struct {
	sample.Options
	MaxTokens int      `json:"max_tokens" min:"1" help:"tokens of each continuation"`
	Stop      []string `json:"stop" help:"text before which a continuation ends; it is not part of the output"`
	IgnoreEnd bool     `json:"ignore_end" help:"go on after the end-of-text token"`
	// EndIDs end a text as the end-of-text token does, such as the token after each message of a chat.
	EndIDs []int32 `json:"-"`
	// StopIDs end a text, too, even with IgnoreEnd.
	StopIDs []int32 `json:"-"`
	// MinTokens are drawn before a token or a stop string may end a text.
	MinTokens int `json:"-"`
	// Constraint, unless it is nil, says what may be written. A text then ends where it says so, by a token that ends
	// texts or, where nothing may follow, without one.
	Constraint *constrain.Constraint `json:"-"`
	// BadWords, unless it is nil, are texts that no tokens may spell.
	BadWords *constrain.Words `json:"-"`
	// AllowedIDs, unless there are none, are the only tokens that may be drawn, those that end a text among them.
	AllowedIDs []int32 `json:"-"`
	// Decoder, unless it is nil, makes texts of tokens in place of the tokenizer: see tokenizer.WithoutSpecial.
	Decoder tokenizer.Tokenizer `json:"-"`
	// IncludeStop makes the stop string that ends a text a part of it.
	IncludeStop bool `json:"-"`
	// Draft, unless it is nil, makes a Drafter for each text: NGrams, or what ModelDrafts returns. It makes a text that
	// can be guessed faster, and changes nothing else. Texts that are written together are not guessed.
	Draft Drafts `json:"-"`
}

// DefaultOptions are 200 tokens at temperature 0.8 among the 40 most probable.
func DefaultOptions() Options {
	return Options{Options: sample.Options{Temperature: 0.8, TopK: 40, RepetitionWindow: 256}, MaxTokens: 200}
}

// Why a sequence ended.
const (
	EndLength = "length" // MaxTokens
	EndStop   = "stop"   // a stop string
	EndText   = "eot"    // the end-of-text token, or one of EndIDs or StopIDs
	EndWhole  = "whole"  // the text is whole: its Constraint has nothing that may follow
)

// Piece is a piece of text of one sequence: whole UTF-8 characters, and never a part of a stop string.
type Piece struct {
	Sample int
	Text   []byte  // valid until the next piece
	IDs    []int32 // the tokens drawn since the sequence's last piece
	End    string  // why the sequence ended, "" while it continues; set in the last piece of every sequence
}

// Stats are the speeds of a batch.
type Stats struct {
	PrefillTokens  int     `json:"prefill_tokens"`
	PrefillSeconds float64 `json:"prefill_seconds"`
	DecodeTokens   int     `json:"decode_tokens"` // of all sequences
	DecodeSeconds  float64 `json:"decode_seconds"`
	StateBytes     int     `json:"state_bytes"`
	DraftedTokens  int     `json:"drafted_tokens,omitempty"`  // that were guessed
	AcceptedTokens int     `json:"accepted_tokens,omitempty"` // of them, those that were drawn
}

// PrefillSpeed returns the tokens read in a second.
func (s Stats) PrefillSpeed() float64 { return rate(s.PrefillTokens, s.PrefillSeconds) }

// DecodeSpeed returns the tokens written in a second.
func (s Stats) DecodeSpeed() float64 { return rate(s.DecodeTokens, s.DecodeSeconds) }

func rate(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// Generate continues every sequence of the batch after the ids fed so far. It draws with seed, seed+1, ... for
// sequences 0, 1, ... It yields text as soon as it is certain, and ends when all sequences have ended, after an error,
// or when ctx is done (with its error). prompt holds the ids that were fed, for the repetition penalty; it may be nil.
// Afterwards the batch is positioned after all drawn tokens, including those of pieces that were not consumed, and can
// be fed or continued. A sequence that ends leaves the batch: it costs nothing while the others continue, and is then
// at a position of its own (see Batch.PositionOf).
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

// draw draws the next token of every sequence that has not ended and returns the text that has become certain by it.
// running says whether any sequence continues.
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
		if stepped { // the first token comes from the logits of the prompt
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

// advance reads the pending id of a batch of one sequence, and a guess of what follows it.
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

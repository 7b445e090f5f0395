package generate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Writer samples the ids of one sequence and turns them into text: whole characters, and never a part of a stop string.
// It must be used by one goroutine at a time.
type Writer struct {
	options Options
	tok     tokenizer.Tokenizer
	sampler *sample.Sampler
	decoder *tokenizer.StreamDecoder
	stop    *sample.StopMatcher
	history []int32
	ends    []int32             // tokens that end a text
	fresh   []int32             // ids sampled since the last piece
	text    *constrain.Text     // state of the constraint; nil for none
	words   *constrain.Spelling // state of the bad words; nil for none
	masked  []float32           // the logits with excluded tokens at -Inf
	tokens  int
	end     string

	drafting *drafting // nil for none
}

// ErrNothing reports that the options together exclude every token at some position of a text.
var ErrNothing = errors.New("generate: found no token that may follow, want a constraint, allowed ids, bad words and " +
	"a minimum of tokens that leave one")

// NewWriter returns a writer that has sampled nothing yet. history holds the ids before the reply, for the repetition
// penalty.
func NewWriter(tok tokenizer.Tokenizer, history []int32, o Options) (*Writer, error) {
	if o.MaxTokens < 1 {
		return nil, fmt.Errorf("generate: max_tokens: found %d, want at least 1", o.MaxTokens)
	}
	if o.DRY.Decode == nil && tok != nil {
		o.DRY.Decode = tok.Decode
	}
	sampler, err := sample.New(o.Options)
	if err != nil {
		return nil, err
	}
	stop, err := sample.NewStopMatcher(o.Stop...)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		options: o, tok: tok, sampler: sampler, stop: stop, decoder: tokenizer.NewStreamDecoder(o.decoder(tok)),
		history: slices.Clone(history), ends: endsOf(tok, &o), drafting: newDrafting(o.Draft),
	}
	if o.Constraint != nil {
		w.text = o.Constraint.Start()
	}
	if o.BadWords != nil {
		w.words = o.BadWords.Start()
	}
	return w, nil
}

// decoder returns the tokenizer that decodes tokens.
func (o *Options) decoder(tok tokenizer.Tokenizer) tokenizer.Tokenizer {
	if o.Decoder != nil {
		return o.Decoder
	}
	return tok
}

// Next samples the next id from its logits and returns the text that has thereby become certain. The text is valid
// until the next call. Next must not be called after the sequence has ended (see End).
func (w *Writer) Next(logits []float32) (text []byte, id int32, err error) {
	may, err := w.allowed(logits)
	if err != nil {
		return nil, 0, err
	}
	if id, err = w.sampler.Next(may, w.history); errors.Is(err, sample.ErrLogits) {
		if _, own := sample.Best(logits); own == nil {
			return nil, 0, ErrNothing
		}
	}
	if err != nil {
		return nil, 0, err
	}
	w.tokens++
	w.fresh = append(w.fresh, id)
	if w.drafting != nil {
		w.drafting.drawn(id)
	}
	if slices.Contains(w.ends, id) {
		w.end = EndText
		return w.flush(nil), id, nil
	}
	w.history = append(w.history, id)
	if w.words != nil {
		w.words.Accept(id)
	}
	whole := false
	if w.text != nil {
		if err := w.text.Accept(id); err != nil {
			return nil, 0, err
		}
		whole = w.text.Whole()
	}
	text, stopped := w.decoder.Write(id), false
	if w.tokens > w.options.MinTokens {
		text, stopped = w.stop.Push(text)
	}
	switch {
	case stopped:
		w.end = EndStop
		return w.included(text), id, nil
	case whole:
		w.end = EndWhole
		return w.flush(slices.Clone(text)), id, nil
	case w.tokens >= w.options.MaxTokens:
		w.end = EndLength
		return w.flush(slices.Clone(text)), id, nil
	}
	return text, id, nil
}

// included returns text, the last of a sequence that a stop string has ended, with the stop string if it is to be
// included.
func (w *Writer) included(text []byte) []byte {
	if !w.options.IncludeStop {
		return text
	}
	return append(slices.Clone(text), w.stop.Stop()...)
}

// Draft returns guesses of up to n ids that Next will return next, or none without Options.Draft. s has read all ids so
// far except the last.
func (w *Writer) Draft(ctx context.Context, s *Batch, n int) ([]int32, error) {
	if w.drafting == nil || w.end != "" {
		return nil, nil
	}
	return w.drafting.next(ctx, s, w.history, min(n, w.options.MaxTokens-w.tokens-1))
}

// Drafted returns how many ids were guessed, and how many of these were sampled.
func (w *Writer) Drafted() (drafted, accepted int) {
	if w.drafting == nil {
		return 0, 0
	}
	return w.drafting.drafted, w.drafting.accepted
}

// endsOf returns the tokens that end a text.
func endsOf(tok tokenizer.Tokenizer, o *Options) []int32 {
	ids := slices.Clone(o.StopIDs)
	if o.IgnoreEnd {
		return ids
	}
	if tok != nil {
		if end, ok := tok.EndOfText(); ok {
			ids = append(ids, end)
		}
	}
	return append(ids, o.EndIDs...)
}

// allowed returns the logits with those of excluded tokens set to -Inf. It returns logits itself unless there is a
// constraint, there are bad words or allowed ids, or the text is too short to end.
func (w *Writer) allowed(logits []float32) ([]float32, error) {
	short := w.tokens < w.options.MinTokens
	if w.text == nil && w.words == nil && w.options.AllowedIDs == nil && !short {
		return logits, nil
	}
	w.masked = append(w.masked[:0], logits...)
	if w.text != nil {
		if err := w.text.Mask(w.masked); err != nil {
			return nil, err
		}
	}
	for _, id := range w.ends {
		switch {
		case id < 0 || int(id) >= len(logits):
		case short:
			w.masked[id] = float32(math.Inf(-1))
		case w.text != nil && w.text.Ends():
			w.masked[id] = logits[id]
		}
	}
	if w.words != nil {
		w.words.Exclude(w.masked)
	}
	if w.options.AllowedIDs != nil {
		w.only(w.options.AllowedIDs)
	}
	return w.masked, nil
}

// only excludes all tokens except ids.
func (w *Writer) only(ids []int32) {
	kept := make([]float32, len(ids))
	for i, id := range ids {
		kept[i] = w.masked[id]
	}
	for i := range w.masked {
		w.masked[i] = float32(math.Inf(-1))
	}
	for i, id := range ids {
		w.masked[id] = kept[i]
	}
}

// flush appends the text that the decoder and the stop matcher still hold back.
func (w *Writer) flush(text []byte) []byte {
	more, stopped := w.stop.Push(w.decoder.Flush())
	text = append(text, more...)
	if stopped {
		w.end = EndStop
		return w.included(text)
	}
	return append(text, w.stop.Flush()...)
}

// End returns the reason why the sequence has ended, or "" while it continues.
func (w *Writer) End() string { return w.end }

// Stopped returns the stop string that has ended the sequence, or "".
func (w *Writer) Stopped() string { return w.stop.Stop() }

// Fresh returns the ids sampled since its last call.
func (w *Writer) Fresh() []int32 {
	ids := w.fresh
	w.fresh = nil
	return ids
}

// WriterState is the state that a Writer keeps from one id to the next, in addition to the ids themselves.
type WriterState struct {
	Tokens  int     `json:"tokens"`            // number of ids sampled so far
	Random  []byte  `json:"random"`            // state of the random number generator
	Partial []byte  `json:"partial,omitempty"` // bytes of an incomplete character
	Held    []byte  `json:"held,omitempty"`    // text held back because it may start a stop string
	Fresh   []int32 `json:"fresh,omitempty"`   // ids sampled since the last call of Fresh
}

// State returns the state of a writer whose sequence has not ended, for Restore.
func (w *Writer) State() WriterState {
	return WriterState{
		Tokens: w.tokens, Random: w.sampler.State(), Partial: w.decoder.Pending(), Held: w.stop.Held(),
		Fresh: slices.Clone(w.fresh),
	}
}

// Restore sets a new writer to the state that State returned. The new writer must have the same options, and the ids so
// far as its history.
func (w *Writer) Restore(s WriterState) error {
	if s.Tokens < 0 || s.Tokens >= w.options.MaxTokens || len(s.Fresh) > s.Tokens {
		return fmt.Errorf("generate: state of a writer: found %d tokens, %d of them fresh, want fewer than %d",
			s.Tokens, len(s.Fresh), w.options.MaxTokens)
	}
	if err := w.sampler.Restore(s.Random); err != nil {
		return err
	}
	if err := w.decoder.Restore(s.Partial); err != nil {
		return err
	}
	if text, stopped := w.stop.Push(s.Held); stopped || len(text) > 0 {
		return fmt.Errorf("generate: state of a writer: found %q held back, want the beginning of a stop string",
			s.Held)
	}
	w.tokens, w.fresh = s.Tokens, slices.Clone(s.Fresh)
	drawn := w.history[max(0, len(w.history)-s.Tokens):]
	w.sampler.Count(drawn...)
	if w.words != nil {
		for _, id := range drawn {
			w.words.Accept(id)
		}
	}
	if w.text != nil {
		for _, id := range drawn {
			if err := w.text.Accept(id); err != nil {
				return fmt.Errorf("generate: state of a writer: %w", err)
			}
		}
	}
	return nil
}

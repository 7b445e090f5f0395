package text

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// EvalOptions define how Evaluate reads the text.
type EvalOptions struct {
	SeqLen    int  // tokens of a window or, with Stream, of a chunk
	BatchSize int  // windows computed together; 1 with Stream
	Stream    bool // carry the state from chunk to chunk, so that each token sees all text before it
	Chunk     int  // tokens of a window held at once, with the states passed on; 0 for all
	Keep      int  // with Stream: positions before the chunk that attention sees; 0 for all, at a growing cost
	Positions int  // without Stream: also report losses by position, up to this one, up to twice that, and so on; 0: no
	Progress  func(done, total int)

	tape *autograd.Tape
}

// EvalResult describes how well a model predicts a text.
type EvalResult struct {
	Loss       float64 `json:"loss"`          // nats per token
	Perplexity float64 `json:"perplexity"`    // e^loss
	BitsByte   float64 `json:"bits_per_byte"` // loss·tokens/(ln 2·bytes)
	Tokens     int     `json:"tokens"`        // number of predicted tokens
	Bytes      int64   `json:"bytes"`         // bytes of text of the predicted tokens
	Seconds    float64 `json:"seconds"`

	ByPosition []PositionLoss `json:"by_position,omitempty"` // if requested
}

// PerWord returns the perplexity per word, e^(loss·tokens/words), given the number of words of the text. It allows
// comparing models of different tokenizers.
func (r EvalResult) PerWord(words int) float64 {
	return math.Exp(r.Loss * float64(r.Tokens) / float64(max(1, words)))
}

// Evaluate measures the mean cross-entropy of a model on tokens. Every token but the first is predicted once, from the
// tokens before it in its window or, with Stream, from all tokens before it.
func Evaluate(ctx context.Context, m *model.Model, tokens *data.Tokens, o EvalOptions) (EvalResult, error) {
	start := time.Now()
	if o.Stream {
		o.BatchSize = 1
	}
	if err := fits(m, o.SeqLen, o.Stream); err != nil {
		return EvalResult{}, fmt.Errorf("sequence length: %w", err)
	}
	windows, err := data.Windows(tokens, o.BatchSize, o.SeqLen)
	if err != nil {
		return EvalResult{}, err
	}
	t := o.tape
	if t == nil {
		t = m.NewTape()
	}
	train.ForMeasuring(t)
	var state *model.State
	if o.Stream {
		state = m.NewState()
	}
	sum, count := 0.0, 0
	positions := positionLosses{first: o.Positions}
	for w, err := range windows {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return EvalResult{}, err
		}
		t.Reset()
		var mean float64
		if o.Chunk > 0 && o.Chunk < w.Len && !o.Stream {
			mean = windowChunks(t, m, w, o.Chunk)
		} else {
			rows := &model.Rows{}
			for _, borders := range w.Borders {
				state = rows.AddDocuments(m, w.Len, borders, state)
			}
			hidden := m.Forward(t, w.Inputs, rows)
			if o.Positions > 0 {
				mean = positions.add(t, m, hidden, w)
			} else {
				mean = m.Loss(t, hidden, w.Targets).Value()
			}
		}
		if o.Stream && o.Keep > 0 {
			state.Keep(o.Keep)
		}
		n := countAsked(w.Targets)
		sum, count = sum+mean*float64(n), count+n
		if o.Progress != nil {
			o.Progress(w.Start+len(w.Targets), tokens.Len()-1)
		}
	}
	_, bytes, err := tokens.Targets()
	if err != nil {
		return EvalResult{}, err
	}
	if count == 0 {
		return EvalResult{}, fmt.Errorf(
			"found nothing in %d tokens that counts, want a reply, or documents of two tokens", tokens.Len())
	}
	r := EvalResult{Loss: sum / float64(count), Tokens: count, Bytes: bytes, Seconds: time.Since(start).Seconds(),
		ByPosition: positions.losses()}
	r.Perplexity = math.Exp(r.Loss)
	if r.Bytes > 0 {
		r.BitsByte = sum / math.Ln2 / float64(r.Bytes)
	}
	return r, nil
}

// fits returns an error if a model of limited length cannot process sequences of seqLen tokens or, if endless is true,
// of any length.
func fits(m *model.Model, seqLen int, endless bool) error {
	most := m.MaxLength()
	switch {
	case most == 0 || seqLen <= most && !endless:
		return nil
	case endless:
		return fmt.Errorf("the text has no end, but the model takes at most %d tokens", most)
	}
	return fmt.Errorf("found %d, but the model takes at most %d tokens", seqLen, most)
}

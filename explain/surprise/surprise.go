// Package surprise measures how well a model predicts a text, token by token: the loss, the worst passages, and
// calibration as in arXiv:1706.04599.
package surprise

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/explain"
)

// Options say how a text is read.
type Options struct {
	SeqLen int  // tokens of a window or, with Stream, of a piece
	Stream bool // carry the state through the whole text, in place of windows that begin from an empty one
	Bins   int  // of the calibration
	// Passage is how many tokens a passage has, and Worst how many of the worst predicted ones are kept.
	Passage, Worst int
	Progress       func(done, total int)
}

// DefaultOptions are windows of 1,024 tokens, 15 bins as in arXiv:1706.04599, and 10 passages of 32 tokens.
func DefaultOptions() Options {
	return Options{SeqLen: 1024, Bins: 15, Passage: 32, Worst: 10}
}

// Report is how a model predicts a text. A surprise is -log p of the token that came, in nats.
type Report struct {
	Options Options
	Tokens  int     // predicted: all but the first
	Bytes   int64   // of text that they stand for
	Sum     float64 // of the surprises; Sum/Tokens is the loss of hippo eval
	Entropy float64 // the sum of the entropies: what the model expected Sum to be
	Right   int     // tokens that were the most probable
	// Bins are the calibration by the probability of the most probable token, over equal parts of 0 to 1.
	Bins []CalibrationBin
	// ECE is the expected calibration error of "On Calibration of Modern Neural Networks" (arXiv:1706.04599, eq. 3;
	// Naeini et al. 2015): Σ_m |B_m|/n · |acc(B_m) - conf(B_m)|. MCE is the largest |acc - conf| of a bin (eq. 5).
	ECE, MCE float64
	// Curve are means over equal parts of the text, at most curvePlaces of them, of CurveStep tokens each, NaN where
	// none of these is predicted.
	Curve     []Part
	CurveStep int
	// Histogram counts surprises by halves of a nat; the last counts all larger ones.
	Histogram []int
	First     []Token   // the first tokens of the text
	Passages  []Passage // the worst predicted, the worst first; none overlaps another
	Costly    []CostlyToken
}

// CalibrationBin counts predictions of about one confidence.
type CalibrationBin struct {
	Count      int
	Confidence float64 // the mean probability of the most probable token
	Accuracy   float64 // the part of them that came
}

// Part is a part of the text.
type Part struct {
	Start         int // its first predicted token
	Mean, Entropy float64
	Most          float64 // the largest surprise
}

// Token is one predicted token.
type Token struct {
	ID      int32
	Nats    float64 // NaN for a token that is not predicted, or was not kept
	Entropy float64
	Top     explain.Likely // the most probable
}

// Passage is a place in the text.
type Passage struct {
	Start  int     // the number of its first token
	Mean   float64 // of its surprises
	Tokens []Token
	Before []int32 // tokens before it
	After  []int32
}

// CostlyToken is a token of the vocabulary with the surprises of all its occurrences.
type CostlyToken struct {
	ID    int32
	Count int
	Sum   float64
}

const (
	curvePlaces    = 512
	histogramSize  = 41
	firstKept      = 1024
	passageContext = 24
	costlyKept     = 20
)

// ErrNoLanguage is the error of a network where only a language model will do.
var ErrNoLanguage = errors.New(
	"found the network of a task, which has neither tokenizer nor text; want a language model")

// Measure measures how a model predicts tokens, in the windows of train.Evaluate. Its memory does not grow with the
// text. Errors: a network of a task, options that cannot be, a text of one token, scores that are not finite,
// cancellation.
func Measure(ctx context.Context, g *explain.Language, tokens *data.Tokens, o Options) (*Report,
	error) {
	if g.Model == nil {
		return nil, ErrNoLanguage
	}
	switch {
	case o.SeqLen < 1:
		return nil, fmt.Errorf("seq_len: found %d, want at least 1", o.SeqLen)
	case o.Bins < 1 || o.Bins > 1000:
		return nil, fmt.Errorf("bins: found %d, want 1 to 1000", o.Bins)
	case o.Passage < 1 || o.Passage > 4096:
		return nil, fmt.Errorf("passage: found %d tokens, want 1 to 4096", o.Passage)
	case o.Worst < 0 || o.Worst > 1000:
		return nil, fmt.Errorf("worst: found %d passages, want 0 to 1000", o.Worst)
	case o.Stream && g.MaxLength() > 0:
		return nil, fmt.Errorf("stream: the model takes at most %d tokens", g.MaxLength())
	case g.MaxLength() > 0 && o.SeqLen > g.MaxLength():
		return nil, fmt.Errorf("seq_len: found %d, but the model takes at most %d tokens", o.SeqLen, g.MaxLength())
	case tokens.VocabSize() > g.Model.Config.PaddedVocab():
		return nil, fmt.Errorf("found tokens up to %d, want them below the model's %d", tokens.VocabSize()-1,
			g.Model.Config.PaddedVocab())
	}
	windows, err := data.Windows(tokens, 1, o.SeqLen)
	if err != nil {
		return nil, err
	}
	s := newSurpriser(g, tokens, o)
	for w, err := range windows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = s.window(w)
		}
		if err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(s.at, tokens.Len()-1)
		}
	}
	return s.rep, s.done()
}

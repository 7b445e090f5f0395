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

// Options specifies how a text is read.
type Options struct {
	SeqLen int  // tokens of a window or, with Stream, of a piece
	Stream bool // carry the state through the whole text instead of starting each window from an empty one
	Bins   int  // bins of the calibration
	// Passage is the number of tokens in a passage, and Worst the number of the worst predicted passages to keep.
	Passage, Worst int
	Progress       func(done, total int)
}

// DefaultOptions returns windows of 1,024 tokens, 15 bins as in arXiv:1706.04599, and 10 passages of 32 tokens.
func DefaultOptions() Options {
	return Options{SeqLen: 1024, Bins: 15, Passage: 32, Worst: 10}
}

// Report describes how well a model predicts a text. A surprise is -log p of the token that came next, in nats.
type Report struct {
	Options Options
	Tokens  int     // number of predicted tokens: all but the first
	Bytes   int64   // bytes of text that they represent
	Sum     float64 // of the surprises; Sum/Tokens is the loss of hippo eval
	Entropy float64 // sum of the entropies: the value of Sum that the model expected
	Right   int     // number of tokens that were the most probable
	// Bins holds the calibration by the probability of the most probable token, in equal intervals of 0 to 1.
	Bins []CalibrationBin
	// ECE is the expected calibration error of "On Calibration of Modern Neural Networks" (arXiv:1706.04599, eq. 3;
	// Naeini et al. 2015): Σ_m |B_m|/n · |acc(B_m) - conf(B_m)|. MCE is the largest |acc - conf| of a bin (eq. 5).
	ECE, MCE float64
	// Curve holds means over equal parts of the text, at most curvePlaces of them, with CurveStep tokens each. They are
	// NaN if no token of the part is predicted.
	Curve     []Part
	CurveStep int
	// Histogram counts surprises in intervals of half a nat. The last one counts all larger surprises.
	Histogram []int
	First     []Token   // the first tokens of the text
	Passages  []Passage // the worst predicted passages, the worst first, without overlap
	Costly    []CostlyToken
}

// CalibrationBin counts predictions of similar confidence.
type CalibrationBin struct {
	Count      int
	Confidence float64 // mean probability of the most probable token
	Accuracy   float64 // share of predictions that were right
}

// Part is a part of the text.
type Part struct {
	Start         int // number of its first predicted token
	Mean, Entropy float64
	Most          float64 // largest surprise
}

// Token is one predicted token.
type Token struct {
	ID      int32
	Nats    float64 // NaN for a token that is not predicted, or was not kept
	Entropy float64
	Top     explain.Likely // most probable token
}

// Passage is a part of the text.
type Passage struct {
	Start  int     // number of its first token
	Mean   float64 // mean surprise
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

// ErrNoLanguage reports that a language model is required, not a network of a task.
var ErrNoLanguage = errors.New(
	"found the network of a task, which has neither tokenizer nor text; want a language model")

// Measure measures how well a model predicts tokens, in the windows of train.Evaluate. Its memory does not grow with
// the text. It returns an error for a network of a task, invalid options, a text of one token, scores that are not
// finite, and if ctx is done.
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

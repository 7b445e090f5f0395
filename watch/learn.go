package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train/text"
)

// LearnOptions configure how the model learns from the lines that it reads. A round trains a copy of the model in the
// background on the last lines that raised no alarm. It needs memory for training the copy and for Tokens ids of each
// stream.
type LearnOptions struct {
	// Every is the number of lines, of all streams together, between the starts of two rounds; 0 for no learning. The
	// result of a round is always adopted when the next one starts, however early the round finished. So the same lines
	// give the same bits.
	Every int
	// Tokens is the number of tokens of each stream that a round uses. The last fifth of them is held out: the copy is
	// adopted only if it predicts that part better than the model does.
	Tokens int
	Steps  int // updates of a round
	LR     float64
	// Time is a safety limit for the duration of a round. A round that takes longer is dropped.
	Time time.Duration
}

// learnBatch and learnSeqLen are the shape of an update. rereadTokens is the number of recent tokens that a new model
// reads before it continues.
const (
	learnBatch   = 4
	learnSeqLen  = 256
	rereadTokens = 4096
	apart        = 5 // one in apart tokens is held out
)

// DefaultLearnOptions returns options for short rounds. Without Every there is no learning.
func DefaultLearnOptions() LearnOptions {
	return LearnOptions{Tokens: 1 << 16, Steps: 40, LR: 5e-4, Time: time.Minute}
}

func (o *LearnOptions) validate() error {
	const least = 8 * apart * learnSeqLen
	switch {
	case o.Every < 0:
		return fmt.Errorf("watch: learn: found %d lines, want 0 for never, or more", o.Every)
	case o.Every == 0:
		return nil
	case o.Tokens < least || o.Tokens > 1<<24:
		return fmt.Errorf("watch: tokens to learn from: found %d, want %d to %d", o.Tokens, least, 1<<24)
	case o.Steps < 1 || o.Steps > 1e6:
		return fmt.Errorf("watch: updates of a round: found %d, want 1 to 1e6", o.Steps)
	case !(o.LR > 0 && o.LR <= 1):
		return fmt.Errorf("watch: learning rate: found %g, want a number above 0, at most 1", o.LR)
	case o.Time <= 0:
		return fmt.Errorf("watch: time of a round: found %v, want more than 0", o.Time)
	}
	return nil
}

// Learnt counts learning rounds by their result.
type Learnt struct {
	Kept   int64 `json:"kept"`   // the copy was better and became the model
	Worse  int64 `json:"worse"`  // the copy was not better
	Failed int64 `json:"failed"` // a number was not finite, or the round took too long
	// Before and After are the losses before and after the last finished round, in bits per token of the held-out part.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// learner runs learning rounds in the background.
type learner struct {
	o       LearnOptions
	tok     tokenizer.Tokenizer
	since   int // lines since the last round started
	rounds  uint64
	running chan outcome // receives the result of the current round; nil for none
	end     context.CancelFunc
	learnt  Learnt
}

type outcome struct {
	*text.Tuned
	err error
}

func newLearner(m *model.Model, tok tokenizer.Tokenizer, o LearnOptions) (*learner, error) {
	if most := m.MaxLength(); most > 0 && most < learnSeqLen {
		return nil, fmt.Errorf("watch: learn: found a model of at most %d tokens, want %d or more", most, learnSeqLen)
	}
	if err := text.Trainable(m); err != nil {
		return nil, fmt.Errorf("watch: learn: %w", err)
	}
	return &learner{o: o, tok: tok}, nil
}

// Learnt returns the results of the learning rounds so far.
func (w *Watcher) Learnt() Learnt {
	if w.learner == nil {
		return Learnt{}
	}
	return w.learner.learnt
}

// Close stops a learning round that is running.
func (w *Watcher) Close() {
	if w.learner != nil {
		w.learner.stop()
	}
}

func (l *learner) stop() {
	if l.running != nil {
		l.end()
		<-l.running
		l.running = nil
	}
}

// remember appends the ids of the current line to recent. Of earlier lines, recent keeps at least the last most ids.
func (s *Stream) remember(most int) {
	s.recent = append(s.recent, s.ids...)
	if len(s.recent) > 2*most {
		s.recent = s.recent[:copy(s.recent, s.recent[len(s.recent)-most:])]
	}
}

// learn counts lines. If a round is due, learn waits for the previous one, adopts its result, and starts the next one.
func (w *Watcher) learn(ctx context.Context, lines int) error {
	l := w.learner
	if l.since += lines; l.since < l.o.Every {
		return nil
	}
	l.since = 0
	if l.running != nil {
		var r outcome
		select {
		case r = <-l.running:
		case <-ctx.Done():
			return ctx.Err()
		}
		l.running = nil
		l.end()
		if err := w.take(r); err != nil {
			return err
		}
	}
	var tokens, valid []int32
	for _, s := range w.streams {
		recent := s.recent[max(0, len(s.recent)-l.o.Tokens):]
		cut := len(recent) - len(recent)/apart
		tokens, valid = append(tokens, recent[:cut]...), append(valid, recent[cut:]...)
	}
	if len(valid) < learnSeqLen || len(tokens) < learnBatch*learnSeqLen {
		return nil
	}
	within, end := context.WithTimeout(context.WithoutCancel(ctx), l.o.Time)
	l.end, l.running = end, make(chan outcome, 1)
	l.rounds++
	o := text.TuneOptions{Steps: l.o.Steps, BatchSize: learnBatch, SeqLen: learnSeqLen, LR: l.o.LR, Seed: l.rounds}
	go func(m *model.Model, to chan<- outcome) {
		r, err := text.Tune(within, m, l.tok, tokens, valid, o)
		to <- outcome{r, err}
	}(w.model, l.running)
	return nil
}

// take adopts the result of a round if it is better. The new model first reads the last lines of each stream, after
// which the stream continues.
func (w *Watcher) take(r outcome) error {
	l := &w.learner.learnt
	const bits = 1.4426950408889634 // bits per nat
	switch {
	case r.err != nil:
		l.Failed++
		return nil
	case !(r.After < r.Before):
		l.Worse++
		l.Before, l.After = bits*r.Before, bits*r.After
		return nil
	}
	l.Kept++
	l.Before, l.After = bits*r.Before, bits*r.After
	if err := w.use(r.Model); err != nil {
		return err
	}
	for _, s := range w.streams {
		if s.batch == nil {
			continue
		}
		s.batch = w.start.Session(w.model)
		again := s.recent[max(0, len(s.recent)-rereadTokens):]
		if most := w.model.MaxLength(); most > 0 {
			again = again[max(0, len(again)-most/2):]
		}
		if len(again) == 0 {
			continue
		}
		err := generate.Feed(context.Background(), generate.Part{Batch: s.batch, IDs: again})
		if err != nil {
			return fmt.Errorf("watch: after learning: %w", err)
		}
	}
	return nil
}

// Package watch reads streams of lines, such as logs, and measures how surprising each line is to a language model that
// has read all lines before it. It imports the model, its batches and its training (train/text).
//
// A Watcher holds the model and, for each Stream, a recurrent state of constant size. The newline at the end of a line
// is part of the line. It tells the model that the next line begins. The surprise of a line is the sum of the surprise
// of its tokens, -Σ log2 p(token | all lines before, the tokens before it). Thresholds follow the scores of recent
// lines (Quantiles), so that a chosen fraction of the lines raises an alarm.
//
// A line is read in one piece, however it arrives (see generate.Batch). So the same lines give the same bits one at a
// time, in bulk, together with other streams, and after Encode and Restore.
package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Options configure a Watcher. Start with DefaultOptions.
type Options struct {
	// Rate is the desired fraction of lines that raise an alarm.
	Rate float64
	// HalfLife is the number of lines after which a score counts half as much for the threshold.
	HalfLife int
	// Score is the kind of score that is compared with the threshold: peak (see the function peak), excess (total bits
	// above the expected ones), bits, or bits_per_byte.
	Score string
	// Reset is the number of lines after which the state of a stream is reset, 0 for never.
	Reset int
	// Keep is the number of previous tokens whose keys and values are kept for attention layers.
	Keep int
	// Ignore matches text whose tokens do not count in peak and excess scores, for example times. nil matches nothing.
	Ignore *regexp.Regexp
	// Ranges fills Report.Ranges for all lines, not only for alarms.
	Ranges bool
	Learn  LearnOptions
}

// DefaultOptions returns options for 1 alarm in 1,000 lines and a half-life of 20,000 lines.
func DefaultOptions() Options {
	return Options{Rate: 1e-3, HalfLife: 20_000, Score: ScorePeak, Keep: 1024, Learn: DefaultLearnOptions()}
}

// scoring describes how scores are computed. A threshold applies only to scores with the same description.
func (o *Options) scoring() string {
	text := o.Score
	if o.Reset > 0 {
		text += fmt.Sprintf(", state of %d lines", o.Reset)
	}
	if o.Ignore != nil {
		text += fmt.Sprintf(", without %s", o.Ignore)
	}
	return text
}

// validate returns an error that names an option out of range.
func (o *Options) validate() error {
	switch {
	case !(o.Rate > 0 && o.Rate < 1):
		return fmt.Errorf("watch: rate: found %g, want a number above 0 and below 1", o.Rate)
	case o.HalfLife < 100 || o.HalfLife > 1e9: // thresholds need 100 lines
		return fmt.Errorf("watch: half-life: found %d lines, want 100 to 1e9", o.HalfLife)
	case !slices.Contains(Scores, o.Score):
		return fmt.Errorf("watch: score: found %q, want one of %q", o.Score, Scores)
	case o.Reset < 0:
		return fmt.Errorf("watch: reset: found %d lines, want 0 for never, or more", o.Reset)
	case o.Keep < 1:
		return fmt.Errorf("watch: keep: found %d tokens, want 1 or more", o.Keep)
	}
	return o.Learn.validate()
}

// Watcher reads the lines of streams with one model. It must be used by one goroutine at a time.
type Watcher struct {
	model   *model.Model
	tok     tokenizer.Tokenizer
	o       Options
	newline []int32
	start   *session.Snapshot // after a newline, before the first line
	prior   *Quantiles        // initial scores of new streams; nil for none
	streams []*Stream
	learner *learner
}

// New returns a watcher without streams. prior holds the scores with which streams start, as Calibrate returns them, or
// is nil.
func New(m *model.Model, tok tokenizer.Tokenizer, prior *Quantiles, o Options) (*Watcher, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w := &Watcher{tok: tok, o: o, prior: prior}
	var err error
	if w.newline, err = tok.Encode(nil, []byte("\n")); err != nil || len(w.newline) == 0 {
		return nil, fmt.Errorf("watch: found a tokenizer, %s, without a newline, want one that has it", tok.Kind())
	}
	if most := m.MaxLength(); most > 0 && most < 4*len(w.newline) {
		return nil, fmt.Errorf("watch: found a model of at most %d tokens, want more", most)
	}
	if o.Learn.Every > 0 {
		if w.learner, err = newLearner(m, tok, o.Learn); err != nil {
			return nil, err
		}
	}
	return w, w.use(m)
}

// use sets the model to m. It does not change the states of the streams.
func (w *Watcher) use(m *model.Model) error {
	b := generate.NewBatch(m, 1)
	b.Chunk = session.Chunk(m)
	if err := b.Feed(context.Background(), w.newline); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	w.model, w.start = m, session.Take(b)
	return nil
}

// Model returns the current model: the one passed to New, or the last one that a learning round replaced it by.
func (w *Watcher) Model() *model.Model { return w.model }

// Stream is one sequence of lines, from a file or a pipe.
type Stream struct {
	Name string
	Counts
	// Place is the position of the stream in its file.
	Place Place

	since  int // lines since the state was reset
	batch  *generate.Batch
	scores *Quantiles
	recent []int32 // ids of the last lines that raised no alarm, for learning

	ids    []int32 // of the current line
	tokens []token
}

// Counts holds totals over the lines of a stream.
type Counts struct {
	Lines      int64   `json:"lines"`
	Bytes      int64   `json:"bytes"`
	Bits       float64 `json:"bits"`
	Alarms     int64   `json:"alarms"`
	Cut        int64   `json:"cut"`        // bytes of long lines that were not read
	Unreadable int64   `json:"unreadable"` // lines that the tokenizer cannot encode
	Restarts   int64   `json:"restarts"`   // resets of the state because it was no longer finite
}

// Stream returns the stream with a name. It creates the stream if it does not exist.
func (w *Watcher) Stream(name string) *Stream {
	for _, s := range w.streams {
		if s.Name == name {
			return s
		}
	}
	s := &Stream{Name: name, scores: NewQuantiles(w.o.HalfLife)}
	if w.prior != nil {
		s.scores = w.prior.copy(w.o.HalfLife)
	}
	w.streams = append(w.streams, s)
	return s
}

// Streams returns all streams, in the order of creation.
func (w *Watcher) Streams() []*Stream { return w.streams }

// Threshold returns the score above which the next line raises an alarm, +Inf while too few lines have been read.
func (w *Watcher) Threshold(s *Stream) float64 { return s.scores.Threshold(w.o.Rate) }

// Line is a line of a stream.
type Line struct {
	Stream *Stream
	Text   []byte // with its newline, unless the stream ended without one
	Cut    int64  // number of bytes of the line that Text lacks
	Place  Place  // position after the line
}

// Report describes how surprising a line was.
type Report struct {
	Stream     string   `json:"stream,omitempty"`
	Line       int64    `json:"line"` // from 1
	Bytes      int      `json:"bytes"`
	Bits       float64  `json:"bits"`
	BitsByte   float64  `json:"bits_per_byte"`
	Excess     float64  `json:"excess_bits"` // bits above the entropy of the predictions
	Peak       float64  `json:"peak"`        // see Options.Score
	Score      float64  `json:"score"`
	Threshold  *float64 `json:"threshold"` // nil while too few lines have been read
	Alarm      bool     `json:"alarm"`
	Ranges     []Range  `json:"ranges,omitempty"`
	Cut        int64    `json:"cut,omitempty"`
	Unreadable string   `json:"unreadable,omitempty"` // why the model could not read the line
	Text       []byte   `json:"-"`                    // Line.Text
}

// Read reads lines of different streams, at most one of each, in one call of the model, and returns a report for each.
// Every stream gets the same bits as alone. After an error the streams are unchanged, or after the lines if the error
// is from learning.
func (w *Watcher) Read(ctx context.Context, lines ...Line) ([]Report, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	parts := make([]generate.Part, 0, len(lines))
	reports := make([]Report, len(lines))
	seen := map[*Stream]bool{}
	for i, l := range lines {
		if seen[l.Stream] {
			return nil, errors.New("watch: found two lines of a stream, want one at a time")
		}
		seen[l.Stream] = true
		if err := w.encode(l); err != nil {
			reports[i].Unreadable = err.Error()
			continue
		}
		parts = append(parts, w.part(l.Stream))
	}
	if err := generate.Feed(context.WithoutCancel(ctx), parts...); err != nil { // a line is always read to its end
		return nil, err
	}
	for i, l := range lines {
		if reports[i].Unreadable == "" && l.Stream.isBad() {
			if err := w.again(ctx, l.Stream); err != nil {
				return nil, err
			}
		}
		w.report(l, &reports[i])
	}
	if w.learner != nil {
		return reports, w.learn(ctx, len(lines))
	}
	return reports, nil
}

// encode sets the stream's ids to those of a line, truncated to the length of the model.
func (w *Watcher) encode(l Line) (err error) {
	s := l.Stream
	if s.ids, err = tokenizer.EncodeOrdinary(w.tok, s.ids[:0], l.Text); err != nil {
		return err
	}
	vocab := w.model.Config.VocabSize
	if slices.ContainsFunc(s.ids, func(id int32) bool { return id < 0 || int(id) >= vocab }) || len(s.ids) == 0 {
		return fmt.Errorf("found %d tokens that are not all below %d", len(s.ids), vocab)
	}
	if most := w.model.MaxLength() - len(w.newline); w.model.MaxLength() > 0 && len(s.ids) > most {
		s.ids = append(s.ids[:most-len(w.newline)], w.newline...)
	}
	return nil
}

// part returns the part of a batch that reads the stream's ids. It resets the state of the stream if necessary.
func (w *Watcher) part(s *Stream) generate.Part {
	most := w.model.MaxLength()
	if s.batch == nil || w.o.Reset > 0 && s.since >= w.o.Reset || most > 0 && s.batch.Position()+len(s.ids) > most {
		s.batch, s.since = w.start.Session(w.model), 0
	}
	if n := len(s.ids); cap(s.tokens) < n {
		s.tokens = make([]token, n, n+n/2)
	}
	s.tokens = s.tokens[:len(s.ids)]
	s.tokens[0] = surprise(s.batch.Logits(0), s.ids[0])
	return generate.Part{Batch: s.batch, IDs: s.ids, Each: func(at int, logits []float32) {
		if at++; at < len(s.ids) {
			s.tokens[at] = surprise(logits, s.ids[at])
		}
	}}
}

// isBad reports whether any logits for the line are not finite.
func (s *Stream) isBad() bool {
	for _, t := range s.tokens {
		if t.bad {
			return true
		}
	}
	return false
}

// again reads the stream's line again from a reset state, because the old state was not finite.
func (w *Watcher) again(ctx context.Context, s *Stream) error {
	s.batch = nil
	if err := generate.Feed(context.WithoutCancel(ctx), w.part(s)); err != nil {
		return err
	}
	if s.isBad() {
		return errors.New("watch: found logits that are not finite after a line alone: the weights are invalid")
	}
	s.Restarts++
	return nil
}

// report counts a line that was read and fills in its report.
func (w *Watcher) report(l Line, r *Report) {
	s := l.Stream
	s.Place = l.Place
	s.Lines++
	s.Bytes += int64(len(l.Text))
	s.Cut += l.Cut
	r.Stream, r.Line, r.Bytes, r.Cut, r.Text = s.Name, s.Lines, len(l.Text), l.Cut, l.Text
	if z := w.Threshold(s); !math.IsInf(z, 0) {
		r.Threshold = &z
	}
	if r.Unreadable != "" {
		s.Unreadable++
		s.Alarms++
		r.Alarm = true
		return
	}
	s.since++
	if bytes, _ := w.model.Growth(); bytes > 0 {
		s.batch.State(0).Keep(w.o.Keep)
	}
	if w.o.Ignore != nil {
		w.measure(s)
		ignore(s.tokens, w.o.Ignore.FindAllIndex(l.Text, -1))
	}
	for _, t := range s.tokens {
		r.Bits, r.Excess = r.Bits+t.bits, r.Excess+t.bits-t.expected
	}
	s.Bits += r.Bits
	r.BitsByte = r.Bits / float64(max(1, r.Bytes))
	r.Peak = peak(s.tokens)
	r.Score = r.Of(w.o.Score)
	if r.Threshold != nil && r.Score > *r.Threshold {
		r.Alarm = true
		s.Alarms++
	}
	s.scores.Add(r.Score)
	if r.Alarm || w.o.Ranges {
		if w.o.Ignore == nil { // otherwise measured above
			w.measure(s)
		}
		r.Ranges = rangesOf(s.tokens)
	}
	if w.learner != nil && !r.Alarm {
		s.remember(w.o.Learn.Tokens)
	}
}

// measure sets the lengths in bytes of the tokens of a line.
func (w *Watcher) measure(s *Stream) {
	var text []byte
	for i := range s.tokens {
		text = w.tok.Decode(text[:0], s.ids[i:i+1])
		s.tokens[i].bytes = len(text)
	}
}

package reply

import (
	"context"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Job is what a request asks a model for: replies to some prompts.
type Job struct {
	Model   *host.Model
	Client  string
	Prompts [][]int32
	Options generate.Options // MaxTokens 0 is no reply at all
	Draws   int              // replies to each prompt, with the seed of options, the next, and so on
	Top     int              // log-probabilities: of drawn tokens and so many of the most probable; -1 for none
	Score   bool             // those of the prompts, too

	Call *request.Call     // who asks, to be told what of a single prompt was stored; nil for nobody
	Plan []session.Segment // of a single prompt, nil where it is read in one
	// Ended, unless it is nil, is called when reply j to prompt i has ended, before the last piece of it is passed on.
	Ended func(i, j int, d Result)
}

// Result is a reply that has ended.
type Result struct {
	Text string
	IDs  []int32
	End  string          // as generate.Piece has it
	At   *generate.Batch // behind all ids but the last
}

// Piece is what is new of a reply.
type Piece struct {
	Text   string
	Tokens []host.Token // drawn since the last piece; without log-probabilities where none are wanted
	End    string       // as generate.Piece has it: "" while the reply goes on
}

// sink takes what a work gives. Any goroutine may call it, but for one reply one after another.
type sink interface {
	// prompt is called when a prompt has been read, before its replies, with its log-probabilities where they are
	// wanted, and what of it was stored.
	prompt(i int, ids []host.Token, found host.Cached)
	// piece is called for reply j to prompt i.
	piece(i, j int, p Piece)
}

// sideBySide is how many prompts or replies of one request are worked at together.
const sideBySide = 16

// Run reads all prompts and draws all replies. It ends soon after ctx is done, with the cause.
func (w *Job) Run(ctx context.Context, to sink) error {
	return together(ctx, len(w.Prompts), func(ctx context.Context, i int) error {
		return w.prompt(ctx, i, to)
	})
}

// together calls f for the numbers below n, some at a time, until one of them fails.
func together(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return request.Protect(ctx, 0, f)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	places := make(chan struct{}, sideBySide)
	for i := range n {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			if err := request.Protect(ctx, i, f); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// prompt reads a prompt and draws the replies to it.
func (w *Job) prompt(ctx context.Context, i int, to sink) error {
	ids := w.Prompts[i]
	var s *generate.Batch
	var scores []host.Token
	var found host.Cached
	var err error
	switch {
	case w.Score:
		s, scores, found, err = w.Model.OpenScored(ctx, ids, w.Top, w.Client)
	case w.Plan != nil:
		s, found, err = w.Model.Open(ctx, w.Plan, w.Client)
	default:
		s, found, err = w.Model.Open(ctx, []session.Segment{{IDs: ids}}, w.Client)
	}
	if err != nil {
		return err
	}
	if w.Call != nil && len(w.Prompts) == 1 {
		found.SetHeader(w.Call.Header(), len(ids))
	}
	request.CountCached(ctx, w.Model.Name, found.Tokens)
	to.prompt(i, scores, found)
	if w.Options.MaxTokens == 0 {
		for j := range w.Draws {
			to.piece(i, j, Piece{End: generate.EndLength})
		}
		return nil
	}
	if w.Draws == 1 {
		return w.draw(ctx, s, i, 0, to)
	}
	at := session.Take(s)
	return together(ctx, w.Draws, func(ctx context.Context, j int) error {
		return w.draw(ctx, at.Session(w.Model.Net), i, j, to)
	})
}

// draw draws a reply behind a prompt.
func (w *Job) draw(ctx context.Context, s *generate.Batch, i, j int, to sink) error {
	o := w.Options
	o.Seed += uint64(j)
	writer, err := generate.NewWriter(w.Model.Tokenizer, w.Prompts[i], o)
	if err != nil {
		return err
	}
	var fresh []host.Token
	var all Result
	var whole strings.Builder
	return w.Model.Runner.Run(ctx, &session.Request{
		Session: s, Client: w.Client,
		Next: func(logits []float32) (int32, bool, error) {
			text, id, err := writer.Next(logits)
			if err != nil {
				return 0, false, err
			}
			token := host.Token{ID: id}
			if w.Top >= 0 {
				if token, err = host.ScoreToken(logits, id, w.Top); err != nil {
					return 0, false, err
				}
			}
			fresh = append(fresh, token)
			end := writer.End()
			if w.Ended != nil {
				whole.Write(text)
				all.IDs = append(all.IDs, id)
				if end != "" {
					all.Text, all.End, all.At = whole.String(), end, s
					w.Ended(i, j, all)
				}
			}
			if len(text) > 0 || end != "" {
				to.piece(i, j, Piece{string(text), fresh, end})
				fresh = nil
			}
			return id, end == "", nil
		},
	})
}

// ReadAhead is what to do when a reply in a dialog has ended. It is read as the client will send it: without the
// thoughts before it. After calls of functions their answers come, which cannot be known.
func ReadAhead(m *host.Model, client string, dialog *Dialog) func(i, j int, d Result) {
	return func(_, j int, d Result) {
		reply := dialog.Split().Push(d.Text, true)
		if j < host.ReadAheadReplies && len(reply.Calls) == 0 {
			m.ReadAhead(client, host.WithMessage(dialog.Input, host.AssistantRole, dialog.begins+reply.Content))
		}
	}
}

package serve

import (
	"context"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// work is what a request asks a model for: replies to some prompts.
type work struct {
	model   *Model
	client  string
	prompts [][]int32
	options generate.Options // MaxTokens 0 is no reply at all
	draws   int              // replies to each prompt, with the seed of options, the next, and so on
	top     int              // log-probabilities: of drawn tokens and so many of the most probable; -1 for none
	score   bool             // those of the prompts, too

	call *call             // who asks, to be told what of a single prompt was stored; nil for nobody
	plan []session.Segment // of a single prompt, nil where it is read in one
	// ended, unless it is nil, is called when reply j to prompt i has ended, before the last piece of it is passed on.
	ended func(i, j int, d drawn)
}

// drawn is a reply that has ended.
type drawn struct {
	text string
	ids  []int32
	end  string          // as generate.Piece has it
	at   *generate.Batch // behind all ids but the last
}

// piece is what is new of a reply.
type piece struct {
	text   string
	tokens []scored // drawn since the last piece; without log-probabilities where none are wanted
	end    string   // as generate.Piece has it: "" while the reply goes on
}

// sink takes what a work gives. Any goroutine may call it, but for one reply one after another.
type sink interface {
	// prompt is called when a prompt has been read, before its replies, with its log-probabilities where they are
	// wanted, and what of it was stored.
	prompt(i int, ids []scored, found stored)
	// piece is called for reply j to prompt i.
	piece(i, j int, p piece)
}

// sideBySide is how many prompts or replies of one request are worked at together.
const sideBySide = 16

// do reads all prompts and draws all replies. It ends soon after ctx is done, with the cause.
func (w *work) do(ctx context.Context, to sink) error {
	return together(ctx, len(w.prompts), func(ctx context.Context, i int) error {
		return w.prompt(ctx, i, to)
	})
}

// together calls f for the numbers below n, some at a time, until one of them fails.
func together(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return contained(ctx, 0, f)
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
			if err := contained(ctx, i, f); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// contained calls f. A panic becomes an error.
func contained(ctx context.Context, i int, f func(ctx context.Context, i int) error) (err error) {
	defer contain(&err)
	if err := f(ctx, i); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// prompt reads a prompt and draws the replies to it.
func (w *work) prompt(ctx context.Context, i int, to sink) error {
	ids := w.prompts[i]
	var s *generate.Batch
	var scores []scored
	var found stored
	var err error
	switch {
	case w.score:
		s, scores, found, err = w.model.openScored(ctx, ids, w.top, w.client)
	case w.plan != nil:
		s, found, err = w.model.open(ctx, w.plan, w.client)
	default:
		s, found, err = w.model.open(ctx, []session.Segment{{IDs: ids}}, w.client)
	}
	if err != nil {
		return err
	}
	if w.call != nil && len(w.prompts) == 1 {
		found.tell(w.call.Header(), len(ids))
	}
	countCached(ctx, w.model.name, found.tokens)
	to.prompt(i, scores, found)
	if w.options.MaxTokens == 0 {
		for j := range w.draws {
			to.piece(i, j, piece{end: generate.EndLength})
		}
		return nil
	}
	if w.draws == 1 {
		return w.draw(ctx, s, i, 0, to)
	}
	at := session.Take(s)
	return together(ctx, w.draws, func(ctx context.Context, j int) error {
		return w.draw(ctx, at.Session(w.model.net), i, j, to)
	})
}

// draw draws a reply behind a prompt.
func (w *work) draw(ctx context.Context, s *generate.Batch, i, j int, to sink) error {
	o := w.options
	o.Seed += uint64(j)
	writer, err := generate.NewWriter(w.model.tok, w.prompts[i], o)
	if err != nil {
		return err
	}
	var fresh []scored
	var all drawn
	var whole strings.Builder
	return w.model.runner.Run(ctx, &session.Request{
		Session: s, Client: w.client,
		Next: func(logits []float32) (int32, bool, error) {
			text, id, err := writer.Next(logits)
			if err != nil {
				return 0, false, err
			}
			token := scored{id: id}
			if w.top >= 0 {
				if token, err = score(logits, id, w.top); err != nil {
					return 0, false, err
				}
			}
			fresh = append(fresh, token)
			end := writer.End()
			if w.ended != nil {
				whole.Write(text)
				all.ids = append(all.ids, id)
				if end != "" {
					all.text, all.end, all.at = whole.String(), end, s
					w.ended(i, j, all)
				}
			}
			if len(text) > 0 || end != "" {
				to.piece(i, j, piece{string(text), fresh, end})
				fresh = nil
			}
			return id, end == "", nil
		},
	})
}

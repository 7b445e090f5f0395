package reply

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Job generates replies of a model to some prompts.
type Job struct {
	Model   *host.Model
	Client  string
	Prompts [][]int32
	Options generate.Options // MaxTokens 0 means no reply
	Draws   int              // number of replies to each prompt, with consecutive seeds
	Top     int              // log-probabilities of sampled tokens and this many alternatives; -1 for none
	Score   bool             // also score the prompts, and return what ScoreOf selects
	ScoreOf host.Wanted

	Call *request.Call     // its response gets a header that reports what was cached of a single prompt
	Plan []session.Segment // of a single prompt, nil to read it as one segment
	// Mounts stand at the start of each prompt. Ends are the positions where they end: see Mounts.End.
	Mounts Mounts
	Ends   []int
	// Receipts issues a receipt for each reply; nil for none.
	Receipts *Receipts
	// Found counts the cached tokens of the prompts that have been read, for the callbacks of Run.
	Found UsageDetails
	// Ended, unless it is nil, is called at the end of reply j to prompt i, before the last piece is passed on.
	Ended func(i, j int, d Result)
}

// Result is a finished reply.
type Result struct {
	Text string
	IDs  []int32
	End  string          // as in generate.Piece
	At   *generate.Batch // after all ids but the last
}

// Piece is the new part of a reply.
type Piece struct {
	Text   string
	Tokens []host.Token // sampled since the last piece; without log-probabilities unless they are wanted
	End    string       // as in generate.Piece: "" before the end
	Stop   string       // the stop string that ended it, "" for none

	Receipt json.RawMessage // receipt of the finished reply, if wanted
}

// counted counts the usage of a job, and passes on its callbacks one at a time.
type counted struct {
	mu       sync.Mutex
	job      *Job
	used     Usage
	onPrompt func(i int, ids []host.Token)
	onPiece  func(i, j int, p Piece)
}

// prompt is called when prompt i has been read, with its log-probabilities if they are wanted, and what was cached.
func (c *counted) prompt(i int, ids []host.Token, found host.Cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.Details.Cached += found.Tokens
	c.used.Details.Kept += found.Kept
	c.used.Details.Miss = found.Miss
	c.job.Found = c.used.Details
	c.onPrompt(i, ids)
}

// piece is called for each piece of reply j to prompt i.
func (c *counted) piece(i, j int, p Piece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.Completion += len(p.Tokens)
	c.onPiece(i, j, p)
}

// sideBySide is the number of prompts or replies of one request that run at once.
const sideBySide = 16

// Run reads all prompts and generates all replies. It returns the usage, which it also logs. It returns the cause of
// ctx soon after ctx is done. It calls onPrompt when prompt i has been read, before its replies, with its
// log-probabilities if they are wanted, and onPiece for each piece of reply j to prompt i, one call at a time.
func (w *Job) Run(ctx context.Context, onPrompt func(i int, ids []host.Token),
	onPiece func(i, j int, p Piece)) (Usage, error) {
	to := &counted{job: w, onPrompt: onPrompt, onPiece: onPiece}
	if err := w.Receipts.check(w); err != nil {
		return Usage{}, err
	}
	err := together(ctx, len(w.Prompts), func(ctx context.Context, i int) error {
		return w.prompt(ctx, i, to)
	})
	u := to.used
	for _, ids := range w.Prompts {
		u.Prompt += len(ids)
	}
	if len(w.Prompts) != 1 {
		u.Details.Miss = ""
	}
	u.Total = u.Prompt + u.Completion
	u.log(w.Call)
	return u, err
}

// together calls f for the numbers below n, several at a time, until a call fails.
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

// prompt reads a prompt and generates the replies to it.
func (w *Job) prompt(ctx context.Context, i int, to *counted) error {
	ids := w.Prompts[i]
	var s *generate.Batch
	var scores []host.Token
	var found host.Cached
	var err error
	switch {
	case w.Score:
		of := host.Wanted{Top: max(w.Top, w.ScoreOf.Top), Ranks: w.ScoreOf.Ranks}
		s, scores, found, err = w.Model.OpenScored(ctx, ids, of, w.Client)
	default:
		s, found, err = w.Model.OpenMounted(ctx, w.plan(i), w.Mounts, w.end(i), w.Client)
	}
	if err != nil {
		return err
	}
	if len(w.Prompts) == 1 {
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

// plan returns the segments in which prompt i is read.
func (w *Job) plan(i int) []session.Segment {
	if w.Plan != nil {
		return w.Plan
	}
	return []session.Segment{{IDs: slices.Clip(w.Prompts[i])}}
}

// end returns the number of ids at the start of prompt i that belong to mounted texts.
func (w *Job) end(i int) int {
	if i < len(w.Ends) {
		return w.Ends[i]
	}
	return 0
}

// draw generates a reply after a prompt.
func (w *Job) draw(ctx context.Context, s *generate.Batch, i, j int, to *counted) error {
	o := w.Options
	o.Seed += uint64(j)
	writer, err := generate.NewWriter(w.Model.Tokenizer, w.Prompts[i], o)
	if err != nil {
		return err
	}
	record := w.Receipts.begin(w, i, o)
	var fresh []host.Token
	var all Result
	var whole strings.Builder
	err = w.Model.Runner.Run(ctx, &session.Request{
		Session: s, Client: w.Client, Draft: writer.Draft,
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
			var signed json.RawMessage
			if record != nil {
				if record.Add(logits, id); end != "" {
					if signed, err = w.Receipts.end(record, end); err != nil {
						return 0, false, err
					}
				}
			}
			if w.Ended != nil {
				whole.Write(text)
				all.IDs = append(all.IDs, id)
				if end != "" {
					all.Text, all.End, all.At = whole.String(), end, s
					w.Ended(i, j, all)
				}
			}
			if len(text) > 0 || end != "" {
				to.piece(i, j, Piece{string(text), fresh, end, writer.Stopped(), signed})
				fresh = nil
			}
			return id, end == "", nil
		},
	})
	return refused(err)
}

// refused returns the error of a reply as an error of the request, if the request is to blame: a grammar that can be
// read in too many ways, or fields that allow no token.
func refused(err error) error {
	for of, code := range map[error]string{
		constrain.ErrAmbiguous: "ambiguous_grammar", generate.ErrNothing: "nothing_allowed",
	} {
		if errors.Is(err, of) {
			return &request.Error{Status: http.StatusBadRequest, Code: code, Message: of.Error()}
		}
	}
	return err
}

// ReadAhead returns a value for Job.Ended that reads the reply ahead, as the client will send it in the next request:
// with its reasoning if clients send that back. It does nothing after function calls, since their results are unknown.
func (w *Job) ReadAhead(dialog *Dialog, reasoning bool) func(i, j int, d Result) {
	return func(_, j int, d Result) {
		reply := dialog.Split().Push(d.Text, true)
		if j >= host.ReadAheadReplies || len(reply.Calls) > 0 {
			return
		}
		draft := Draft{Role: host.AssistantRole, Content: dialog.begins + reply.Content}
		if reasoning {
			draft.Reasoning = reply.Reasoning
		}
		m, err := draft.Message()
		if err != nil {
			return // not reached: drafts consist of texts
		}
		w.Model.ReadAhead(w.Client, w.Call.Scope, host.WithMessage(dialog.Input, m.Message))
	}
}

package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Texts serves the endpoints for texts, embeddings and tokens.
type Texts struct {
	reply.Service
	Places int // places of running requests
}

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	reply.Sampling
	Prompt   request.Prompts `json:"prompt"`
	BestOf   *int            `json:"best_of"`
	Echo     bool            `json:"echo"`
	Logprobs *int            `json:"logprobs"`
	Suffix   string          `json:"suffix"`
	promptScores
	reply.Guided
	reply.Mounting
}

// completionChoice is one text of a response.
type completionChoice struct {
	Text     string              `json:"text"`
	Index    int                 `json:"index"`
	Logprobs *completionLogprobs `json:"logprobs"`
	Finish   *string             `json:"finish_reason"`
	Receipt  json.RawMessage     `json:"receipt,omitempty"`

	Prompt []map[string]promptLogprob `json:"prompt_logprobs,omitempty"`
}

// completionLogprobs are the log-probabilities of a text's tokens.
type completionLogprobs struct {
	Tokens []string             `json:"tokens"`
	Values []*float64           `json:"token_logprobs"`
	Top    []map[string]float64 `json:"top_logprobs"`
	Offset []int                `json:"text_offset"`
}

// Completion is the response of /v1/completions, and each event of a stream.
type Completion = textObject[completionChoice]

// completionJob is one request of /v1/completions.
type completionJob struct {
	completionRequest
	job   *reply.Job
	n     int
	frame Completion // without choices
}

func (s *Texts) Completions(c *request.Call) error {
	var q completionJob
	if err := c.Read(&q.completionRequest); err != nil {
		return err
	}
	if err := s.prepare(&q, c); err != nil {
		return err
	}
	return s.Reply(c, &q, q.Stream, request.SSEFailed)
}

// prepare checks a request and prepares its job.
func (s *Texts) prepare(q *completionJob, c *request.Call) error {
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	o := m.Defaults(reply.CompletionTokens)
	o.MaxTokens = request.Or(q.MaxTokens, reply.CompletionTokens)
	q.MaxTokens = &o.MaxTokens
	if o, err = q.Replies(&s.Service, m, o); err != nil {
		return err
	}
	format, guide, err := q.Guide()
	if err == nil {
		o.Constraint, err = reply.FormatConstraint(c.Request.Context(), m, guide, format)
	}
	if err != nil {
		return err
	}
	q.n = request.Or(q.N, 1)
	best, top := request.Or(q.BestOf, q.n), request.Or(q.Logprobs, -1)
	var ch request.Checks
	ch.Range(o.MaxTokens, 0, s.Limits.MaxTokens, "max_tokens")
	ch.That(best >= q.n && best <= s.Limits.MaxChoices, "best_of", "found %d, want an integer from n, %d, to %d", best,
		q.n, s.Limits.MaxChoices)
	ch.That(!q.Stream || best == q.n, "best_of", "found %d and stream, want n, %d: the best replies are known "+
		"when all have ended", best, q.n)
	ch.Range(request.Or(q.Logprobs, 0), 0, reply.MaxTop, "logprobs")
	ch.That(q.Suffix == "", "suffix", "found a text, want none: the models read from the left to the right only, and "+
		"cannot write what stands before a text")
	ch.That(!q.Echo || len(q.Mount) == 0, "echo", "found true and mount, want one of them")
	ch.That(len(q.Prompt) > 0, "prompt", "found nothing, want %s", request.PromptForms)
	ch.That(len(q.Prompt) <= s.Limits.MaxPrompts, "prompt", "found %d prompts, want at most %d",
		len(q.Prompt), s.Limits.MaxPrompts)
	ch.That(len(q.Prompt)*best <= s.Limits.MaxPrompts, "n",
		"found %d replies to each of %d prompts, want at most %d in all",
		best, len(q.Prompt), s.Limits.MaxPrompts)
	if ch.Err != nil {
		return ch.Err
	}
	q.job = &reply.Job{
		Model: m, Client: c.Client(), Call: c, Options: o, Draws: best, Top: top, Score: q.Echo && top >= 0,
		Receipts: s.Receipts(q.Receipt),
	}
	if err := q.score(q.job, q.Stream); err != nil {
		return err
	}
	if q.job.Mounts, err = s.Mounts(c, m, q.Mounting); err != nil {
		return err
	}
	if best > q.n {
		q.job.Top = max(0, top) // needed for the log-probabilities of the sampled tokens
	}
	for _, p := range q.Prompt {
		ids, end, err := q.job.Mounts.Encode(m, p)
		if err == nil {
			err = m.Check("prompt", ids, s.Limits.MaxPrompt, o.MaxTokens)
		}
		if err != nil {
			return err
		}
		q.job.Prompts, q.job.Ends = append(q.job.Prompts, ids), append(q.job.Ends, end)
	}
	q.frame = Completion{
		ID: "cmpl-" + rand.Text(), Object: "text_completion", Created: time.Now().Unix(), Model: m.Name,
	}
	return nil
}

// echo returns the text of prompt i.
func (q *completionJob) echo(i int) string {
	if p := q.Prompt[i]; p.IDs == nil {
		return p.Text
	}
	return request.Text(q.job.Model.Tokenizer.Decode(nil, q.job.Prompts[i]))
}

// writing is a reply that is being generated.
type writing struct {
	*reply.Reply
	choice completionChoice
	text   strings.Builder
	sum    float64 // sum of the log-probabilities of its tokens
}

// begin returns a reply to prompt i. ids are the prompt's scored tokens, if they are wanted.
func (q *completionJob) begin(i, index int, ids []host.Token) *writing {
	w := &writing{choice: completionChoice{Index: index}}
	w.choice.Prompt = q.promptScores.of(q.job.Model, ids)
	if q.Logprobs != nil {
		w.choice.Logprobs = newLogprobs()
	}
	if !q.Echo {
		w.Reply = reply.New(q.job, 0)
		return w
	}
	text := q.echo(i)
	w.text.WriteString(text)
	w.Reply = reply.New(q.job, 0)
	for _, id := range ids {
		if q.Logprobs != nil {
			id.Top = id.Top[:min(*q.Logprobs, len(id.Top))]
			q.addLogprobs(w.choice.Logprobs, w.Place(id))
		}
	}
	w.Reply = reply.New(q.job, utf8.RuneCountInString(text))
	return w
}

func newLogprobs() *completionLogprobs {
	return &completionLogprobs{
		Tokens: []string{}, Values: []*float64{}, Top: []map[string]float64{}, Offset: []int{},
	}
}

// addLogprobs adds the log-probabilities of a token.
func (q *completionJob) addLogprobs(to *completionLogprobs, t reply.Placed) {
	to.Tokens, to.Offset = append(to.Tokens, q.job.Model.TokenText(t.ID)), append(to.Offset, t.At)
	if !t.Known {
		to.Values, to.Top = append(to.Values, nil), append(to.Top, nil)
		return
	}
	value := host.JSONLogProb(t.LogProb)
	to.Values, to.Top = append(to.Values, &value), append(to.Top, topByText(q.job.Model, t.Token))
}

// add appends a piece.
func (q *completionJob) add(w *writing, p reply.Piece) {
	w.text.WriteString(p.Text)
	w.choice.Finish, w.choice.Receipt = reply.Finish(p.End), p.Receipt
	for _, t := range p.Tokens {
		w.sum += t.LogProb
	}
	for _, t := range w.Take(p) {
		if w.choice.Logprobs != nil {
			q.addLogprobs(w.choice.Logprobs, t)
		}
	}
}

// Respond runs the job and returns the response.
func (q *completionJob) Respond(c *request.Call) (any, error) {
	replies := make([][]*writing, len(q.job.Prompts))
	used, err := q.job.Run(c.Request.Context(), func(i int, ids []host.Token) {
		for j := range q.job.Draws {
			replies[i] = append(replies[i], q.begin(i, i*q.n+j, ids))
		}
	}, func(i, j int, p reply.Piece) { q.add(replies[i][j], p) })
	if err != nil {
		return nil, err
	}
	response := q.frame
	response.Usage = &used
	for i, of := range replies {
		if q.job.Draws > q.n {
			slices.SortStableFunc(of, func(a, b *writing) int { return compareMeans(a, b) })
		}
		for j, w := range of[:q.n] {
			w.choice.Text, w.choice.Index = w.text.String(), i*q.n+j
			response.Choices = append(response.Choices, w.choice)
		}
	}
	return &response, nil
}

// compareMeans orders replies by the mean log-probability of their tokens, the highest first.
func compareMeans(a, b *writing) int {
	x, y := a.sum*float64(b.Tokens), b.sum*float64(a.Tokens)
	switch {
	case x > y:
		return -1
	case x < y:
		return 1
	}
	return 0
}

// Send runs the job and sends each piece as it is generated.
func (q *completionJob) Send(ctx context.Context, to *request.Queue) error {
	replies, frames := make([][]*writing, len(q.job.Prompts)), q.frame.frames(q.StreamOptions.IncludeUsage)
	send := func(w *writing) {
		w.choice.Text = w.text.String()
		to.Add(frames.of(&w.choice))
		w.text.Reset()
		if w.choice.Logprobs != nil {
			w.choice.Logprobs = newLogprobs()
		}
	}
	used, err := q.job.Run(ctx, func(i int, ids []host.Token) {
		for j := range q.job.Draws {
			w := q.begin(i, i*q.n+j, ids)
			if replies[i] = append(replies[i], w); q.Echo {
				send(w)
			}
		}
	}, func(i, j int, p reply.Piece) {
		q.add(replies[i][j], p)
		send(replies[i][j])
	})
	if err != nil {
		return err
	}
	q.frame.end(to, &used, q.StreamOptions.IncludeUsage)
	return nil
}

// topByText returns the most probable tokens at a position and the actual token, by text. If several tokens have the
// same text, all but the first are named by their ids.
func topByText(m *host.Model, t host.Token) map[string]float64 {
	out := make(map[string]float64, len(t.Top)+1)
	own := false
	add := func(id int32, logProb float64) {
		text := m.TokenText(id)
		if _, taken := out[text]; taken {
			text = fmt.Sprintf("token_id:%d", id)
		}
		out[text] = host.JSONLogProb(logProb)
		own = own || id == t.ID
	}
	for _, other := range t.Top {
		add(other.ID, other.LogProb)
	}
	if !own {
		add(t.ID, t.LogProb)
	}
	return out
}

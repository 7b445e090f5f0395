package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// openaiTexts responds with texts, embeddings and tokens of a model.
type openaiTexts struct{ service }

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	sampling
	Prompt   prompts `json:"prompt"`
	BestOf   *int    `json:"best_of"`
	Echo     bool    `json:"echo"`
	Logprobs *int    `json:"logprobs"`
	Suffix   string  `json:"suffix"`
}

// completionTokens is what max_tokens is where a request does not say it, as OpenAI has it.
const completionTokens = 16

// completionChoice is one text of an answer.
type completionChoice struct {
	Text     string              `json:"text"`
	Index    int                 `json:"index"`
	Logprobs *completionLogprobs `json:"logprobs"`
	Finish   *string             `json:"finish_reason"`
}

// completionLogprobs are those of the tokens of a text.
type completionLogprobs struct {
	Tokens []string             `json:"tokens"`
	Values []*float64           `json:"token_logprobs"`
	Top    []map[string]float64 `json:"top_logprobs"`
	Offset []int                `json:"text_offset"`
}

// completionAnswer is the answer of /v1/completions, and each event of a stream.
type completionAnswer struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *usage             `json:"usage"`
}

// completion is one request of /v1/completions.
type completion struct {
	completionRequest
	job   *work
	n     int
	frame completionAnswer // without choices
}

func (s *openaiTexts) completions(c *call) error {
	var q completion
	if err := c.read(&q.completionRequest); err != nil {
		return err
	}
	if err := s.prepare(&q, c); err != nil {
		return err
	}
	return s.reply(c, &q, q.Stream)
}

// prepare checks a request and says what work it is.
func (s *openaiTexts) prepare(q *completion, c *call) error {
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	o := m.defaults(completionTokens)
	o.MaxTokens = or(q.MaxTokens, completionTokens)
	if o, err = q.replies(&s.service, m, o); err != nil {
		return err
	}
	q.n = or(q.N, 1)
	best, top := or(q.BestOf, q.n), or(q.Logprobs, -1)
	var ch checks
	ch.that(o.MaxTokens >= 0 && o.MaxTokens <= s.limits.MaxTokens, "max_tokens", "found %d, want an integer from 0 to %d",
		o.MaxTokens, s.limits.MaxTokens)
	ch.that(best >= q.n && best <= s.limits.MaxChoices, "best_of", "found %d, want an integer from n, %d, to %d", best, q.n,
		s.limits.MaxChoices)
	ch.that(!q.Stream || best == q.n, "best_of", "found %d and stream, want n, %d: the best replies are known "+
		"when all have ended", best, q.n)
	ch.that(q.Logprobs == nil || top >= 0 && top <= maxTop, "logprobs", "found %d, want an integer from 0 to %d", top,
		maxTop)
	ch.that(q.Suffix == "", "suffix", "found a text, want none: the models read from the left to the right only, and "+
		"cannot write what stands before a text")
	ch.that(len(q.Prompt) > 0, "prompt", "found nothing, want %s", promptForms)
	ch.that(len(q.Prompt) <= s.limits.MaxPrompts, "prompt", "found %d prompts, want at most %d",
		len(q.Prompt), s.limits.MaxPrompts)
	ch.that(len(q.Prompt)*best <= s.limits.MaxPrompts, "n", "found %d replies to each of %d prompts, want at most %d in all",
		best, len(q.Prompt), s.limits.MaxPrompts)
	if ch.err != nil {
		return ch.err
	}
	q.job = &work{
		model: m, client: c.client(), call: c, options: o, draws: best, top: top, score: q.Echo && top >= 0,
	}
	if best > q.n {
		q.job.top = max(0, top) // the best are those with the largest log-probabilities
	}
	for _, p := range q.Prompt {
		ids, err := m.encode(p)
		if err == nil {
			err = m.check("prompt", ids, s.limits.MaxPrompt, o.MaxTokens)
		}
		if err != nil {
			return err
		}
		q.job.prompts = append(q.job.prompts, ids)
	}
	q.frame = completionAnswer{
		ID: "cmpl-" + rand.Text(), Object: "text_completion", Created: time.Now().Unix(), Model: m.name,
	}
	return nil
}

// echo is the text of prompt i.
func (q *completion) echo(i int) string {
	if p := q.Prompt[i]; p.ids == nil {
		return p.text
	}
	return validText(q.job.model.tok.Decode(nil, q.job.prompts[i]))
}

// writing is a reply to prompt i on the way: q.texts has the text with which it begins.
type writing struct {
	*reply
	choice completionChoice
	text   strings.Builder
	sum    float64 // of the log-probabilities of what was drawn
}

// begin is a reply to prompt i, whose log-probabilities are given where they are wanted.
func (q *completion) begin(i, index int, ids []scored) *writing {
	w := &writing{choice: completionChoice{Index: index}}
	if q.Logprobs != nil {
		w.choice.Logprobs = newLogprobs()
	}
	if !q.Echo {
		w.reply = newReply(q.job.model, 0)
		return w
	}
	text := q.echo(i)
	w.text.WriteString(text)
	w.reply = newReply(q.job.model, 0)
	for _, id := range ids {
		q.addLogprobs(w.choice.Logprobs, w.place(id))
	}
	w.reply = newReply(q.job.model, utf8.RuneCountInString(text))
	return w
}

func newLogprobs() *completionLogprobs {
	return &completionLogprobs{
		Tokens: []string{}, Values: []*float64{}, Top: []map[string]float64{}, Offset: []int{},
	}
}

// addLogprobs adds those of a token.
func (q *completion) addLogprobs(to *completionLogprobs, t placed) {
	to.Tokens, to.Offset = append(to.Tokens, q.job.model.tokenText(t.id)), append(to.Offset, t.at)
	if !t.known {
		to.Values, to.Top = append(to.Values, nil), append(to.Top, nil)
		return
	}
	value := number(t.logProb)
	to.Values, to.Top = append(to.Values, &value), append(to.Top, topByText(q.job.model, t.scored))
}

// add puts a piece behind what there is.
func (q *completion) add(w *writing, p piece) {
	w.text.WriteString(p.text)
	w.choice.Finish = finish(p.end)
	for _, t := range p.tokens {
		w.sum += t.logProb
	}
	for _, t := range w.take(p) {
		if w.choice.Logprobs != nil {
			q.addLogprobs(w.choice.Logprobs, t)
		}
	}
}

// answer does the work and returns all of it.
func (q *completion) answer(c *call) (any, error) {
	replies := make([][]*writing, len(q.job.prompts))
	all := &parts{
		meter: newMeter(q.job),
		onPrompt: func(i int, ids []scored) {
			for j := range q.job.draws {
				replies[i] = append(replies[i], q.begin(i, i*q.n+j, ids))
			}
		},
		onPiece: func(i, j int, p piece) { q.add(replies[i][j], p) },
	}
	if err := q.job.do(c.r.Context(), all); err != nil {
		return nil, err
	}
	all.logged(c)
	answer, used := q.frame, all.used()
	answer.Usage = &used
	for i, of := range replies {
		if q.job.draws > q.n {
			slices.SortStableFunc(of, func(a, b *writing) int { return compareMeans(a, b) })
		}
		for j, w := range of[:q.n] {
			w.choice.Text, w.choice.Index = w.text.String(), i*q.n+j
			answer.Choices = append(answer.Choices, w.choice)
		}
	}
	return &answer, nil
}

// compareMeans puts the reply before another whose tokens were more probable.
func compareMeans(a, b *writing) int {
	x, y := a.sum*float64(b.tokens), b.sum*float64(a.tokens)
	switch {
	case x > y:
		return -1
	case x < y:
		return 1
	}
	return 0
}

// stream does the work and sends each piece as it comes.
func (q *completion) stream(ctx context.Context, c *call, to *queue) error {
	replies, frames := make([][]*writing, len(q.job.prompts)), q.frames()
	send := func(w *writing) {
		w.choice.Text = w.text.String()
		to.add(frames.of(&w.choice))
		w.text.Reset()
		if w.choice.Logprobs != nil {
			w.choice.Logprobs = newLogprobs()
		}
	}
	all := &parts{
		meter: newMeter(q.job),
		onPrompt: func(i int, ids []scored) {
			for j := range q.job.draws {
				w := q.begin(i, i*q.n+j, ids)
				if replies[i] = append(replies[i], w); q.Echo {
					send(w)
				}
			}
		},
		onPiece: func(i, j int, p piece) {
			q.add(replies[i][j], p)
			send(replies[i][j])
		},
	}
	err := q.job.do(ctx, all)
	all.logged(c)
	if err != nil {
		return err
	}
	if q.StreamOptions.IncludeUsage {
		event, used := q.frame, all.used()
		event.Choices, event.Usage = []completionChoice{}, &used
		to.add(sse(&event))
	}
	to.add(sseDone)
	return nil
}

// frames are the events of the choices.
func (q *completion) frames() *frames {
	bare := q.frame
	bare.Choices = []completionChoice{}
	return newFrames(q.event(&bare))
}

// event is an answer as an event: usage is there only where it was asked for.
func (q *completion) event(a *completionAnswer) any {
	if q.StreamOptions.IncludeUsage {
		return a
	}
	return struct {
		*completionAnswer
		Usage any `json:"usage,omitempty"`
	}{completionAnswer: a}
}

// topByText are the most probable tokens in a place by their texts, and the token that stands there. Tokens that have
// the same text stay apart: those after the first are named by their numbers.
func topByText(m *Model, t scored) map[string]float64 {
	out := make(map[string]float64, len(t.top)+1)
	own := false
	add := func(id int32, logProb float64) {
		text := m.tokenText(id)
		if _, taken := out[text]; taken {
			text = fmt.Sprintf("token_id:%d", id)
		}
		out[text] = number(logProb)
		own = own || id == t.id
	}
	for _, other := range t.top {
		add(other.ID, other.LogProb)
	}
	if !own {
		add(t.id, t.logProb)
	}
	return out
}

package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/generate"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	sampling
	continued
	Messages            []message                  `json:"messages"`
	Logprobs            bool                       `json:"logprobs"`
	TopLogprobs         *int                       `json:"top_logprobs"`
	MaxCompletionTokens *int                       `json:"max_completion_tokens"`
	ResponseFormat      responseFormat             `json:"response_format"`
	Variables           map[string]json.RawMessage `json:"chat_template_kwargs"`
	Effort              string                     `json:"reasoning_effort"`
	toolRequest
}

// chatLogprob is the log-probability of a token.
type chatLogprob struct {
	Token   string         `json:"token"`
	LogProb float64        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     *[]chatLogprob `json:"top_logprobs,omitempty"`
}

type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
	Refusal *string       `json:"refusal"`
}

// chatMessage is a reply, or a piece of one.
type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal *string `json:"refusal,omitempty"`
	// Reasoning is what the model thinks before it replies, where its template has marks around that.
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []toolCall `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

// chatAnswer is the answer of /v1/chat/completions, and each event of a stream.
type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
}

// chatCompletion is one request of /v1/chat/completions.
type chatCompletion struct {
	chatRequest
	job    *work
	dialog *dialog
	frame  chatAnswer // without choices
}

func (s *openaiTexts) chatCompletions(c *call) error {
	var q chatCompletion
	if err := c.read(&q.chatRequest); err != nil {
		return err
	}
	if err := s.prepareChat(&q, c); err != nil {
		return err
	}
	return s.reply(c, &q, q.Stream)
}

// prepareChat checks a request and says what work it is.
func (s *openaiTexts) prepareChat(q *chatCompletion, c *call) error {
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	o, err := q.replies(&s.service, m, m.defaults(0))
	if err != nil {
		return err
	}
	asked, param := q.MaxTokens, "max_tokens"
	if q.MaxCompletionTokens != nil {
		asked, param = q.MaxCompletionTokens, "max_completion_tokens"
	}
	top := or(q.TopLogprobs, 0)
	var ch checks
	ch.that(asked == nil || *asked >= 1 && *asked <= s.limits.MaxTokens, param, "found %d, want an integer from 1 to %d",
		or(asked, 0), s.limits.MaxTokens)
	ch.that(top >= 0 && top <= maxTop, "top_logprobs", "found %d, want an integer from 0 to %d", top, maxTop)
	ch.that(q.TopLogprobs == nil || q.Logprobs, "top_logprobs", "found %d, want logprobs true with it", top)
	ch.that(len(q.Messages) > 0, "messages", "found none, want at least one")
	if ch.err != nil {
		return ch.err
	}
	q.job = &work{model: m, client: c.client(), call: c, draws: or(q.N, 1), top: -1}
	if q.Logprobs {
		q.job.top = top
	}
	q.dialog, err = converse(c.r.Context(), m, "messages", &conversation{
		messages: q.Messages, tools: q.toolRequest, format: q.ResponseFormat, param: "response_format",
		more: withEffort(q.Variables, q.Effort), goesOn: q.Continue,
	})
	if err != nil {
		return err
	}
	ids := q.dialog.ids
	o.Constraint = q.dialog.constraint
	o.MaxTokens = s.replyTokens(m, asked, o.MaxTokens, len(ids))
	if err := m.check("messages", ids, s.limits.MaxPrompt, o.MaxTokens); err != nil {
		return err
	}
	q.job.options, q.job.prompts = o, [][]int32{ids}
	q.job.ended = rereadAfter(m, q.job.client, q.dialog)
	q.frame = chatAnswer{ID: "chatcmpl-" + rand.Text(), Created: time.Now().Unix(), Model: m.name}
	return nil
}

// logprobs are the log-probabilities of tokens in a chat's form.
func logprobs(m *Model, tokens []placed) (out []chatLogprob) {
	for _, t := range tokens {
		one, top := logprob(m, t.id, t.logProb), make([]chatLogprob, 0, len(t.top))
		for _, other := range t.top {
			top = append(top, logprob(m, other.ID, other.LogProb))
		}
		one.Top = &top
		out = append(out, one)
	}
	return out
}

// logprob is the log-probability of a token in a chat's form.
func logprob(m *Model, id int32, logProb float64) chatLogprob {
	data := m.tok.Decode(nil, []int32{id})
	out := chatLogprob{Token: m.tokenText(id), LogProb: number(logProb), Bytes: make([]int, len(data))}
	for i, x := range data {
		out.Bytes[i] = int(x)
	}
	return out
}

// chatReply is a reply on the way.
type chatReply struct {
	*reply
	split  *splitter
	said   said // and not told yet
	tokens []chatLogprob
	end    *string
}

// add puts a piece behind what there is. The token that ends a reply is no part of it.
func (q *chatCompletion) add(r *chatReply, p piece) {
	r.said.add(r.split.push(p.text, p.end != ""))
	if r.end = finish(p.end); p.end != "" && p.end != generate.EndLength && r.split.called > 0 {
		r.end = &callsFinish
	}
	tokens := r.take(p)
	if p.end == generate.EndText && len(tokens) > 0 {
		tokens = tokens[:len(tokens)-1]
	}
	if !q.Logprobs {
		return
	}
	r.tokens = append(r.tokens, logprobs(q.job.model, tokens)...)
}

// logprobs are those of the tokens of a reply, nil where none are wanted.
func (q *chatCompletion) logprobs(r *chatReply) *chatLogprobs {
	if !q.Logprobs {
		return nil
	}
	tokens := r.tokens
	if tokens == nil {
		tokens = []chatLogprob{}
	}
	return &chatLogprobs{Content: tokens}
}

// begin returns the replies, before anything of them is there.
func (q *chatCompletion) begin() []*chatReply {
	replies := make([]*chatReply, q.job.draws)
	for j := range replies {
		replies[j] = &chatReply{reply: newReply(q.job.model, 0), split: q.dialog.split()}
	}
	return replies
}

// answer does the work and returns all of it.
func (q *chatCompletion) answer(c *call) (any, error) {
	replies := q.begin()
	all := &parts{
		meter:    newMeter(q.job),
		onPrompt: func(int, []scored) {},
		onPiece:  func(_, j int, p piece) { q.add(replies[j], p) },
	}
	if err := q.job.do(c.r.Context(), all); err != nil {
		return nil, err
	}
	all.logged(c)
	answer, used := q.frame, all.used()
	answer.Object, answer.Usage = "chat.completion", &used
	for j, r := range replies {
		message := r.said.message(false)
		message.Role = assistantRole
		answer.Choices = append(answer.Choices, chatChoice{
			Index: j, Message: message, Logprobs: q.logprobs(r), Finish: r.end,
		})
	}
	return &answer, nil
}

// stream does the work and sends each piece as it comes.
func (q *chatCompletion) stream(ctx context.Context, c *call, to *queue) error {
	replies := q.begin()
	q.frame.Object = "chat.completion.chunk"
	frames := q.frames()
	send := func(choice chatChoice) { to.add(frames.of(&choice)) }
	all := &parts{
		meter: newMeter(q.job),
		onPrompt: func(int, []scored) {
			for j := range replies {
				send(chatChoice{Index: j, Delta: &chatMessage{Role: assistantRole, Content: new(string)}})
			}
		},
		onPiece: func(_, j int, p piece) {
			r := replies[j]
			q.add(r, p)
			if r.said.some() || len(r.tokens) > 0 {
				send(chatChoice{Index: j, Delta: r.said.message(true), Logprobs: q.logprobs(r)})
			}
			if r.end != nil {
				send(chatChoice{Index: j, Delta: &chatMessage{}, Finish: r.end})
			}
			r.said, r.tokens = said{}, nil
		},
	}
	err := q.job.do(ctx, all)
	all.logged(c)
	if err != nil {
		return err
	}
	if q.StreamOptions.IncludeUsage {
		event, used := q.frame, all.used()
		event.Choices, event.Usage = []chatChoice{}, &used
		to.add(sse(&event))
	}
	to.add(sseDone)
	return nil
}

// frames are the events of the choices.
func (q *chatCompletion) frames() *frames {
	bare := q.frame
	bare.Choices = []chatChoice{}
	return newFrames(q.event(&bare))
}

// event is an answer as an event: usage is there, and null, only where it was asked for.
func (q *chatCompletion) event(a *chatAnswer) any {
	if !q.StreamOptions.IncludeUsage {
		return a
	}
	return struct {
		*chatAnswer
		Usage *usage `json:"usage"`
	}{chatAnswer: a}
}

// message is what was said as a message of OpenAI's, or as a part of one in a stream. In a whole message there is a
// content, unless there are calls in its place.
func (s *said) message(streams bool) *chatMessage {
	m := &chatMessage{Reasoning: s.reasoning, Calls: s.calls}
	if s.content != "" || s.reasoning == "" && len(s.calls) == 0 || !streams && len(s.calls) == 0 {
		m.Content = &s.content
	}
	if !streams {
		for i := range m.Calls {
			m.Calls[i].Index = nil
		}
	}
	return m
}

// callsFinish is OpenAI's reason why a reply has ended that calls functions.
var callsFinish = "tool_calls"

package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/chat/template"
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

// message is a message of a chat, whose content may be in parts.
type message struct{ template.Message }

// UnmarshalJSON joins parts of text into one.
func (m *message) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return errors.New("found " + shorten(data) + ", want an object with role and content")
	}
	content, calls := fields["content"], fields["tool_calls"]
	parts, called := len(content) > 0 && content[0] == '[', len(calls) > 0 && string(calls) != "null"
	if parts {
		text, err := joinParts(content)
		if err != nil {
			return err
		}
		if fields["content"], err = json.Marshal(text); err != nil {
			return err
		}
	}
	if called {
		if err := readCalls(fields); err != nil {
			return err
		}
	}
	if parts || called {
		var err error
		if data, err = json.Marshal(fields); err != nil {
			return err
		}
	}
	return m.Message.UnmarshalJSON(data)
}

// joinParts is the text of a content that is a list of parts.
func joinParts(content []byte) (string, error) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", errors.New("content: " + describe(err))
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" {
			return "", errors.New("content: found a part of the type " + shorten([]byte(p.Type)) + ", want text")
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
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
	*work
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
	q.work = &work{model: m, client: c.client(), call: c, draws: or(q.N, 1), top: -1}
	if q.Logprobs {
		q.top = top
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
	q.options, q.prompts = o, [][]int32{ids}
	q.ended = rereadAfter(m, q.client, q.dialog)
	q.frame = chatAnswer{ID: "chatcmpl-" + rand.Text(), Created: time.Now().Unix(), Model: m.name}
	return nil
}

// replyTokens is how long a reply to a prompt may become: as asked, or as the model says, or as long as there is room.
func (s *service) replyTokens(m *Model, asked *int, own, prompt int) int {
	most := s.limits.MaxTokens
	if own > 0 {
		most = min(most, own)
	}
	if length := m.net.MaxLength(); length > 0 {
		most = max(1, min(most, length-prompt))
	}
	return or(asked, most)
}

// encodeChat is the ids of a conversation up to where the reply begins, and of the beginning of that.
func encodeChat(ctx context.Context, m *Model, param string, messages []message, begins string) ([]int32, error) {
	text, err := chatText(ctx, m, param, messages)
	if err != nil {
		return nil, err
	}
	ids, err := m.tok.Encode(nil, []byte(text+begins))
	if err != nil {
		return nil, wrong(param, "%v", err)
	}
	return ids, nil
}

// chatText is the text of a conversation up to where the reply begins.
func chatText(ctx context.Context, m *Model, param string, messages []message) (string, error) {
	return m.render(ctx, param, inputOf(messages))
}

// inputOf is what a template is given of messages.
func inputOf(messages []message) template.Input {
	in := template.Input{Messages: make([]template.Message, len(messages))}
	for i := range messages {
		in.Messages[i] = messages[i].Message
	}
	return in
}

// render is the text that the template makes. An error of the template is one of the given field.
func (m *Model) render(ctx context.Context, param string, in template.Input) (string, error) {
	text, err := m.settings.Render(ctx, in)
	var mistake *template.Error
	if errors.As(err, &mistake) {
		err = wrong(param, "%v", err)
	}
	return text, err
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
	r.tokens = append(r.tokens, logprobs(q.model, tokens)...)
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
	replies := make([]*chatReply, q.draws)
	for j := range replies {
		replies[j] = &chatReply{reply: newReply(q.model, 0), split: q.dialog.split()}
	}
	return replies
}

const (
	systemRole    = "system"
	assistantRole = "assistant"
	userRole      = "user"
)

// answer does the work and returns all of it.
func (q *chatCompletion) answer(c *call) (any, error) {
	replies := q.begin()
	all := &parts{
		meter:    newMeter(q.work),
		onPrompt: func(int, []scored) {},
		onPiece:  func(_, j int, p piece) { q.add(replies[j], p) },
	}
	if err := q.do(c.r.Context(), all); err != nil {
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
		meter: newMeter(q.work),
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
	err := q.do(ctx, all)
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

// Package openai implements OpenAI's endpoints: chat completions, completions, responses, embeddings, models, files and
// batches. It adds vLLM's fields and endpoints for tokens, which evaluation harnesses need.
package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	reply.Sampling
	reply.Continued
	chatPrompt
	reply.Mounting
	Logprobs            bool `json:"logprobs"`
	TopLogprobs         *int `json:"top_logprobs"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	promptScores
	reply.Guided
}

// chatPrompt has the fields that determine the prompt of a chat.
type chatPrompt struct {
	Messages  []reply.Message            `json:"messages"`
	Variables map[string]json.RawMessage `json:"chat_template_kwargs"`
	Effort    string                     `json:"reasoning_effort"`
	reply.ToolRequest
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
	// Reasoning precedes the reply, if the model's template marks it.
	Reasoning string           `json:"reasoning_content,omitempty"`
	Calls     []reply.ToolCall `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`

	Receipt json.RawMessage `json:"receipt,omitempty"`
}

// ChatCompletion is the response of /v1/chat/completions, and each event of a stream.
type ChatCompletion = textObject[chatChoice]

// chatJob is one request of /v1/chat/completions.
type chatJob struct {
	chatRequest
	job    *reply.Job
	dialog *reply.Dialog
	frame  ChatCompletion // without choices
}

func (s *Texts) ChatCompletions(c *request.Call) error {
	var q chatJob
	if err := c.Read(&q.chatRequest); err != nil {
		return err
	}
	if err := s.prepareChat(&q, c); err != nil {
		return err
	}
	return s.Reply(c, &q, q.Stream, request.SSEFailed)
}

// prepareChat checks a request and prepares its job.
func (s *Texts) prepareChat(q *chatJob, c *request.Call) error {
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	param := "max_tokens"
	if q.MaxCompletionTokens != nil {
		q.MaxTokens, param = q.MaxCompletionTokens, "max_completion_tokens"
	}
	asked := q.MaxTokens
	o, err := q.Replies(&s.Service, m, m.Defaults(0))
	if err != nil {
		return err
	}
	format, guide, err := q.Guide()
	if err == nil {
		err = q.Continued.Check()
	}
	if err != nil {
		return err
	}
	top := request.Or(q.TopLogprobs, 0)
	var ch request.Checks
	ch.Range(request.Or(asked, 1), 1, s.Limits.MaxTokens, param)
	ch.Range(top, 0, reply.MaxTop, "top_logprobs")
	ch.That(q.TopLogprobs == nil || q.Logprobs, "top_logprobs", "found %d, want logprobs true with it", top)
	ch.That(len(q.Messages) > 0, "messages", "found none, want at least one")
	if ch.Err != nil {
		return ch.Err
	}
	q.job = &reply.Job{Model: m, Client: c.Client(), Call: c, Draws: request.Or(q.N, 1), Top: -1,
		Receipts: s.Receipts(q.Receipt)}
	if q.Logprobs {
		q.job.Top = top
	}
	if err := q.score(q.job, q.Stream); err != nil {
		return err
	}
	if q.job.Mounts, err = s.Mounts(c, m, q.Mounting); err != nil {
		return err
	}
	q.dialog, err = reply.Converse(c.Request.Context(), m, "messages", &reply.Chat{
		Messages: q.Messages, Tools: q.ToolRequest, Format: format, Param: guide,
		More: reply.WithEffort(q.Variables, q.Effort), Continue: q.Continue, Mounts: q.job.Mounts,
	})
	if err != nil {
		return err
	}
	ids := q.dialog.IDs
	o.Constraint = q.dialog.Constraint
	o.MaxTokens = s.ReplyTokens(m, asked, o.MaxTokens, len(ids))
	if err := m.Check("messages", ids, s.Limits.MaxPrompt, o.MaxTokens); err != nil {
		return err
	}
	q.job.Options, q.job.Prompts, q.job.Ends = o, [][]int32{ids}, []int{q.dialog.Mounted}
	q.job.Ended = q.job.ReadAhead(q.dialog, false)
	q.frame = ChatCompletion{ID: "chatcmpl-" + rand.Text(), Created: time.Now().Unix(), Model: m.Name}
	return nil
}

// logprobs returns the log-probabilities of tokens in a chat's form.
func logprobs(m *host.Model, tokens []reply.Placed) (out []chatLogprob) {
	for _, t := range tokens {
		one, top := logprob(m, t.ID, t.LogProb), make([]chatLogprob, 0, len(t.Top))
		for _, other := range t.Top {
			top = append(top, logprob(m, other.ID, other.LogProb))
		}
		one.Top = &top
		out = append(out, one)
	}
	return out
}

// logprob returns the log-probability of a token in a chat's form.
func logprob(m *host.Model, id int32, logProb float64) chatLogprob {
	data := m.Tokenizer.Decode(nil, []int32{id})
	out := chatLogprob{Token: m.TokenText(id), LogProb: host.JSONLogProb(logProb), Bytes: make([]int, len(data))}
	for i, x := range data {
		out.Bytes[i] = int(x)
	}
	return out
}

// chatReply is a reply that is being generated.
type chatReply struct {
	*reply.Reply
	split  *reply.Splitter
	said   reply.Delta // not yet sent
	tokens []chatLogprob
	end    *string

	receipt json.RawMessage
}

// add appends a piece. It omits the log-probability of the token that ends a reply.
func (q *chatJob) add(r *chatReply, p reply.Piece) {
	r.said.Add(r.split.Push(p.Text, p.End != ""))
	if r.end = reply.Finish(p.End); p.End != "" && p.End != generate.EndLength && r.split.Called > 0 {
		r.end = &callsFinish
	}
	r.receipt = p.Receipt
	tokens := r.Take(p)
	if p.End == generate.EndText && len(tokens) > 0 {
		tokens = tokens[:len(tokens)-1]
	}
	if !q.Logprobs {
		return
	}
	r.tokens = append(r.tokens, logprobs(q.job.Model, tokens)...)
}

// logprobs returns the log-probabilities of a reply's tokens, or nil if they are not wanted.
func (q *chatJob) logprobs(r *chatReply) *chatLogprobs {
	if !q.Logprobs {
		return nil
	}
	tokens := r.tokens
	if tokens == nil {
		tokens = []chatLogprob{}
	}
	return &chatLogprobs{Content: tokens}
}

// begin returns the replies, which are empty.
func (q *chatJob) begin() []*chatReply {
	replies := make([]*chatReply, q.job.Draws)
	for j := range replies {
		replies[j] = &chatReply{Reply: reply.New(q.job, 0), split: q.dialog.Split()}
	}
	return replies
}

// Respond runs the job and returns the response.
func (q *chatJob) Respond(c *request.Call) (any, error) {
	replies := q.begin()
	response := q.frame
	used, err := q.job.Run(c.Request.Context(), func(_ int, ids []host.Token) {
		response.Prompt = q.promptScores.of(q.job.Model, ids)
	}, func(_, j int, p reply.Piece) { q.add(replies[j], p) })
	if err != nil {
		return nil, err
	}
	response.Object, response.Usage = "chat.completion", &used
	for j, r := range replies {
		message := messageOf(&r.said, false)
		message.Role = host.AssistantRole
		response.Choices = append(response.Choices, chatChoice{
			Index: j, Message: message, Logprobs: q.logprobs(r), Finish: r.end, Receipt: r.receipt,
		})
	}
	return &response, nil
}

// Send runs the job and sends each piece as it is generated.
func (q *chatJob) Send(ctx context.Context, to *request.Queue) error {
	replies := q.begin()
	q.frame.Object = "chat.completion.chunk"
	frames := q.frame.frames(q.StreamOptions.IncludeUsage)
	send := func(choice chatChoice) { to.Add(frames.of(&choice)) }
	used, err := q.job.Run(ctx, func(int, []host.Token) {
		for j := range replies {
			send(chatChoice{Index: j, Delta: &chatMessage{Role: host.AssistantRole, Content: new(string)}})
		}
	}, func(_, j int, p reply.Piece) {
		r := replies[j]
		q.add(r, p)
		if r.said.Some() || len(r.tokens) > 0 {
			send(chatChoice{Index: j, Delta: messageOf(&r.said, true), Logprobs: q.logprobs(r)})
		}
		if r.end != nil {
			send(chatChoice{Index: j, Delta: &chatMessage{}, Finish: r.end, Receipt: r.receipt})
		}
		r.said, r.tokens = reply.Delta{}, nil
	})
	if err != nil {
		return err
	}
	q.frame.end(to, &used, q.StreamOptions.IncludeUsage)
	return nil
}

// messageOf returns a delta as an OpenAI message, or as a part of one in a stream. A complete message has a content,
// unless it calls functions.
func messageOf(s *reply.Delta, streams bool) *chatMessage {
	m := &chatMessage{Reasoning: s.Reasoning, Calls: s.Calls}
	if s.Content != "" || s.Reasoning == "" && len(s.Calls) == 0 || !streams && len(s.Calls) == 0 {
		m.Content = &s.Content
	}
	if !streams {
		for i := range m.Calls {
			m.Calls[i].Index = nil
		}
	}
	return m
}

// callsFinish is OpenAI's finish reason of a reply that calls functions.
var callsFinish = "tool_calls"

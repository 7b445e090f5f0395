// Package anthropic implements Anthropic's endpoints /v1/messages, count_tokens and batches, in version 2023-06-01
// (https://platform.claude.com/docs/en/api/messages).
package anthropic

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Handler serves Anthropic's endpoints.
type Handler struct {
	reply.Service
	Ping time.Duration // time between events that keep a stream's connection open
}

// New returns a handler.
func New(of reply.Service) *Handler {
	const ping = 10 * time.Second
	return &Handler{Service: of, Ping: ping}
}

// messageRequest is the body of /v1/messages. It also has the fields of other endpoints that configure sampling.
type messageRequest struct {
	reply.Sampling
	conversation
	Stops request.Strings `json:"stop_sequences"`
}

// Message is a reply.
type Message struct {
	ID      string  `json:"id"`
	Type    string  `json:"type"`
	Role    string  `json:"role"`
	Model   string  `json:"model"`
	Content []Block `json:"content"`
	ending
	Usage   Usage           `json:"usage"`
	Receipt json.RawMessage `json:"receipt,omitempty"` // not Anthropic's
}

// ending is the reason why a reply has ended, null while it has not.
type ending struct {
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
}

// Usage counts tokens. Input, CacheRead and CacheCreation add up to the prompt.
type Usage struct {
	Input         int          `json:"input_tokens"`
	CacheCreation int          `json:"cache_creation_input_tokens"`
	CacheRead     int          `json:"cache_read_input_tokens"`
	Output        int          `json:"output_tokens"`
	Details       usageDetails `json:"output_tokens_details"`
}

type usageDetails struct {
	Thinking int `json:"thinking_tokens"`
}

// messageJob is one request of /v1/messages.
type messageJob struct {
	messageRequest
	server *Handler
	job    *reply.Job
	dialog *reply.Dialog
	window bool // the reply is limited by the model's length, not by max_tokens
	answer Message
}

// Messages responds to /v1/messages with a reply to a conversation.
func (s *Handler) Messages(c *request.Call) error {
	q := &messageJob{server: s}
	if err := read(c, &q.messageRequest); err != nil {
		return err
	}
	if err := q.prepare(c); err != nil {
		return err
	}
	return s.Reply(c, q, q.Stream, func(e *request.Error) []byte { return errorEvent(c, e) })
}

// CountTokens responds to /v1/messages/count_tokens with the number of tokens of a prompt.
func (s *Handler) CountTokens(c *request.Call) error {
	var q countRequest
	if err := read(c, &q); err != nil {
		return err
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	chat, err := q.chat(m)
	if err == nil {
		chat.Mounts, err = s.Mounts(c, m, q.Mounting)
	}
	if err != nil {
		return err
	}
	d, err := reply.Converse(c.Request.Context(), m, "messages", chat)
	if err != nil {
		return err
	}
	return c.JSON(map[string]int{"input_tokens": len(d.IDs)})
}

// countRequest is the body of /v1/messages/count_tokens.
type countRequest struct {
	Model string `json:"model"`
	conversation
}

// versionHeader is the header with the API version that a client uses.
const versionHeader = "anthropic-version"

// versions are those that clients send: npm's client sends the second from 1.0 on.
var versions = []string{"2023-06-01", "2026-10-21"}

// Speaks reports whether a request uses Anthropic's dialect.
func Speaks(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/messages") || r.Header.Get(versionHeader) != ""
}

// read reads a request and checks its version, if it has one.
func read(c *request.Call, into any) error {
	found := c.Request.Header.Get(versionHeader)
	if found != "" && !slices.Contains(versions, found) {
		return request.Invalid(versionHeader, "found %.40q in the header, want one of %q", found, versions)
	}
	return c.Read(into)
}

// prepare checks a request and prepares its job.
func (q *messageJob) prepare(c *request.Call) error {
	s := q.server
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	if q.MaxTokens == nil {
		return request.Invalid("max_tokens", "found none, want the most tokens of the reply")
	}
	most := *q.MaxTokens
	var ch request.Checks
	ch.That(most >= 0, "max_tokens", "found %d, want an integer from 0 up", most)
	ch.That(most == 0 || q.Thinking.budget() < most, "thinking",
		"budget_tokens: found %d, want fewer than max_tokens, %d", q.Thinking.budget(), most)
	if ch.Err != nil {
		return ch.Err
	}
	// Clients send the maximum length of any model. A larger value than this server allows is not a mistake.
	most = min(most, s.Limits.MaxTokens)
	q.MaxTokens, q.Stop = &most, q.Stops
	o, err := q.Replies(&s.Service, m, m.Defaults(0))
	var e *request.Error
	if errors.As(err, &e) && e.Param == "stop" {
		return request.Invalid("stop_sequences", "%s", strings.TrimPrefix(e.Message, "stop: "))
	}
	if err != nil {
		return err
	}
	chat, err := q.chat(m)
	if err == nil {
		chat.Mounts, err = s.Mounts(c, m, q.Mounting)
	}
	if err != nil {
		return err
	}
	q.job = &reply.Job{Model: m, Client: c.Client(), Call: c, Draws: 1, Top: -1, Receipts: s.Receipts(q.Receipt),
		Mounts: chat.Mounts}
	if q.dialog, err = reply.Converse(c.Request.Context(), m, "messages", chat); err != nil {
		return err
	}
	ids := q.dialog.IDs
	o.Constraint, o.MaxTokens = q.dialog.Constraint, most
	if length := m.Net.MaxLength(); length > 0 && most > max(1, length-len(ids)) {
		o.MaxTokens, q.window = max(1, length-len(ids)), true
	}
	if err := m.Check("messages", ids, s.Limits.MaxPrompt, o.MaxTokens); err != nil {
		return err
	}
	q.job.Options, q.job.Prompts, q.job.Ends = o, [][]int32{ids}, []int{q.dialog.Mounted}
	q.job.Ended = q.job.ReadAhead(q.dialog, true)
	q.answer = Message{
		ID: "msg_" + rand.Text(), Type: "message", Role: host.AssistantRole, Model: m.Name, Content: []Block{},
	}
	return nil
}

// Respond runs the job and returns the response.
func (q *messageJob) Respond(c *request.Call) (any, error) {
	if err := q.run(c.Request.Context(), func(event) {}); err != nil {
		return nil, err
	}
	return &q.answer, nil
}

// Send runs the job and sends each event as it occurs. Until the prompt has been read, it sends only pings.
func (q *messageJob) Send(ctx context.Context, to *request.Queue) error {
	pings := time.NewTicker(q.server.Ping)
	ended, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		for {
			select {
			case <-pings.C:
				to.Add(event{Type: "ping"}.bytes())
			case <-ended:
				return
			}
		}
	}()
	defer func() {
		pings.Stop()
		close(ended)
		<-left // no ping follows the end
	}()
	return q.run(ctx, func(e event) { to.Add(e.bytes()) })
}

// run runs the job and reports each event.
func (q *messageJob) run(ctx context.Context, tell func(event)) error {
	w := &writer{q: q, tell: tell, split: q.dialog.Split()}
	used, err := q.job.Run(ctx, func(int, []host.Token) {
		q.count(reply.Usage{Details: q.job.Found})
		tell(event{Type: "message_start", Message: &q.answer})
	}, func(_, _ int, p reply.Piece) { w.add(p) })
	if err != nil {
		return err
	}
	q.count(used)
	q.answer.Usage.Details.Thinking = w.thoughts
	tell(event{Type: "message_delta", Delta: &q.answer.ending, Usage: &q.answer.Usage,
		Receipt: q.answer.Receipt})
	tell(event{Type: "message_stop"})
	return nil
}

// count sets the usage. Newly read tokens that are now cached count as written to the cache if the request asked for
// caching.
func (q *messageJob) count(used reply.Usage) {
	u := &q.answer.Usage
	u.CacheRead, u.Output = used.Details.Cached, used.Completion
	if q.caches() {
		u.CacheCreation = used.Details.Kept - used.Details.Cached
	}
	u.Input = len(q.dialog.IDs) - u.CacheRead - u.CacheCreation
}

// Reasons for the end of a reply.
const (
	stopTurn     = "end_turn"
	stopLength   = "max_tokens"
	stopSequence = "stop_sequence"
	stopTool     = "tool_use"
	stopWindow   = "model_context_window_exceeded"
)

// end sets the reason for the end of the reply.
func (q *messageJob) end(p reply.Piece, calls int) {
	reason := stopTurn
	q.answer.Receipt = p.Receipt
	switch {
	case p.End == generate.EndLength && q.window:
		reason = stopWindow
	case p.End == generate.EndLength:
		reason = stopLength
	case calls > 0:
		reason = stopTool
	case slices.Contains(q.Stops, p.Stop): // and not one of the model's own stops
		reason = stopSequence
		q.answer.StopSequence = &p.Stop
	}
	q.answer.StopReason = &reason
}

// Fail writes an error as Anthropic does.
func Fail(c *request.Call, e *request.Error) {
	c.Send(e.Status, "application/json", append(request.JSON(newFailure(c, e)), '\n')) // fails if the client is gone
}

// failure is an error in Anthropic's form.
type failure struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func newFailure(c *request.Call, e *request.Error) *failure {
	f := &failure{Type: "error", RequestID: c.ID}
	f.Error.Message, f.Error.Type = e.Short(), e.Kind()
	switch e.Status {
	case http.StatusNotFound:
		f.Error.Type = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		f.Error.Type = "request_too_large"
	case http.StatusServiceUnavailable:
		f.Error.Type = "overloaded_error"
	default:
		if e.Status >= http.StatusInternalServerError {
			f.Error.Type = "api_error"
		}
	}
	return f
}

package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer/template"
)

// responseRequest is the body of /v1/responses.
type responseRequest struct {
	sampling
	Input        responseInput     `json:"input"`
	Instructions string            `json:"instructions"`
	Previous     string            `json:"previous_response_id"`
	Store        *bool             `json:"store"`
	MaxOutput    *int              `json:"max_output_tokens"`
	Metadata     map[string]string `json:"metadata"`
	Text         responseText      `json:"text"`
	TopLogprobs  *int              `json:"top_logprobs"`
	Include      []string          `json:"include"`
	Tools        []json.RawMessage `json:"tools"`
	Background   bool              `json:"background"`
	Conversation json.RawMessage   `json:"conversation"`
	Prompt       json.RawMessage   `json:"prompt"`
}

type responseText struct {
	Format responseFormat `json:"format"`
}

// responseInput is messages: those of a list, or one of the user.
type responseInput []message

const inputForms = "a string or a list of messages"

func (q *responseInput) UnmarshalJSON(data []byte) error {
	if isText(data) {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*q = responseInput{{template.Text(userRole, text)}}
		return nil
	}
	var items []json.RawMessage
	if err := unmarshalList(data, &items, inputForms); err != nil {
		return err
	}
	*q = nil
	for i, item := range items {
		m, err := inputMessage(item)
		if err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		*q = append(*q, m)
	}
	return nil
}

// inputMessage is the message of an item of the input.
func inputMessage(data []byte) (m message, err error) {
	var item struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &item); err != nil {
		return m, errors.New(describe(err))
	}
	if item.Type != "" && item.Type != "message" {
		return m, fmt.Errorf("found an item of the type %.40q, want message", item.Type)
	}
	role := item.Role
	switch role {
	case "developer":
		role = systemRole
	case systemRole, userRole, assistantRole:
	default:
		return m, fmt.Errorf("role: found %.40q, want user, assistant, system or developer", role)
	}
	var text string
	switch {
	case isText(item.Content):
		err = json.Unmarshal(item.Content, &text)
	case bytes.HasPrefix(item.Content, []byte{'['}):
		text, err = joinParts(item.Content)
	default:
		err = fmt.Errorf("content: found %s, want a string or a list of parts", shorten(item.Content))
	}
	return message{template.Text(role, text)}, err
}

// responding is one request of /v1/responses.
type responding struct {
	responseRequest
	*work
	server   *Server
	object   responseObject
	messages []message // all that the prompt says, the instructions first
	record   responseRecord
	mark     *session.Snapshot // behind the reply
	events   *eventWriter      // of a stream
}

func (s *Server) responses(c *call) error {
	q := &responding{server: s}
	if err := s.readBody(c.w, c.r, &q.responseRequest); err != nil {
		return err
	}
	if err := s.prepareResponse(q, c); err != nil {
		return err
	}
	if err := s.enter(c); err != nil {
		return err
	}
	defer s.admit.leave()
	if q.Stream {
		return s.carry(c, "text/event-stream", func(ctx context.Context, to *queue) error {
			return q.stream(ctx, c, to)
		}, q.failed)
	}
	if err := q.run(c.r.Context(), c, func() {}, func(piece) {}); err != nil {
		return err
	}
	return c.json(&q.object)
}

// prepareResponse checks a request and says what work it is.
func (s *Server) prepareResponse(q *responding, c *call) error {
	previous, err := s.previous(c, q.Previous)
	if err != nil {
		return err
	}
	if q.Model == "" && previous != nil {
		q.Model = previous.Model
	}
	m, err := s.model(c, q.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	if err := q.check(s); err != nil {
		return err
	}
	q.N = nil
	o, err := q.replies(s, m, m.defaults(0))
	if err != nil {
		return err
	}
	q.work = &work{model: m, client: c.client(), call: c, draws: 1, top: -1}
	if q.TopLogprobs != nil || len(q.Include) > 0 {
		q.top = or(q.TopLogprobs, 0)
	}
	q.record = responseRecord{Model: m.name, Identity: m.identity(), Instructions: q.Instructions, Input: q.Input}
	if previous != nil {
		q.record.Messages = previous.Messages
	}
	before := len(q.record.Messages)
	q.record.Messages = append(q.record.Messages[:before:before], q.Input...)
	if q.messages = q.record.Messages; q.Instructions != "" {
		q.messages = append([]message{{template.Text(systemRole, q.Instructions)}}, q.messages...)
	}
	plan, err := q.plans(c.r.Context(), previous)
	if err != nil {
		return err
	}
	ids := joined(plan)
	o.MaxTokens = s.replyTokens(m, q.MaxOutput, o.MaxTokens, len(ids))
	if err := m.check("input", ids, s.o.MaxPrompt, o.MaxTokens); err != nil {
		return err
	}
	q.options, q.prompts, q.plan = o, [][]int32{ids}, plan
	q.object = newResponseObject(q, o)
	q.ended = q.keepState
	return nil
}

// Limits of metadata, as OpenAI has them.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// check checks the fields.
func (q *responding) check(s *Server) error {
	var ch checks
	asked, top := or(q.MaxOutput, 1), or(q.TopLogprobs, 0)
	none := func(param string, raw json.RawMessage, why string) {
		ch.that(len(raw) == 0 || string(raw) == "null", param, "found %s, want none: %s", shorten(raw), why)
	}
	ch.that(len(q.Input) > 0, "input", "found nothing, want %s", inputForms)
	ch.that(asked >= 1 && asked <= s.o.MaxTokens, "max_output_tokens", "found %d, want an integer from 1 to %d", asked,
		s.o.MaxTokens)
	ch.that(top >= 0 && top <= maxTop, "top_logprobs", "found %d, want an integer from 0 to %d", top, maxTop)
	ch.that(len(q.Tools) == 0, "tools", "found %d, want none: this endpoint does not call tools", len(q.Tools))
	ch.that(q.Text.Format.Type == "" || q.Text.Format.Type == "text", "text", "found the format %.40q, want text",
		q.Text.Format.Type)
	ch.that(!q.Background, "background", "found true, want false: a response is made while its client waits")
	none("conversation", q.Conversation, "previous_response_id goes on after a response")
	none("prompt", q.Prompt, "this server has no templates of prompts")
	for _, what := range q.Include {
		ch.that(what == includeLogprobs, "include", "found %.60q, want %s", what, includeLogprobs)
	}
	if ch.err == nil {
		ch.err = checkMetadata(q.Metadata)
	}
	return ch.err
}

// checkMetadata checks the pairs that a client gives something.
func checkMetadata(pairs map[string]string) error {
	var ch checks
	ch.that(len(pairs) <= maxMetadata, "metadata", "found %d pairs, want at most %d", len(pairs), maxMetadata)
	for key, value := range pairs {
		ch.that(len(key) <= maxMetadataKey && len(value) <= maxMetadataValue, "metadata",
			"found a key of %d bytes and a value of %d, want at most %d and %d", len(key), len(value), maxMetadataKey,
			maxMetadataValue)
	}
	return ch.err
}

const includeLogprobs = "message.output_text.logprobs"

// plans is how the prompt is read. Behind an earlier response it is the state there, and what the template puts behind
// its text: nothing before that is read again. Where the template does not simply go on, or other instructions stand at
// the beginning, the prompt is that of a chat.
func (q *responding) plans(ctx context.Context, previous *responseRecord) ([]session.Segment, error) {
	if previous != nil && len(previous.Plan) > 0 && previous.Identity == q.record.Identity &&
		previous.Instructions == q.Instructions {
		more, ok, err := q.behind(ctx, previous)
		if err != nil {
			return nil, err
		}
		if ok {
			plan := segments(previous.Plan)
			return append(plan, session.Segment{IDs: more}), nil
		}
	}
	ids, err := q.model.encodeChat(ctx, "input", q.messages)
	return []session.Segment{{IDs: ids}}, err
}

// behind is the ids that go on behind the reply of an earlier response, if the template simply goes on there.
func (q *responding) behind(ctx context.Context, previous *responseRecord) (ids []int32, ok bool, err error) {
	n := len(q.messages) - len(q.Input) // messages up to the earlier reply
	before, err := q.model.chatText(ctx, "input", q.messages[:n-1])
	if err != nil {
		return nil, false, err
	}
	all, err := q.model.chatText(ctx, "input", q.messages)
	if err != nil {
		return nil, false, err
	}
	more, ok := strings.CutPrefix(all, before+q.messages[n-1].Content())
	if !ok || more == "" {
		return nil, false, nil
	}
	ids, err = q.model.tok.Encode(nil, []byte(more))
	if err != nil {
		return nil, false, wrong("input", "%v", err)
	}
	// A tokenizer that puts something before every text cannot go on inside of one.
	return ids, string(q.model.tok.Decode(nil, ids)) == more, nil
}

// keepState notes what the next response needs to go on behind this reply.
func (q *responding) keepState(_, _ int, d drawn) {
	q.record.Messages = append(q.record.Messages, message{template.Text(assistantRole, d.text)})
	if !or(q.Store, true) || d.end == generate.EndStop { // behind the stop string is not where the text ends
		return
	}
	ids := d.ids
	if d.end == generate.EndText {
		ids = ids[:len(ids)-1]
	}
	q.record.Plan = planParts(append(q.plan[:len(q.plan):len(q.plan)], session.Segment{IDs: ids, Drawn: true}))
	if len(d.ids) > 1 {
		q.mark = session.Take(d.at)
	}
}

// run does the work, calls begin when the prompt has been read, and each with every piece, and keeps the response.
func (q *responding) run(ctx context.Context, c *call, begin func(), each func(p piece)) error {
	r := q.model.newReply(0)
	all := &parts{
		meter:    newMeter(q.work),
		onPrompt: func(int, []scored) { begin() },
		onPiece: func(_, _ int, p piece) {
			q.object.add(q, r, p)
			each(p)
		},
	}
	err := q.do(ctx, all)
	all.logged(c)
	if err != nil {
		return err
	}
	q.object.finish(all.used())
	if or(q.Store, true) {
		q.keep(context.WithoutCancel(ctx), c)
	} else {
		q.model.reread(q.client, inputOf(q.replied()))
	}
	return nil
}

// replied are all messages with the reply.
func (q *responding) replied() []message {
	n := len(q.messages)
	return append(q.messages[:n:n], q.record.Messages[len(q.record.Messages)-1])
}

// keep keeps the response and the state behind it. Where it cannot, the answer says so.
func (q *responding) keep(ctx context.Context, c *call) {
	if len(q.record.Plan) == 0 {
		q.model.reread(q.client, inputOf(q.replied()))
	}
	q.record.Response = q.object
	if err := q.server.keepResponse(c.owner(), &q.record); err != nil {
		q.server.o.Log.Warn("a response could not be kept", "request", c.id, "error", err.Error())
		q.object.Store, q.object.StoreError = false, "the response could not be kept: "+err.Error()
		return
	}
	if q.mark != nil && q.model.texts != nil {
		_ = q.model.texts.Put(ctx, part(segments(q.record.Plan), q.mark.Position), nil, q.mark) // it is at a cut
	}
}

// part is the first n ids of a plan.
func part(plan []session.Segment, n int) (out []session.Segment) {
	for _, s := range plan {
		k := min(n, len(s.IDs))
		if k > 0 {
			out = append(out, session.Segment{IDs: s.IDs[:k], Drawn: s.Drawn})
		}
		n -= k
	}
	return out
}

// joined are the ids of a plan.
func joined(plan []session.Segment) (ids []int32) {
	for _, s := range plan {
		ids = append(ids, s.IDs...)
	}
	return ids
}

// newResponseID is an id that no other response has.
func newResponseID() string { return responsePrefix + rand.Text() }

const responsePrefix = "resp_"

// now is the time in an object, in seconds.
func now() int64 { return time.Now().Unix() }

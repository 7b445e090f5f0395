package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/session"
)

// openaiResponses makes responses, and stores them for their clients.
type openaiResponses struct {
	service
	o     responseOptions
	store *records
	bytes atomic.Int64 // of responses that were stored since old ones were last looked for
}

// responseOptions bound what is stored of responses.
type responseOptions struct {
	MaxResponses int           // of a client; the oldest are removed first
	MaxBytes     int64         // of all responses of a client
	KeepFor      time.Duration // after which one is removed
	Log          *slog.Logger
}

func newOpenaiResponses(of service, store *records, o responseOptions) *openaiResponses {
	s := &openaiResponses{service: of, o: o, store: store}
	store.onSweep(responsesKind, s.trimResponses)
	return s
}

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
	Reasoning    responseReasoning `json:"reasoning"`
	toolRequest
	Variables    map[string]json.RawMessage `json:"chat_template_kwargs"`
	Background   bool                       `json:"background"`
	Conversation json.RawMessage            `json:"conversation"`
	Prompt       json.RawMessage            `json:"prompt"`
}

// responseText is how a text is to be: the format as it was asked for.
type responseText struct {
	Format json.RawMessage `json:"format"`
}

// format is the format, that of any text where none is asked for.
func (t *responseText) format() (f responseFormat, err error) {
	if len(t.Format) == 0 || string(t.Format) == "null" {
		t.Format = json.RawMessage(`{"type":"text"}`)
	}
	if err := json.Unmarshal(t.Format, &f); err != nil {
		return f, wrong("text", "format: %s", describe(err))
	}
	return f, nil
}

// responseReasoning is how a model is to think before it replies.
type responseReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// responding is one request of /v1/responses.
type responding struct {
	responseRequest
	job      *work
	server   *openaiResponses
	object   responseObject
	said     int       // messages of the input
	messages []message // all that the prompt says, the instructions first
	dialog   *dialog
	record   responseRecord
	mark     *session.Snapshot // behind the reply
	events   *eventWriter      // of a stream
}

func (s *openaiResponses) responses(c *call) error {
	q := &responding{server: s}
	if err := c.read(&q.responseRequest); err != nil {
		return err
	}
	if err := s.prepareResponse(q, c); err != nil {
		return err
	}
	if err := c.enter(s.admit); err != nil {
		return err
	}
	defer s.admit.leave()
	if q.Stream {
		return c.carry("text/event-stream", func(ctx context.Context, to *queue) error {
			return q.stream(ctx, c, to)
		}, q.failed)
	}
	if err := q.run(c.r.Context(), c, func(responseEvent) {}); err != nil {
		return err
	}
	return c.json(&q.object)
}

// prepareResponse checks a request and says what work it is.
func (s *openaiResponses) prepareResponse(q *responding, c *call) error {
	previous, err := s.previous(c, q.Previous)
	if err != nil {
		return err
	}
	if q.Model == "" && previous != nil {
		q.Model = previous.Model
	}
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	if err := q.check(s); err != nil {
		return err
	}
	q.N = nil
	o, err := q.replies(&s.service, m, m.defaults(0))
	if err != nil {
		return err
	}
	q.job = &work{model: m, client: c.client(), call: c, draws: 1, top: -1}
	if q.TopLogprobs != nil || slices.Contains(q.Include, includeLogprobs) {
		q.job.top = or(q.TopLogprobs, 0)
	}
	q.record = responseRecord{Model: m.name, Identity: m.identity()}
	if previous != nil {
		q.record.Messages = previous.Messages
	}
	input, err := q.Input.drafts(s.references(c))
	if err != nil {
		return err
	}
	if q.record.Input, err = input.messages(q.record.Messages); err != nil {
		return err
	}
	if q.said = len(input); q.said == 0 {
		return wrong("input", "found nothing, want %s", inputForms)
	}
	before := len(q.record.Messages)
	q.record.Messages = append(q.record.Messages[:before:before], q.record.Input...)
	if q.messages = q.record.Messages; q.Instructions != "" {
		q.messages = append([]message{{template.Text(systemRole, q.Instructions)}}, q.messages...)
	}
	plan, err := q.plans(c.r.Context(), previous)
	if err != nil {
		return err
	}
	ids := planIDs(plan)
	o.Constraint = q.dialog.constraint
	o.MaxTokens = s.replyTokens(m, q.MaxOutput, o.MaxTokens, len(ids))
	if err := m.check("input", ids, s.limits.MaxPrompt, o.MaxTokens); err != nil {
		return err
	}
	q.job.options, q.job.prompts, q.job.plan = o, [][]int32{ids}, plan
	q.object = newResponseObject(q, o)
	q.job.ended = q.keepState
	return nil
}

// check checks the fields.
func (q *responding) check(s *openaiResponses) error {
	var ch checks
	asked, top := or(q.MaxOutput, 1), or(q.TopLogprobs, 0)
	none := func(param string, raw json.RawMessage, why string) {
		ch.that(len(raw) == 0 || string(raw) == "null", param, "found %s, want none: %s", shorten(raw), why)
	}
	ch.that(asked >= 1 && asked <= s.limits.MaxTokens, "max_output_tokens", "found %d, want an integer from 1 to %d", asked,
		s.limits.MaxTokens)
	ch.that(top >= 0 && top <= maxTop, "top_logprobs", "found %d, want an integer from 0 to %d", top, maxTop)
	ch.that(!q.Background, "background", "found true, want false: a response is made while its client waits")
	none("conversation", q.Conversation, "previous_response_id goes on after a response")
	none("prompt", q.Prompt, "this server has no templates of prompts")
	for _, what := range q.Include {
		ch.that(what == includeLogprobs || what == includeThoughts, "include", "found %.60q, want %s or %s", what,
			includeLogprobs, includeThoughts)
	}
	if ch.err == nil {
		ch.err = checkMetadata(q.Metadata)
	}
	return ch.err
}

// What may be included. Thoughts are there in any case, not encrypted.
const (
	includeLogprobs = "message.output_text.logprobs"
	includeThoughts = "reasoning.encrypted_content"
)

// plans is how the prompt is read. Behind an earlier response it is the state there, and what the template puts behind
// its text: nothing before that is read again. Where the template does not simply go on, or the text begins otherwise,
// by other instructions or tools, the prompt is that of a chat.
func (q *responding) plans(ctx context.Context, previous *responseRecord) ([]session.Segment, error) {
	c := &conversation{
		messages: q.messages, param: "text",
		tools: toolRequest{Choice: q.Choice, Parallel: q.Parallel},
		more:  withEffort(q.Variables, or(q.Reasoning.Effort, "")),
	}
	var err error
	if c.format, err = q.Text.format(); err != nil {
		return nil, err
	}
	if c.tools.Tools, err = nested(q.Tools); err != nil {
		return nil, err
	}
	var text string
	if q.dialog, text, err = compose(ctx, q.job.model, "input", c); err != nil {
		return nil, err
	}
	q.record.Prompt = digest(text)
	if previous != nil && len(previous.Plan) > 0 && q.job.model.wrote(previous.Identity) {
		more, ok, err := q.behind(ctx, previous, text)
		if err != nil {
			return nil, err
		}
		if ok {
			plan := segments(previous.Plan)
			return append(plan, session.Segment{IDs: more}), nil
		}
	}
	ids, err := q.job.model.tok.Encode(nil, []byte(text))
	if err != nil {
		return nil, wrong("input", "%v", err)
	}
	return []session.Segment{{IDs: ids}}, nil
}

// digest tells texts apart.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// behind is the ids that go on behind the reply of an earlier response, if the template simply goes on there.
func (q *responding) behind(ctx context.Context, previous *responseRecord, all string) (ids []int32, ok bool,
	err error) {
	in := q.dialog.in
	in.Messages = in.Messages[:len(in.Messages)-q.said-1] // up to the earlier reply
	before, err := q.job.model.render(ctx, "input", in)
	if err != nil {
		return nil, false, err
	}
	more, ok := strings.CutPrefix(all, before+previous.Reply)
	if !ok || more == "" || digest(before) != previous.Prompt {
		return nil, false, nil
	}
	ids, err = q.job.model.tok.Encode(nil, []byte(more))
	if err != nil {
		return nil, false, wrong("input", "%v", err)
	}
	// A tokenizer that puts something before every text cannot go on inside of one.
	return ids, string(q.job.model.tok.Decode(nil, ids)) == more, nil
}

// keepState notes what the next response needs to go on behind this reply.
func (q *responding) keepState(_, _ int, d drawn) {
	q.record.Reply = d.text
	if !or(q.Store, true) || d.end == generate.EndStop { // behind the stop string is not where the text ends
		return
	}
	ids := d.ids
	if d.end == generate.EndText {
		ids = ids[:len(ids)-1]
	}
	q.record.Plan = planParts(append(q.job.plan[:len(q.job.plan):len(q.job.plan)], session.Segment{IDs: ids, Drawn: true}))
	if len(d.ids) > 1 {
		q.mark = session.Take(d.at)
	}
}

// run does the work, tells each event, and keeps the response.
func (q *responding) run(ctx context.Context, c *call, tell func(responseEvent)) error {
	w := newOutputWriter(q, tell)
	all := &parts{
		meter:    newMeter(q.job),
		onPrompt: func(int, []scored) { w.begin() },
		onPiece:  func(_, _ int, p piece) { w.add(p) },
	}
	err := q.job.do(ctx, all)
	all.logged(c)
	if err != nil {
		return err
	}
	q.object.finish(all.used(), w.thoughts)
	reply := q.object.reply()
	m, err := reply.message()
	if err != nil {
		return err
	}
	q.record.Messages = append(q.record.Messages, m)
	if or(q.Store, true) {
		q.keep(context.WithoutCancel(ctx), c)
	}
	// What the next request begins with is read ahead where it is not behind the state. What functions answer is not
	// known.
	if (len(q.record.Plan) == 0 || reply.Content != q.record.Reply) && len(reply.Calls) == 0 {
		in := q.dialog.in
		in.Messages = append(in.Messages[:len(in.Messages):len(in.Messages)], m.Message)
		q.job.model.reread(q.job.client, in)
	}
	return nil
}

// keep keeps the response and the state behind it. Where it cannot, the answer says so.
func (q *responding) keep(ctx context.Context, c *call) {
	q.record.Response = q.object
	if err := q.server.keepResponse(c.owner(), &q.record); err != nil {
		q.server.o.Log.Warn("a response could not be kept", "request", c.id, "error", err.Error())
		q.object.Store, q.object.StoreError = false, "the response could not be kept: "+err.Error()
		return
	}
	if q.mark != nil && q.job.model.texts != nil {
		_ = q.job.model.texts.Put(ctx, planPrefix(segments(q.record.Plan), q.mark.Position), nil, q.mark) // it is at a cut
	}
}

// newResponseID is an id that no other response has.
func newResponseID() string { return responsePrefix + rand.Text() }

const responsePrefix = "resp_"

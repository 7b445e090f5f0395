package openai

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
)

// Responses creates responses, and stores them for their clients.
type Responses struct {
	reply.Service
	o     ResponsesOptions
	store *records.Store
	tasks tasks
	held  sync.Map     // names of the conversations in use
	bytes atomic.Int64 // stored since the last removal of old responses
}

// ResponsesOptions limit the stored responses.
type ResponsesOptions struct {
	MaxResponses int             // per client; the oldest are removed first
	MaxBytes     int64           // of all responses of a client
	KeepFor      time.Duration   // time after which a response is removed
	Running      context.Context // done when background responses must end
	Log          *slog.Logger
}

func NewResponses(of reply.Service, store *records.Store, o ResponsesOptions) *Responses {
	s := &Responses{Service: of, o: o, store: store, tasks: newTasks()}
	store.OnSweep(records.Responses, s.trimResponses)
	return s
}

// responseRequest is the body of /v1/responses.
type responseRequest struct {
	reply.Sampling
	responsePrompt
	Store       *bool             `json:"store"`
	Background  bool              `json:"background"`
	MaxOutput   *int              `json:"max_output_tokens"`
	Metadata    map[string]string `json:"metadata"`
	TopLogprobs *int              `json:"top_logprobs"`
	Include     []string          `json:"include"`
}

// responsePrompt has the fields that determine the prompt, of responses and of counts.
type responsePrompt struct {
	responsePast
	reply.Mounting
	Text      responseText      `json:"text"`
	Reasoning responseReasoning `json:"reasoning"`
	reply.ToolRequest
	Variables map[string]json.RawMessage `json:"chat_template_kwargs"`
}

// responsePast has the fields for the conversation so far, of responses, counts and compactions.
type responsePast struct {
	Input        responseInput   `json:"input"`
	Instructions string          `json:"instructions"`
	Previous     string          `json:"previous_response_id"`
	Conversation conversationRef `json:"conversation"`
}

// responseText is the requested format of the text.
type responseText struct {
	Format json.RawMessage `json:"format"`
}

// format returns the requested format, by default any text.
func (t *responseText) format() (f reply.Format, err error) {
	if len(t.Format) == 0 || string(t.Format) == "null" {
		t.Format = json.RawMessage(`{"type":"text"}`)
	}
	if err := json.Unmarshal(t.Format, &f); err != nil {
		return f, request.Invalid("text", "format: %s", request.DescribeJSON(err))
	}
	return f, nil
}

// responseReasoning configures the reasoning of the model.
type responseReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// responding is one request of /v1/responses.
type responding struct {
	responseRequest
	job      *reply.Job
	server   *Responses
	object   Response
	talk     *conversationRecord // the conversation that the response belongs to, or nil
	said     int                 // number of messages in the input
	counts   bool                // no reply follows, so the input may be empty
	messages []reply.Message     // all messages of the prompt, the instructions first
	dialog   *reply.Dialog
	record   responseRecord
	mark     *session.Snapshot // after the reply
	events   *eventWriter      // of a stream
	release  func()            // unlocks the conversation

	mu    sync.Mutex // guards object, which other requests may read while it is generated in the background
	begun bool       // the prompt has been read
}

func (s *Responses) Create(c *request.Call) error {
	q := &responding{server: s}
	if err := c.Read(&q.responseRequest); err != nil {
		return err
	}
	hold, err := s.hold(c, string(q.Conversation))
	if err != nil {
		return err
	}
	hold.Release = sync.OnceFunc(hold.Release)
	q.release = hold.Release
	defer func() { hold.Release() }()
	if err := s.prepareResponse(q, c); err != nil {
		return err
	}
	if q.Background {
		if err = q.checkBackground(c); err == nil {
			err = s.begin(q, c, &hold)
		}
		return err
	}
	if err := c.Enter(s.Admit); err != nil {
		return err
	}
	defer c.Leave(s.Admit)
	defer c.Until(hold.Lost)() // nothing computed after that could be stored
	if q.Stream {
		return c.Stream("text/event-stream", func(ctx context.Context, to *request.Queue) error {
			return q.stream(ctx, c, to)
		}, q.failed)
	}
	if err := q.run(c.Request.Context(), c, func(responseEvent) {}); err != nil {
		return err
	}
	return c.JSON(&q.object)
}

// prepareResponse checks a request and prepares its job.
func (s *Responses) prepareResponse(q *responding, c *request.Call) error {
	previous, err := s.before(q, c)
	if err != nil {
		return err
	}
	if q.Model == "" && previous != nil {
		q.Model = previous.Model
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	if err := q.check(s); err != nil {
		return err
	}
	q.MaxTokens = q.MaxOutput
	o, err := q.Replies(&s.Service, m, m.Defaults(0))
	if err != nil {
		return err
	}
	q.job = &reply.Job{Model: m, Client: c.Client(), Call: c, Draws: 1, Top: -1, Receipts: s.Receipts(q.Receipt)}
	if q.TopLogprobs != nil || slices.Contains(q.Include, includeLogprobs) {
		q.job.Top = request.Or(q.TopLogprobs, 0)
	}
	if q.job.Mounts, err = s.Mounts(c, m, q.Mounting); err != nil {
		return err
	}
	q.record = responseRecord{Model: m.Name, Identity: m.Identity()}
	if previous != nil {
		q.record.Messages = previous.Messages
	}
	input, err := q.Input.drafts(s.references(c, "input"))
	if err != nil {
		return err
	}
	if q.record.Input, err = reply.MessagesOf("input", input, q.record.Messages); err != nil {
		return err
	}
	if q.said = len(input); q.said == 0 && (!q.counts || len(q.record.Messages) == 0) {
		return request.Invalid("input", "found nothing, want %s", inputForms)
	}
	before := len(q.record.Messages)
	q.record.Messages = append(q.record.Messages[:before:before], q.record.Input...)
	if q.messages = q.record.Messages; q.Instructions != "" {
		q.messages = append([]reply.Message{reply.NewMessage(host.SystemRole, q.Instructions)}, q.messages...)
	}
	plan, err := q.plans(c.Request.Context(), previous)
	if err != nil {
		return err
	}
	ids := records.PlanIDs(plan)
	o.Constraint = q.dialog.Constraint
	o.MaxTokens = s.ReplyTokens(m, q.MaxOutput, o.MaxTokens, len(ids))
	if err := m.Check("input", ids, s.Limits.MaxPrompt, o.MaxTokens); err != nil {
		return err
	}
	q.job.Options, q.job.Prompts, q.job.Plan = o, [][]int32{ids}, plan
	q.object = newResponseObject(q, o)
	q.job.Ended = q.keepState
	return nil
}

// before returns the response or the conversation's last response that a request continues, or nil.
func (s *Responses) before(q *responding, c *request.Call) (*responseRecord, error) {
	if q.Conversation == "" {
		return s.previous(c, q.Previous)
	}
	if q.Previous != "" {
		return nil, request.Invalid("conversation", "found it beside previous_response_id, want one of the two")
	}
	var err error
	if q.talk, err = s.conversation(c, "conversation", string(q.Conversation)); err != nil {
		return nil, err
	}
	if err = q.talk.fits("conversation"); err != nil {
		return nil, err
	}
	r := &responseRecord{}
	if q.talk.Last != nil {
		*r = *q.talk.Last
	}
	r.Messages, err = q.talk.messages(s.references(c, "conversation"))
	return r, err
}

// check checks the fields.
func (q *responding) check(s *Responses) error {
	var ch request.Checks
	ch.Range(request.Or(q.MaxOutput, 1), 1, s.Limits.MaxTokens, "max_output_tokens")
	ch.Range(request.Or(q.TopLogprobs, 0), 0, reply.MaxTop, "top_logprobs")
	for _, what := range q.Include {
		ch.That(what == includeLogprobs || what == includeThoughts, "include", "found %.60q, want %s or %s", what,
			includeLogprobs, includeThoughts)
	}
	if ch.Err == nil {
		ch.Err = request.CheckMetadata(q.Metadata)
	}
	return ch.Err
}

// Values of include. Reasoning is always included, unencrypted.
const (
	includeLogprobs = "message.output_text.logprobs"
	includeThoughts = "reasoning.encrypted_content"
)

// plans chooses how the prompt is read. After an earlier response, it continues from the state there with the text that
// the template appends, so that nothing is read again. If the template does not simply append, or the instructions or
// tools have changed, the prompt is read as a chat.
func (q *responding) plans(ctx context.Context, previous *responseRecord) ([]session.Segment, error) {
	c := &reply.Chat{
		Messages: q.messages, Param: "text",
		Tools: reply.ToolRequest{Choice: q.Choice, Parallel: q.Parallel},
		More:  reply.WithEffort(q.Variables, request.Or(q.Reasoning.Effort, "")), Mounts: q.job.Mounts,
	}
	var err error
	if c.Format, err = q.Text.format(); err != nil {
		return nil, err
	}
	if c.Tools.Tools, err = nested(q.Tools); err != nil {
		return nil, err
	}
	var text string
	if q.dialog, text, err = reply.Compose(ctx, q.job.Model, "input", c); err != nil {
		return nil, err
	}
	q.record.Prompt = digest(text)
	if previous != nil && len(previous.Plan) > 0 && q.job.Model.HasIdentity(previous.Identity) {
		more, ok, err := q.behind(ctx, previous, text)
		if err != nil {
			return nil, err
		}
		if ok {
			plan := records.PlanSegments(previous.Plan)
			return append(plan, session.Segment{IDs: more}), nil
		}
	}
	ids, err := q.job.Model.Tokenizer.Encode(nil, []byte(text))
	if err != nil {
		return nil, request.Invalid("input", "%v", err)
	}
	q.job.Ends = []int{q.job.Mounts.End(q.job.Model, text, ids)}
	return []session.Segment{{IDs: ids}}, nil
}

// digest returns the hexadecimal SHA-256 of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// behind returns the ids that continue after an earlier response's reply. ok is false if the template does not simply
// append there.
func (q *responding) behind(ctx context.Context, previous *responseRecord, all string) (ids []int32, ok bool,
	err error) {
	in := q.dialog.Input
	in.Messages = in.Messages[:len(in.Messages)-q.said-1] // up to the earlier reply
	before, err := q.job.Model.Render(ctx, "input", in)
	if err != nil {
		return nil, false, err
	}
	more, ok := strings.CutPrefix(all, before+previous.Reply)
	if !ok || more == "" || digest(before) != previous.Prompt {
		return nil, false, nil
	}
	ids, err = q.job.Model.Tokenizer.Encode(nil, []byte(more))
	if err != nil {
		return nil, false, request.Invalid("input", "%v", err)
	}
	// A tokenizer that adds tokens before every text cannot continue inside one.
	return ids, string(q.job.Model.Tokenizer.Decode(nil, ids)) == more, nil
}

// keepState records what the next response needs in order to continue after this reply.
func (q *responding) keepState(_, _ int, d reply.Result) {
	q.record.Reply = d.Text
	// The reply's text does not include the stop string.
	if !request.Or(q.Store, true) && q.talk == nil || d.End == generate.EndStop {
		return
	}
	ids := d.IDs
	if d.End == generate.EndText {
		ids = ids[:len(ids)-1]
	}
	q.record.Plan = records.PlanParts(append(q.job.Plan[:len(q.job.Plan):len(q.job.Plan)],
		session.Segment{IDs: ids, Drawn: true}))
	if len(d.IDs) > 1 {
		q.mark = session.Take(d.At)
	}
}

// run runs the job, reports each event, and stores the response.
func (q *responding) run(ctx context.Context, c *request.Call, tell func(responseEvent)) error {
	w := newOutputWriter(q, tell)
	locked := func(f func()) {
		q.mu.Lock()
		defer q.mu.Unlock()
		f()
	}
	used, err := q.job.Run(ctx, func(int, []host.Token) { locked(w.begin) },
		func(_, _ int, p reply.Piece) { locked(func() { w.add(p) }) })
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.object.finish(used, w.thoughts)
	reply := q.object.reply()
	m, err := reply.Message()
	if err != nil {
		return err
	}
	q.record.Messages = append(q.record.Messages, m)
	if err := q.keep(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	q.release() // before the client has the response, since it may continue at once
	// Read the start of the next request ahead, unless it will continue from the state. Results of functions are
	// unknown.
	if (len(q.record.Plan) == 0 || reply.Content != q.record.Reply) && len(reply.Calls) == 0 {
		q.job.Model.ReadAhead(q.job.Client, c.Scope, host.WithMessage(q.dialog.Input, m.Message))
	}
	return nil
}

// keep stores the response, its conversation, and the state after it. An error is reported in the response or, with a
// strict store, returned.
func (q *responding) keep(ctx context.Context, c *request.Call) error {
	q.record.Response = q.object
	var err error
	if request.Or(q.Store, true) && !q.Background { // a background response is stored with its last event
		err = q.server.put(c.Owner(), q.object.ID, &q.record)
	}
	if q.talk != nil && q.Background { // fails if another server has ended it, as then nothing continues from it
		r := q.record
		r.Response.Status = responseRunning
		err = q.server.put(c.Owner(), q.object.ID, &r)
	}
	if q.talk != nil && err == nil {
		err = q.server.put(c.Owner(), q.talk.Conversation.ID, q.talk.after(&q.record))
	}
	if err != nil {
		q.server.o.Log.Warn("a response could not be kept", "request", c.ID, "error", err.Error())
		if q.server.store.Strict() {
			if !q.Background { // no client knows it
				_ = q.server.store.Remove(responseName(c.Owner(), q.object.ID))
			}
			return err
		}
		q.object.Store, q.object.StoreError = false, "the response could not be kept: "+err.Error()
		return nil
	}
	if texts := q.job.Model.TextsOf(ctx); q.mark != nil && texts != nil {
		_ = texts.Put(ctx, records.PlanPrefix(records.PlanSegments(q.record.Plan), q.mark.Position), nil,
			q.mark) // it is at a cut
	}
	return nil
}

// newResponseID returns a unique id.
func newResponseID(background bool) string {
	prefix := responsePrefix
	if background {
		prefix = records.Background
	}
	return prefix + rand.Text()
}

const responsePrefix = "resp_"

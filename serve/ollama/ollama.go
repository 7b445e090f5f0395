// Package ollama implements Ollama's endpoints under /api: generation, chats, embeddings, and the list, pull and
// deletion of models.
package ollama

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Handler serves Ollama's endpoints.
type Handler struct {
	reply.Service
	pulls chan struct{} // one element for each running pull
}

func New(of reply.Service) *Handler {
	return &Handler{Service: of, pulls: make(chan struct{}, maxPulls)}
}

// Fail writes an error as Ollama does.
func Fail(c *request.Call, e *request.Error) {
	c.Send(e.Status, "application/json", failed(e)) // fails if the client has disconnected
}

// chatRequest is the body of /api/generate and /api/chat.
type chatRequest struct {
	Model    string          `json:"model"`
	Prompt   string          `json:"prompt"`
	System   string          `json:"system"`
	Raw      bool            `json:"raw"`
	Context  []int32         `json:"context"`
	Messages []reply.Message `json:"messages"`
	Stream   *bool           `json:"stream"`
	Format   json.RawMessage `json:"format"`
	Think    json.RawMessage `json:"think"`
	reply.ToolRequest
	Options  optionFields `json:"options"`
	Logprobs bool         `json:"logprobs"`
	Top      int          `json:"top_logprobs"`
	Keep     keepAlive    `json:"keep_alive"`
	request.Salted
}

// optionFields are unparsed options.
type optionFields struct{ json.RawMessage }

// Schema returns the schema of the options.
func (*optionFields) Schema() request.Schema { return request.SchemaOf(reflect.TypeFor[options]()) }

// options are the options of a reply, with Ollama's meanings and defaults.
type options struct {
	Temperature      *float64        `json:"temperature"`
	TopK             *int            `json:"top_k"`
	TopP             *float64        `json:"top_p"`
	MinP             *float64        `json:"min_p"`
	Seed             *int64          `json:"seed"`
	Predict          *int            `json:"num_predict"`
	Stop             request.Strings `json:"stop"`
	RepeatPenalty    *float64        `json:"repeat_penalty"`
	RepeatLast       *int            `json:"repeat_last_n"`
	FrequencyPenalty *float64        `json:"frequency_penalty"`
	PresencePenalty  *float64        `json:"presence_penalty"`
}

// Response is one line of a response.
type Response struct {
	Model    string    `json:"model"`
	Created  time.Time `json:"created_at"`
	Response *string   `json:"response,omitempty"`
	Thinking string    `json:"thinking,omitempty"`
	Message  *message  `json:"message,omitempty"`
	Done     bool      `json:"done"`
	Reason   string    `json:"done_reason,omitempty"`
	Context  []int32   `json:"context,omitempty"`
	Logprobs []logprob `json:"logprobs,omitempty"`

	Total       time.Duration `json:"total_duration,omitempty"` // in nanoseconds, like the others
	Load        time.Duration `json:"load_duration,omitempty"`
	PromptCount int           `json:"prompt_eval_count,omitempty"`
	PromptTime  time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount   int           `json:"eval_count,omitempty"`
	EvalTime    time.Duration `json:"eval_duration,omitempty"`
}

type message struct {
	Role     string `json:"role"`
	Content  string `json:"content"`
	Thinking string `json:"thinking,omitempty"`
	Calls    []call `json:"tool_calls,omitempty"`
}

// chatJob is one request of /api/generate or /api/chat.
type chatJob struct {
	chatRequest
	job    *reply.Job
	dialog *reply.Dialog
	split  *reply.Splitter
	chats  bool
	tokens *reply.Reply // for log-probabilities; nil if they are not wanted
	scored []logprob    // not sent yet
	begun  time.Time
	read   time.Time // when the prompt had been read
	load   time.Duration
	ids    []int32 // ids of prompt and reply
}

func (s *Handler) Generate(c *request.Call) error { return s.respond(c, false) }

func (s *Handler) Chat(c *request.Call) error { return s.respond(c, true) }

// respond responds to /api/generate and /api/chat.
func (s *Handler) respond(c *request.Call, chats bool) error {
	q := &chatJob{chats: chats, begun: time.Now()}
	if err := c.Read(&q.chatRequest); err != nil {
		return err
	}
	if q.unloads() {
		if !c.Admin {
			e := request.ErrScope("admin")
			e.Message += ", which unloading a model needs"
			return e
		}
		if err := s.Host.Unload(c.Request.Context(), q.Model); err != nil {
			return err
		}
		q.job = &reply.Job{}
		return c.JSON(q.line(reply.Piece{End: endUnload}))
	}
	if err := s.prepareOllama(q, c); err != nil {
		return err
	}
	q.Keep.apply(c, s.Host, q.job.Model)
	if len(q.job.Prompts) == 0 { // the request only loads the model, which is done
		return c.JSON(q.line(reply.Piece{End: endLoad}))
	}
	if err := c.Enter(s.Admit); err != nil {
		return err
	}
	defer c.Leave(s.Admit)
	if request.Or(q.Stream, true) {
		return c.Stream("application/x-ndjson", func(ctx context.Context, to *request.Queue) error {
			return q.run(ctx, func(p reply.Piece) {
				line := q.line(p)
				if line == nil {
					return
				}
				if data, err := json.Marshal(line); err == nil {
					to.Add(data, []byte("\n"))
				}
			})
		}, failed)
	}
	var text strings.Builder
	last := reply.Piece{}
	if err := q.run(c.Request.Context(), func(p reply.Piece) {
		text.WriteString(p.Text)
		last = p
	}); err != nil {
		return err
	}
	last.Text = text.String()
	return c.JSON(q.line(last))
}

// failed returns an error as a line of a response, including a stream.
func failed(e *request.Error) []byte {
	data, err := json.Marshal(map[string]string{"error": e.Short()})
	if err != nil {
		return nil // a string can be encoded
	}
	return append(data, '\n')
}

// prepareOllama checks a request and prepares its job.
func (s *Handler) prepareOllama(q *chatJob, c *request.Call) error {
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	c.Note("model", m.Name)
	var ch request.Checks
	if q.chats {
		ch.That(q.Prompt == "", "prompt", "found a text, want messages: prompt is for /api/generate")
		ch.That(q.System == "", "system", "found a text, want a message of the role system")
		ch.That(len(q.Context) == 0, "context", "found %d tokens, want messages: it is for /api/generate",
			len(q.Context))
		ch.That(!q.Raw, "raw", "found true, want false: it is for /api/generate")
	}
	ch.That(q.chats || len(q.Messages) == 0, "messages", "found %d, want prompt: messages are for /api/chat",
		len(q.Messages))
	ch.That(q.chats || len(q.Tools) == 0, "tools", "found %d, want none: they are for /api/chat", len(q.Tools))
	ch.Range(q.Top, 0, reply.MaxTop, "top_logprobs")
	ch.That(q.Top == 0 || q.Logprobs, "top_logprobs", "found %d, want logprobs true with it", q.Top)
	if ch.Err != nil {
		return ch.Err
	}
	q.load = c.Load
	q.job = &reply.Job{Model: m, Client: c.Client(), Call: c, Draws: 1, Top: -1}
	if q.Logprobs {
		q.job.Top, q.tokens = q.Top, reply.New(q.job, 0)
	}
	if q.dialog, err = q.converse(c.Request.Context()); err != nil || q.dialog == nil {
		return err
	}
	if q.chats {
		q.job.Ended = q.job.ReadAhead(q.dialog, false)
	}
	ids := q.dialog.IDs
	q.split = q.dialog.Split()
	if q.job.Options, err = q.replyOptions(s, len(ids)); err != nil {
		return err
	}
	q.job.Options.Constraint = q.dialog.Constraint
	if err := m.Check("prompt", ids, s.Limits.MaxPrompt, q.job.Options.MaxTokens); err != nil {
		return err
	}
	q.job.Prompts, q.ids = [][]int32{ids}, ids
	return nil
}

// converse returns the prompt as a dialog, or nil if there is none.
func (q *chatJob) converse(ctx context.Context) (*reply.Dialog, error) {
	format, err := q.format()
	if err != nil {
		return nil, err
	}
	more, err := q.thinks()
	if err != nil {
		return nil, err
	}
	chat := &reply.Chat{Messages: q.Messages, Tools: q.ToolRequest, Format: format, Param: "format", More: more}
	if q.chats {
		if len(q.Messages) == 0 {
			return nil, nil
		}
		return reply.Converse(ctx, q.job.Model, "messages", chat)
	}
	if q.Prompt == "" {
		return nil, nil
	}
	var d *reply.Dialog
	if q.Raw || q.job.Model.Settings.Template == nil {
		d = &reply.Dialog{}
		if d.IDs, err = q.job.Model.Encode(request.Prompt{Text: q.System + q.Prompt}); err == nil {
			d.Constraint, err = reply.FormatConstraint(ctx, q.job.Model, chat.Param, format)
		}
	} else {
		chat.Messages = nil
		if q.System != "" {
			chat.Messages = append(chat.Messages, reply.NewMessage("system", q.System))
		}
		chat.Messages = append(chat.Messages, reply.NewMessage("user", q.Prompt))
		d, err = reply.Converse(ctx, q.job.Model, "prompt", chat)
	}
	if err != nil {
		return nil, err
	}
	d.IDs = append(q.Context[:len(q.Context):len(q.Context)], d.IDs...)
	return d, nil
}

// replyOptions returns the options of the reply to a prompt of n ids.
func (q *chatJob) replyOptions(s *Handler, n int) (generate.Options, error) {
	var o options
	if data := q.Options.RawMessage; len(data) > 0 && string(data) != "null" {
		if err := request.ReadObject(data, &o); err != nil {
			return generate.Options{}, err
		}
	}
	base := q.job.Model.Ends()
	base.Temperature, base.TopK, base.TopP, base.RepetitionPenalty, base.RepetitionWindow = 0.8, 40, 0.9, 1.1, 64
	q.job.Model.Settings.Defaults.Apply(&base)
	own := base.MaxTokens
	if last := request.Or(o.RepeatLast, base.RepetitionWindow); last != 0 { // -1 means all, which is 0 here
		base.RepetitionWindow = max(0, last)
	} else {
		base.RepetitionPenalty, o.RepeatPenalty = 1, nil
	}
	fields := reply.Sampling{
		Temperature: o.Temperature, TopP: o.TopP, Stop: o.Stop, Seed: o.Seed, TopK: o.TopK, MinP: o.MinP,
		FrequencyPenalty: o.FrequencyPenalty, PresencePenalty: o.PresencePenalty, RepetitionPenalty: o.RepeatPenalty,
	}
	if o.Seed != nil && *o.Seed < 0 { // a different seed each time
		seed := rand.Int64()
		fields.Seed = &seed
	}
	out, err := fields.Replies(&s.Service, q.job.Model, base)
	if err != nil {
		return out, err
	}
	asked := o.Predict
	if asked != nil && *asked < 0 { // up to the maximum length
		asked = nil
	}
	out.MaxTokens = max(1, min(s.Limits.MaxTokens, s.ReplyTokens(q.job.Model, asked, own, n)))
	return out, nil
}

// run runs the job and passes each piece to the function to.
func (q *chatJob) run(ctx context.Context, to func(p reply.Piece)) error {
	_, err := q.job.Run(ctx, func(int, []host.Token) { q.read = time.Now() }, func(_, _ int, p reply.Piece) {
		q.ids = q.ids[:len(q.ids):len(q.ids)]
		for _, t := range p.Tokens {
			q.ids = append(q.ids, t.ID)
		}
		q.score(p)
		to(p)
	})
	return err
}

// line returns a piece as a line of the response, or nil if there is nothing new. The last line has the usage.
func (q *chatJob) line(p reply.Piece) *Response {
	a := &Response{Model: q.Model, Created: time.Now().UTC(), Done: p.End != ""}
	var new reply.Delta
	if q.split != nil {
		new = q.split.Push(p.Text, a.Done)
	}
	if q.chats {
		a.Message = &message{host.AssistantRole, new.Content, new.Reasoning, callsOf(new.Calls)}
	} else {
		a.Response, a.Thinking = &new.Content, new.Reasoning
	}
	if !a.Done {
		if !new.Some() { // text that may be the start of a mark is buffered
			return nil
		}
		a.Logprobs, q.scored = q.scored, nil
		return a
	}
	a.Logprobs = q.scored
	a.Reason = p.End
	if p.End != endLoad && p.End != endUnload {
		a.Reason = *reply.Finish(p.End)
	}
	a.Total, a.Load = time.Since(q.begun), q.load
	if len(q.job.Prompts) > 0 {
		a.PromptCount, a.EvalCount = len(q.job.Prompts[0]), len(q.ids)-len(q.job.Prompts[0])
		a.PromptTime, a.EvalTime = q.read.Sub(q.begun), time.Since(q.read)
		if !q.chats {
			a.Context = q.ids
		}
	}
	return a
}

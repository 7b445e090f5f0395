package serve

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
)

// failOllama writes an error as Ollama does.
func failOllama(c *call, e *Error) {
	c.send(e.Status, "application/json", ollamaFailed(e)) // where it fails the client has gone
}

// ollamaRequest is the body of /api/generate and /api/chat.
type ollamaRequest struct {
	Model    string          `json:"model"`
	Prompt   string          `json:"prompt"`
	System   string          `json:"system"`
	Suffix   string          `json:"suffix"`
	Raw      bool            `json:"raw"`
	Context  []int32         `json:"context"`
	Messages []message       `json:"messages"`
	Stream   *bool           `json:"stream"`
	Format   json.RawMessage `json:"format"`
	Images   []string        `json:"images"`
	Think    json.RawMessage `json:"think"`
	toolRequest
	Options json.RawMessage `json:"options"`
	Keep    keepAlive       `json:"keep_alive"`
}

// ollamaOptions are those of a reply, with the meanings and the values that Ollama has where nothing is said.
type ollamaOptions struct {
	Temperature      *float64 `json:"temperature"`
	TopK             *int     `json:"top_k"`
	TopP             *float64 `json:"top_p"`
	MinP             *float64 `json:"min_p"`
	Seed             *int64   `json:"seed"`
	Predict          *int     `json:"num_predict"`
	Stop             texts    `json:"stop"`
	RepeatPenalty    *float64 `json:"repeat_penalty"`
	RepeatLast       *int     `json:"repeat_last_n"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
	PresencePenalty  *float64 `json:"presence_penalty"`
}

// ollamaAnswer is one line of an answer.
type ollamaAnswer struct {
	Model    string         `json:"model"`
	Created  time.Time      `json:"created_at"`
	Response *string        `json:"response,omitempty"`
	Thinking string         `json:"thinking,omitempty"`
	Message  *ollamaMessage `json:"message,omitempty"`
	Done     bool           `json:"done"`
	Reason   string         `json:"done_reason,omitempty"`
	Context  []int32        `json:"context,omitempty"`

	Total       time.Duration `json:"total_duration,omitempty"` // in nanoseconds, as the others
	Load        time.Duration `json:"load_duration,omitempty"`
	PromptCount int           `json:"prompt_eval_count,omitempty"`
	PromptTime  time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount   int           `json:"eval_count,omitempty"`
	EvalTime    time.Duration `json:"eval_duration,omitempty"`
}

type ollamaMessage struct {
	Role     string       `json:"role"`
	Content  string       `json:"content"`
	Thinking string       `json:"thinking,omitempty"`
	Calls    []ollamaCall `json:"tool_calls,omitempty"`
}

// ollamaReply is one request of /api/generate or /api/chat.
type ollamaReply struct {
	ollamaRequest
	*work
	dialog *dialog
	split  *splitter
	chats  bool
	begun  time.Time
	read   time.Time // the prompt had been read
	load   time.Duration
	ids    []int32 // of prompt and reply
}

func (s *Server) ollamaGenerate(c *call) error { return s.ollama(c, false) }

func (s *Server) ollamaChat(c *call) error { return s.ollama(c, true) }

// ollama answers /api/generate and /api/chat.
func (s *Server) ollama(c *call, chats bool) error {
	q := &ollamaReply{chats: chats, begun: time.Now()}
	if err := s.readBody(c.w, c.r, &q.ollamaRequest); err != nil {
		return err
	}
	if q.unloads() {
		if err := s.models.expire(c.r.Context(), q.Model); err != nil {
			return err
		}
		q.work = &work{}
		return c.json(q.line(piece{end: endUnload}))
	}
	if err := s.prepareOllama(q, c); err != nil {
		return err
	}
	s.keep(c, q.Keep)
	if len(q.prompts) == 0 { // a request to load the model, which it is
		return c.json(q.line(piece{end: endLoad}))
	}
	if err := s.enter(c); err != nil {
		return err
	}
	defer s.admit.leave()
	if or(q.Stream, true) {
		return s.carry(c, "application/x-ndjson", func(ctx context.Context, to *queue) error {
			return q.run(ctx, c, func(p piece) {
				line := q.line(p)
				if line == nil {
					return
				}
				if data, err := json.Marshal(line); err == nil {
					to.add(data, []byte("\n"))
				}
			})
		}, ollamaFailed)
	}
	var text strings.Builder
	last := piece{}
	if err := q.run(c.r.Context(), c, func(p piece) {
		text.WriteString(p.text)
		last = p
	}); err != nil {
		return err
	}
	last.text = text.String()
	return c.json(q.line(last))
}

// ollamaFailed is the line of an error, also in a stream.
func ollamaFailed(e *Error) []byte {
	data, err := json.Marshal(map[string]string{"error": e.short()})
	if err != nil {
		return nil // it is a text
	}
	return append(data, '\n')
}

// prepareOllama checks a request and says what work it is.
func (s *Server) prepareOllama(q *ollamaReply, c *call) error {
	m, err := s.model(c, q.Model)
	if err != nil {
		return err
	}
	c.note("model", m.name)
	var ch checks
	ch.that(len(q.Images) == 0, "images", "found %d, want none", len(q.Images))
	ch.that(q.chats || len(q.Tools) == 0, "tools", "found %d, want none: they are for /api/chat", len(q.Tools))
	ch.that(q.Suffix == "", "suffix", "found a text, want none: the models read from the left to the right only")
	if ch.err != nil {
		return ch.err
	}
	q.load = c.load
	q.work = &work{model: m, client: c.client(), call: c, draws: 1, top: -1}
	if q.dialog, err = q.converse(c.r.Context()); err != nil || q.dialog == nil {
		return err
	}
	if q.chats {
		q.ended = m.rereadAfter(q.client, q.dialog)
	}
	ids := q.dialog.ids
	q.split = q.dialog.split()
	if q.options, err = q.replyOptions(s, len(ids)); err != nil {
		return err
	}
	q.options.Constraint = q.dialog.constraint
	if err := m.check("prompt", ids, s.o.MaxPrompt, q.options.MaxTokens); err != nil {
		return err
	}
	q.prompts, q.ids = [][]int32{ids}, ids
	return nil
}

// converse makes the prompt, nil where there is none.
func (q *ollamaReply) converse(ctx context.Context) (*dialog, error) {
	format, err := q.format()
	if err != nil {
		return nil, err
	}
	more, err := q.thinks()
	if err != nil {
		return nil, err
	}
	chat := &conversation{messages: q.Messages, tools: q.toolRequest, format: format, param: "format", more: more}
	if q.chats {
		if len(q.Messages) == 0 {
			return nil, nil
		}
		return q.model.converse(ctx, "messages", chat)
	}
	if q.Prompt == "" {
		return nil, nil
	}
	var d *dialog
	if q.Raw || q.model.settings.Template == nil {
		d = &dialog{}
		if d.ids, err = q.model.encode(prompt{text: q.System + q.Prompt}); err == nil {
			d.constraint, err = q.model.format(ctx, chat.param, format)
		}
	} else {
		chat.messages = nil
		if q.System != "" {
			chat.messages = append(chat.messages, message{template.Text("system", q.System)})
		}
		chat.messages = append(chat.messages, message{template.Text("user", q.Prompt)})
		d, err = q.model.converse(ctx, "prompt", chat)
	}
	if err != nil {
		return nil, err
	}
	d.ids = append(q.Context[:len(q.Context):len(q.Context)], d.ids...)
	return d, nil
}

// replyOptions are the options of the reply to a prompt of so many ids.
func (q *ollamaReply) replyOptions(s *Server, n int) (generate.Options, error) {
	var o ollamaOptions
	if len(q.Options) > 0 && string(q.Options) != "null" {
		if err := readObject(q.Options, &o); err != nil {
			return generate.Options{}, err
		}
	}
	base := q.model.ends()
	base.Temperature, base.TopK, base.TopP, base.RepetitionPenalty, base.RepetitionWindow = 0.8, 40, 0.9, 1.1, 64
	q.model.settings.Defaults.Apply(&base)
	own := base.MaxTokens
	if last := or(o.RepeatLast, base.RepetitionWindow); last != 0 { // -1 is all, which is 0 here
		base.RepetitionWindow = max(0, last)
	} else {
		base.RepetitionPenalty, o.RepeatPenalty = 1, nil
	}
	fields := sampling{
		Temperature: o.Temperature, TopP: o.TopP, Stop: o.Stop, Seed: o.Seed, TopK: o.TopK, MinP: o.MinP,
		FrequencyPenalty: o.FrequencyPenalty, PresencePenalty: o.PresencePenalty, RepetitionPenalty: o.RepeatPenalty,
	}
	if o.Seed != nil && *o.Seed < 0 { // another each time
		seed := rand.Int64()
		fields.Seed = &seed
	}
	out, err := fields.replies(s, q.model, base)
	if err != nil {
		return out, err
	}
	asked := o.Predict
	if asked != nil && *asked < 0 { // as long as there is room
		asked = nil
	}
	out.MaxTokens = max(1, min(s.o.MaxTokens, s.replyTokens(q.model, asked, own, n)))
	return out, nil
}

// run does the work and passes each piece on.
func (q *ollamaReply) run(ctx context.Context, c *call, to func(p piece)) error {
	all := &parts{
		meter:    newMeter(q.work),
		onPrompt: func(int, []scored) { q.read = time.Now() },
		onPiece: func(_, _ int, p piece) {
			q.ids = q.ids[:len(q.ids):len(q.ids)]
			for _, t := range p.tokens {
				q.ids = append(q.ids, t.id)
			}
			to(p)
		},
	}
	err := q.do(ctx, all)
	all.logged(c)
	return err
}

// line is a piece as a line of the answer, the last one with what the request took; nil where there is nothing to tell.
func (q *ollamaReply) line(p piece) *ollamaAnswer {
	a := &ollamaAnswer{Model: q.Model, Created: time.Now().UTC(), Done: p.end != ""}
	var new said
	if q.split != nil {
		new = q.split.push(p.text, a.Done)
	}
	if q.chats {
		a.Message = &ollamaMessage{assistantRole, new.content, new.reasoning, ollamaCalls(new.calls)}
	} else {
		a.Response, a.Thinking = &new.content, new.reasoning
	}
	if !a.Done {
		if !new.some() { // what may be the beginning of a mark is held back
			return nil
		}
		return a
	}
	a.Reason = p.end
	if p.end != endLoad && p.end != endUnload {
		a.Reason = *finish(p.end)
	}
	a.Total, a.Load = time.Since(q.begun), q.load
	if len(q.prompts) > 0 {
		a.PromptCount, a.EvalCount = len(q.prompts[0]), len(q.ids)-len(q.prompts[0])
		a.PromptTime, a.EvalTime = q.read.Sub(q.begun), time.Since(q.read)
		if !q.chats {
			a.Context = q.ids
		}
	}
	return a
}

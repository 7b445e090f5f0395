package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// conversation has the fields that make up the prompt, of replies and of counts.
type conversation struct {
	System    content                    `json:"system"`
	Messages  messages                   `json:"messages"`
	Tools     []json.RawMessage          `json:"tools"`
	Choice    toolChoice                 `json:"tool_choice"`
	Thinking  thinking                   `json:"thinking"`
	Output    outputConfig               `json:"output_config"`
	Cache     *cacheControl              `json:"cache_control"`
	Variables map[string]json.RawMessage `json:"chat_template_kwargs"`
	reply.Mounting

	marked bool // a tool has a cache_control
}

// messages are the turns of a conversation.
type messages []message

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a list of blocks, or a text.
type content []block

// block is a part of a message. Each type has some of the fields.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Citations json.RawMessage `json:"citations"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	CallID    string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"` // of a result: read later, since only one nested level is allowed
	IsError   bool            `json:"is_error"`
	Cache     *cacheControl   `json:"cache_control"`

	parts content // of Content
}

const contentForms = "a string or a list of blocks"

func (q *messages) UnmarshalJSON(data []byte) (err error) {
	*q, err = listOf[message](data, "a list of messages", "")
	return err
}

func (m *message) UnmarshalJSON(data []byte) error {
	type plain message
	if err := json.Unmarshal(data, (*plain)(m)); err != nil {
		return err
	}
	switch {
	case m.Role != host.UserRole && m.Role != host.AssistantRole && m.Role != host.SystemRole:
		return fmt.Errorf("role: found %.40q, want %s, %s or %s", m.Role, host.UserRole, host.AssistantRole,
			host.SystemRole)
	case m.Content == nil:
		return errors.New("content: found none, want " + contentForms)
	}
	return nil
}

func (c *content) UnmarshalJSON(data []byte) (err error) {
	switch {
	case request.IsText(data):
		*c = content{{Type: blockText}}
		err = json.Unmarshal(data, &(*c)[0].Text)
	case string(data) != "null":
		*c, err = listOf[block](data, contentForms, "block ")
	}
	return err
}

// listOf reads a list. want describes the expected value for errors, and item names an element.
func listOf[T any](data []byte, want, item string) (all []T, err error) {
	var raw []json.RawMessage
	if err := request.UnmarshalList(data, &raw, want); err != nil {
		return nil, err
	}
	all = make([]T, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &all[i]); err != nil {
			return nil, fmt.Errorf("%s%d: %s", item, i, request.DescribeJSON(err))
		}
	}
	return all, nil
}

// cacheControl marks the end of text that a client wants cached. This server caches all of a prompt, and reports it.
type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

func (c *cacheControl) UnmarshalJSON(data []byte) error {
	type plain cacheControl
	if err := json.Unmarshal(data, (*plain)(c)); err != nil {
		return err
	}
	if c.Type != "ephemeral" || c.TTL != "" && c.TTL != "5m" && c.TTL != "1h" {
		return errors.New("cache_control: found " + request.Shorten(data) +
			`, want the type ephemeral, and the ttl 5m or 1h, if any`)
	}
	return nil
}

// marks reports whether a block has a cache_control.
func (c content) marks() bool {
	for _, b := range c {
		if b.Cache != nil || b.parts.marks() {
			return true
		}
	}
	return false
}

// caches reports whether the request asks for caching. It must be called after chat.
func (q *conversation) caches() bool {
	asks := q.Cache != nil || q.marked || q.System.marks()
	for _, m := range q.Messages {
		asks = asks || m.Content.marks()
	}
	return asks
}

// chat returns the chat of the request.
func (q *conversation) chat(m *host.Model) (*reply.Chat, error) {
	drafts, err := q.drafts()
	if err != nil {
		return nil, err
	}
	c := &reply.Chat{Param: "output_config"}
	if c.Messages, err = reply.MessagesOf("messages", drafts, nil); err != nil {
		return nil, err
	}
	last := drafts[len(drafts)-1]
	c.Continue = last.Role == host.AssistantRole
	if c.Continue && (len(last.Calls) > 0 || last.Reasoning != "" || q.Output.Format != nil) {
		return nil, request.Invalid("messages", "found an assistant's message at the end, want a message of the user, "+
			"or a text that the reply continues: without thinking, calls and output_config.format")
	}
	if c.Tools.Tools, err = q.functions(); err != nil {
		return nil, err
	}
	if c.Tools.Choice, err = q.Choice.mode(); err != nil {
		return nil, err
	}
	parallel := !q.Choice.One
	c.Tools.Parallel = &parallel
	if c.Format, err = q.Output.format(); err != nil {
		return nil, err
	}
	c.More, err = q.effort(m)
	return c, err
}

// billing is the prefix of a block that Claude Code puts before the system prompt. The block is for Anthropic's
// accounts and differs from request to request, so no text after it would ever be found in a cache.
const billing = "x-anthropic-billing-header:"

// drafts returns the messages for the template, the system prompt first.
func (q *conversation) drafts() (all []reply.Draft, err error) {
	if len(q.Messages) == 0 {
		return nil, request.Invalid("messages", "found none, want at least one")
	}
	var system []string
	for i, b := range q.System {
		text, err := b.plain()
		if err != nil {
			return nil, request.Invalid("system", "block %d: %v", i, err)
		}
		if !strings.HasPrefix(text, billing) {
			system = append(system, text)
		}
	}
	if len(system) > 0 {
		all = append(all, reply.Draft{Role: host.SystemRole, Content: strings.Join(system, "\n")})
	}
	for i := 0; i < len(q.Messages); {
		t := turn{role: q.Messages[i].Role}
		for ; i < len(q.Messages) && q.Messages[i].Role == t.role; i++ { // consecutive messages of a role count as one
			for j := range q.Messages[i].Content {
				if err := t.add(&q.Messages[i].Content[j]); err != nil {
					return nil, request.Invalid("messages", "%d: content: block %d: %v", i, j, err)
				}
			}
		}
		all = append(all, t.drafts()...)
	}
	return all, nil
}

// turn combines the consecutive messages of one role.
type turn struct {
	role            string
	texts, thoughts []string
	calls           []reply.ToolCall
	results         []reply.Draft
}

// add adds a block.
func (t *turn) add(b *block) error {
	assistant := t.role == host.AssistantRole
	switch {
	case b.Type == blockThinking && assistant:
		t.thoughts = append(t.thoughts, b.Thinking)
		return nil
	case b.Type == blockCall && assistant:
		call, err := b.call()
		t.calls = append(t.calls, call)
		return err
	case b.Type == blockResult && t.role == host.UserRole:
		result, err := b.result()
		t.results = append(t.results, result)
		return err
	}
	text, err := b.plain()
	if err != nil && assistant {
		err = fmt.Errorf("%w, %s or %s", err, blockThinking, blockCall)
	} else if err != nil && t.role == host.UserRole {
		err = fmt.Errorf("%w or %s", err, blockResult)
	}
	t.texts = append(t.texts, text)
	return err
}

// drafts returns the messages of a turn: results of calls, then texts.
func (t *turn) drafts() []reply.Draft {
	d := reply.Draft{Role: t.role, Content: strings.Join(t.texts, "\n")}
	if t.role == host.AssistantRole { // an assistant's texts are parts of what the model wrote
		d.Content = strings.Join(t.texts, "")
		d.Reasoning, d.Calls = strings.Join(t.thoughts, ""), t.calls
	}
	if len(t.results) > 0 && len(t.texts) == 0 {
		return t.results
	}
	return append(t.results, d)
}

// plain returns the text of a block of text.
func (b *block) plain() (string, error) {
	switch c := string(b.Citations); {
	case b.Type != blockText:
		return "", fmt.Errorf("found the type %.40q, which the models do not read: want %s", b.Type, blockText)
	case c != "" && c != "null" && c != "[]":
		return "", fmt.Errorf("found citations %s, want none", request.Shorten(b.Citations))
	}
	return b.Text, nil
}

// call returns the function call of a block.
func (b *block) call() (c reply.ToolCall, err error) {
	switch input := bytes.TrimSpace(b.Input); {
	case b.ID == "":
		return c, errors.New("id: found none, want that of the call")
	case !reply.ToolName.MatchString(b.Name):
		return c, fmt.Errorf("name: found %.140q, want 1 to 128 letters, digits, dots, _ and -", b.Name)
	case len(input) == 0 || input[0] != '{':
		return c, fmt.Errorf("input: found %s, want a JSON object", request.Shorten(input))
	default:
		c = reply.ToolCall{ID: b.ID, Type: "function"}
		c.Function = reply.FunctionCall{Name: b.Name, Arguments: string(input)}
		return c, nil
	}
}

// result returns the message of the result of a call.
func (b *block) result() (d reply.Draft, err error) {
	if b.CallID == "" {
		return d, errors.New("tool_use_id: found none, want that of a call")
	}
	if len(b.Content) > 0 {
		if err := b.parts.UnmarshalJSON(b.Content); err != nil {
			return d, fmt.Errorf("content: %w", err)
		}
	}
	var texts []string
	if b.IsError { // templates have no other way to mark an error
		texts = append(texts, "Error:")
	}
	for i, part := range b.parts {
		text, err := part.plain()
		if err != nil {
			return d, fmt.Errorf("content: block %d: %w", i, err)
		}
		texts = append(texts, text)
	}
	return reply.Draft{Role: reply.ToolRole, Content: strings.Join(texts, "\n"), Answers: b.CallID}, nil
}

// thinking configures reasoning.
type thinking struct {
	Type    string `json:"type"`
	Budget  *int   `json:"budget_tokens"`
	Display string `json:"display"`
}

// The types of thinking.
const (
	thinks   = "enabled"
	adapts   = "adaptive"
	replies  = "disabled"
	noEffort = "none"
)

// budget returns the number of tokens that the client plans for reasoning.
func (t *thinking) budget() int { return request.Or(t.Budget, 0) }

// omits reports whether reasoning is left out of replies.
func (t *thinking) omits() bool { return t.Display == "omitted" }

// outputConfig configures the text of a reply.
type outputConfig struct {
	Effort string `json:"effort"`
	Format *struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

// format returns the required format of a reply.
func (o *outputConfig) format() (f reply.Format, err error) {
	if o.Format == nil {
		return f, nil
	}
	if o.Format.Type != reply.FormatSchema || len(o.Format.Schema) == 0 {
		return f, request.Invalid("output_config", "format: found the type %.40q, want %s with a schema", o.Format.Type,
			reply.FormatSchema)
	}
	return reply.Format{Type: reply.FormatSchema, Schema: o.Format.Schema}, nil
}

// effort returns the template variables that turn reasoning on or off. If thinking is not set, the model decides, as in
// chats.
func (q *conversation) effort(m *host.Model) (map[string]json.RawMessage, error) {
	t, effort := &q.Thinking, q.Output.Effort
	knows := chat.HasReasoning(m.Settings.Source)
	var c request.Checks
	c.That(t.Display == "" || t.omits() || t.Display == "summarized", "thinking",
		"display: found %.40q, want summarized or omitted", t.Display)
	c.That(t.budget() > 0 || t.Type != thinks, "thinking", "budget_tokens: found %d, want a number from 1 up",
		t.budget())
	switch t.Type {
	case "":
	case thinks:
		c.That(knows, "thinking", "found %s, want %s or %s: %s does not think before it replies", thinks, replies,
			adapts, m.Name)
	case adapts:
	case replies:
		effort = noEffort
	default:
		c.That(false, "thinking", "found the type %.40q, want %s, %s or %s", t.Type, thinks, adapts, replies)
	}
	if t.Type != "" && effort == "" && knows {
		effort = "medium"
	}
	return reply.WithEffort(q.Variables, effort), c.Err
}

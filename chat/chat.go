package chat

import (
	"context"
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Chat is a conversation. It is for one goroutine; any number of chats can share a model.
type Chat struct {
	// Progress, if not nil, is called while a reply's prompt is read, with the number of tokens read so far.
	Progress func(read, total int)
	// Thought, if not nil, is called with each piece of a reply's reasoning, which is then not passed to emit.
	Thought func(text string) error
	// Tools are functions that the model may call, or nil.
	Tools *Tools

	model    *model.Model
	tok      tokenizer.Tokenizer
	settings *Settings
	system   string
	messages []template.Message // without the system message
	marks    []mark             // the most recently used last
	stats    generate.Stats
}

// mark is a place in a conversation: a text that has been read, and the session after it, which is never advanced.
type mark struct {
	text    string
	ids     []int32
	session *generate.Batch
}

// maxMarks is the number of states that a chat keeps: enough for the last two replies, and for the prompts before them.
const maxMarks = 4

// Roles of the messages that a chat creates.
const (
	systemRole    = "system"
	userRole      = "user"
	assistantRole = "assistant"
)

// New returns an empty chat.
func New(m *model.Model, tok tokenizer.Tokenizer, s *Settings) *Chat {
	return &Chat{model: m, tok: tok, settings: s}
}

// Fork returns a chat that continues from the same place, independently of this one. Progress and Thought are not
// copied.
func (c *Chat) Fork() *Chat {
	return &Chat{
		model: c.model, tok: c.tok, settings: c.settings, system: c.system, stats: c.stats,
		messages: append([]template.Message(nil), c.messages...), marks: append([]mark(nil), c.marks...),
		Tools: c.Tools,
	}
}

// SetSystem sets the system message, which comes before all others, or "" for none.
func (c *Chat) SetSystem(text string) { c.system = text }

// Messages returns all messages. The system message, if any, is the first.
func (c *Chat) Messages() []template.Message {
	var all []template.Message
	if c.system != "" {
		all = append(all, template.Text(systemRole, c.system))
	}
	return append(all, c.messages...)
}

// SetMessages replaces the messages of the chat. They are read with the next reply.
func (c *Chat) SetMessages(messages []template.Message) {
	c.system, c.messages = "", append([]template.Message(nil), messages...)
	if len(messages) > 0 && messages[0].Role() == systemRole {
		c.system, c.messages = messages[0].Content(), c.messages[1:]
	}
}

// Undo removes the last message of the user and all messages after it. It reports whether there was one.
func (c *Chat) Undo() bool {
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].Role() == userRole {
			c.messages = c.messages[:i:i]
			return true
		}
	}
	return false
}

// Stats returns the speeds of the chat so far.
func (c *Chat) Stats() generate.Stats { return c.stats }

// Position returns the number of tokens of the text up to the last reply.
func (c *Chat) Position() int {
	if len(c.marks) == 0 {
		return 0
	}
	return len(c.marks[len(c.marks)-1].ids)
}

// Reply adds a message of the user and generates a reply. It calls emit with each piece of the reply, which consists of
// whole characters. An error of emit or of ctx ends the reply; the text written until then remains in the conversation.
// If none was written, the message is removed, as after any other error, including those of Tools. With Tools the model
// may reply several times, after the results of its calls.
func (c *Chat) Reply(ctx context.Context, message string, o generate.Options, emit func(text string) error) error {
	before := c.messages
	c.messages = append(c.messages[:len(before):len(before)], template.Text(userRole, message))
	text, thought, calls, err := c.reply(ctx, o, emit)
	for round := 1; err == nil && len(calls) > 0; round++ {
		more, failed := c.called(ctx, text, thought, calls)
		if failed == nil && more && round == maxRounds {
			failed = fmt.Errorf("chat: found calls in %d replies in a row, want fewer", maxRounds)
		}
		if failed != nil {
			c.messages = before
		}
		if failed != nil || !more {
			return failed
		}
		o.Seed++
		text, thought, calls, err = c.reply(ctx, o, emit)
	}
	switch {
	case err != nil && text+thought == "":
		c.messages = before
		return err
	case thought != "":
		c.messages = append(c.messages, template.Thought(assistantRole, thought, text))
	default:
		c.messages = append(c.messages, template.Text(assistantRole, text))
	}
	return err
}

// reply reads the part of the prompt that has not been read yet, and generates a reply. It returns the text of the
// reply; its reasoning, if Thought is set; and its calls, if there are Tools.
func (c *Chat) reply(ctx context.Context, o generate.Options, emit func(string) error) (text, thought string,
	calls []Call, err error) {
	prompt, err := c.prompt(ctx)
	if err != nil {
		return "", "", nil, err
	}
	at, err := c.read(ctx, prompt)
	if err != nil {
		return "", "", nil, err
	}
	c.keep(at)
	s := at.session.Fork()
	o.EndIDs = append(o.EndIDs[:len(o.EndIDs):len(o.EndIDs)], c.settings.EndIDs...)
	o.Stop = append(o.Stop[:len(o.Stop):len(o.Stop)], c.settings.Stop...)
	tell := c.teller(prompt, emit)
	ids := at.ids[:len(at.ids):len(at.ids)]
	var failed error
	tok := tokenizer.WithoutSpecial(c.tok)
	if c.Tools != nil { // marks of calls may be special tokens
		tok = c.tok
	}
	for piece, err := range s.Generate(ctx, tok, at.ids, o) {
		ids = append(ids, piece.IDs...)
		if failed = err; err != nil {
			break
		}
		if failed = tell.add(string(piece.Text), false); failed != nil {
			break
		}
	}
	if failed == nil {
		failed = tell.add("", true)
	} else {
		tell.hold("", true)
	}
	c.add(s.Stats)
	if len(ids) == s.Position() { // tokens that were drawn but not passed on are missing from a text that continues
		c.keep(mark{prompt + string(c.tok.Decode(nil, ids[len(at.ids):])), ids, s})
	}
	return tell.text.String(), tell.thought.String(), tell.calls, failed
}

// teller passes a reply on as it is generated, and collects it.
type teller struct {
	thoughts      *Thoughts
	emit, think   func(string) error
	text, thought strings.Builder
	split         func(piece string, last bool) (text string, calls []Call) // nil without Tools
	calls         []Call
}

// teller returns a teller for the reply to a prompt. Without Thought, reasoning is treated as other text.
func (c *Chat) teller(prompt string, emit func(string) error) *teller {
	at := Answers
	if c.Thought != nil {
		at = ThinkingAfter(c.settings.Source, prompt)
	}
	t := &teller{thoughts: NewThoughts(at), emit: emit, think: c.Thought}
	if c.Tools != nil {
		t.split = c.Tools.Split()
	}
	return t
}

// hold adds a piece and returns the text that can be passed on now.
func (t *teller) hold(piece string, last bool) (thought, text string) {
	thought, text = t.thoughts.Push(piece, last)
	if t.split != nil {
		var calls []Call
		text, calls = t.split(text, last)
		t.calls = append(t.calls, calls...)
	}
	t.thought.WriteString(thought)
	t.text.WriteString(text)
	return thought, text
}

// add adds a piece and passes on the text that can be passed on now.
func (t *teller) add(piece string, last bool) (err error) {
	thought, text := t.hold(piece, last)
	if thought != "" {
		err = t.think(thought)
	}
	if text != "" && err == nil {
		err = t.emit(text)
	}
	return err
}

// prompt returns the text of the conversation up to where the reply starts.
func (c *Chat) prompt(ctx context.Context) (string, error) {
	if c.Tools != nil {
		return c.settings.Render(ctx, template.Input{Messages: c.Messages(), Tools: c.Tools.Functions})
	}
	return c.settings.Prompt(ctx, c.Messages())
}

// read returns the place after text. It continues from the latest place whose text is a prefix of text.
func (c *Chat) read(ctx context.Context, text string) (mark, error) {
	from := mark{}
	for _, m := range c.marks {
		if strings.HasPrefix(text, m.text) && len(m.text) >= len(from.text) {
			from = m
		}
	}
	s := generate.NewBatch(c.model, 1)
	if from.session != nil {
		s = from.session.Fork()
	}
	ids, err := c.tok.Encode(nil, []byte(text[len(from.text):]))
	if err != nil {
		return mark{}, err
	}
	if len(ids) == 0 && from.session == nil {
		return mark{}, fmt.Errorf("chat: found nothing to reply to, want at least one character")
	}
	if len(ids) > 0 {
		s.Progress = c.Progress
		err = s.Prefill(ctx, ids)
		s.Progress = nil
		c.add(s.Stats)
		if err != nil {
			return mark{}, err
		}
	}
	return mark{text, append(from.ids[:len(from.ids):len(from.ids)], ids...), s}, nil
}

// keep adds a place, and drops the oldest one if there are too many.
func (c *Chat) keep(m mark) {
	c.marks = append(c.marks[max(0, len(c.marks)-maxMarks+1):len(c.marks):len(c.marks)], m)
}

func (c *Chat) add(s generate.Stats) {
	c.stats.PrefillTokens += s.PrefillTokens
	c.stats.PrefillSeconds += s.PrefillSeconds
	c.stats.DecodeTokens += s.DecodeTokens
	c.stats.DecodeSeconds += s.DecodeSeconds
	c.stats.StateBytes = max(s.StateBytes, c.stats.StateBytes)
}

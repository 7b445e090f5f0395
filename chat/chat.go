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
	// Progress, unless it is nil, is called while a reply's prompt is read, with how many of its tokens have been.
	Progress func(read, total int)
	// Thought, unless it is nil, is called with each piece of a reply's reasoning, which is then no part of what is
	// emitted.
	Thought func(text string) error
	// Tools are functions that the model may call; nil for none.
	Tools *Tools

	model    *model.Model
	tok      tokenizer.Tokenizer
	settings *Settings
	system   string
	messages []template.Message // without the system message
	marks    []mark             // the latest last
	stats    generate.Stats
}

// mark is a place in a conversation: a text that has been read, and the session after it, which is never moved.
type mark struct {
	text    string
	ids     []int32
	session *generate.Batch
}

// maxMarks is how many states a chat keeps: enough for the last two replies, and for the prompts before them.
const maxMarks = 4

// roles of the messages that a chat makes.
const (
	systemRole    = "system"
	userRole      = "user"
	assistantRole = "assistant"
)

// New returns a chat that nothing has been said in.
func New(m *model.Model, tok tokenizer.Tokenizer, s *Settings) *Chat {
	return &Chat{model: m, tok: tok, settings: s}
}

// Fork returns a chat that continues from the same place, independent of this one, without its functions.
func (c *Chat) Fork() *Chat {
	return &Chat{
		model: c.model, tok: c.tok, settings: c.settings, system: c.system, stats: c.stats,
		messages: append([]template.Message(nil), c.messages...), marks: append([]mark(nil), c.marks...),
		Tools: c.Tools,
	}
}

// SetSystem sets the system message, which stands before all others; "" for none.
func (c *Chat) SetSystem(text string) { c.system = text }

// Messages are all messages, the system's first if there is one.
func (c *Chat) Messages() []template.Message {
	var all []template.Message
	if c.system != "" {
		all = append(all, template.Text(systemRole, c.system))
	}
	return append(all, c.messages...)
}

// SetMessages makes the chat one of these messages. It reads them with the next reply.
func (c *Chat) SetMessages(messages []template.Message) {
	c.system, c.messages = "", append([]template.Message(nil), messages...)
	if len(messages) > 0 && messages[0].Role() == systemRole {
		c.system, c.messages = messages[0].Content(), c.messages[1:]
	}
}

// Undo takes back the last message of the user and what was said after it. It reports whether there was one.
func (c *Chat) Undo() bool {
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].Role() == userRole {
			c.messages = c.messages[:i:i]
			return true
		}
	}
	return false
}

// Stats are the speeds of the chat so far.
func (c *Chat) Stats() generate.Stats { return c.stats }

// Position is the number of tokens of the text up to the last reply.
func (c *Chat) Position() int {
	if len(c.marks) == 0 {
		return 0
	}
	return len(c.marks[len(c.marks)-1].ids)
}

// Reply says a message and has the model reply: it calls emit with each piece of the reply, whole characters. An error
// of emit or of ctx ends the reply; what has been written of it by then is part of the conversation. If nothing has
// been written, the message is taken back, as after any other error, and after one of Tools. With Tools the model may
// reply several times, after the results of its calls.
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

// reply reads what has not been read yet, and draws a reply. It returns its text, if there is Thought its reasoning,
// and if there are Tools its calls.
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
	if len(ids) == s.Position() { // what was drawn and not told is not in a text that continues
		c.keep(mark{prompt + string(c.tok.Decode(nil, ids[len(at.ids):])), ids, s})
	}
	return tell.text.String(), tell.thought.String(), tell.calls, failed
}

// teller passes on a reply as it comes, and keeps it.
type teller struct {
	thoughts      *Thoughts
	emit, think   func(string) error
	text, thought strings.Builder
	split         func(piece string, last bool) (text string, calls []Call) // nil without Tools
	calls         []Call
}

// teller returns that of a reply to a prompt. Without Thought, reasoning is text like all other.
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

// hold keeps a piece and returns what has become certain.
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

// add keeps a piece and passes on what has become certain.
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

// prompt is the text of the conversation up to where the reply starts.
func (c *Chat) prompt(ctx context.Context) (string, error) {
	if c.Tools != nil {
		return c.settings.Render(ctx, template.Input{Messages: c.Messages(), Tools: c.Tools.Functions})
	}
	return c.settings.Prompt(ctx, c.Messages())
}

// read returns the place after text. It reads on from the latest place that text starts with.
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

// keep remembers a place, and forgets the oldest.
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

package text

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// chatML is the template that the setting chatml names. It is OpenAI's ChatML, which many models use.
const (
	chatMLName = "chatml"
	chatML     = `{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
`
	chatMLConfig = `{"eos_token": "<|im_end|>"}` + "\n"
)

// chatTexts returns the files of the chat format of the run's model, by name: those of the model that it starts from,
// or of the run that it continues, with the template that the settings name.
func (c *Config) chatTexts() (texts map[string][]byte, err error) {
	texts = map[string][]byte{}
	switch {
	case c.chat != nil:
		return c.chat, nil
	case c.Base.Path != "":
		if texts, err = release.FolderTexts(c.Base.Path); err != nil {
			return nil, fmt.Errorf("init: %w", err)
		}
	}
	if c.Template == "" {
		return texts, nil
	}
	named, err := readTemplate(c.Template)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	delete(texts, template.SourceFile) // it would override a template in named's tokenizer_config.json
	maps.Copy(texts, named)
	return texts, nil
}

// readTemplate reads a chat template from a file or a folder.
func readTemplate(spec string) (map[string][]byte, error) {
	info, err := os.Stat(spec)
	switch {
	case spec == chatMLName && errors.Is(err, fs.ErrNotExist):
		return map[string][]byte{template.SourceFile: []byte(chatML), template.ConfigFile: []byte(chatMLConfig)}, nil
	case err != nil:
		return nil, fmt.Errorf("%w; want a file, a folder or %s", err, chatMLName)
	case info.IsDir():
		texts, err := release.ChatTexts(spec)
		delete(texts, release.PublishedFile) // it belongs to that model, not to this one
		if err == nil && len(texts) == 0 {
			err = fmt.Errorf("found no chat template in the folder %s, want %s or %s", spec, template.SourceFile,
				template.ConfigFile)
		}
		return texts, err
	}
	text, err := disk.ReadText(spec, disk.MaxText)
	if err != nil {
		return nil, err
	}
	name := template.SourceFile
	if strings.EqualFold(filepath.Ext(spec), ".json") {
		name = template.ConfigFile
		c, err := template.ParseConfig(text)
		if err == nil && c.Source(false) == "" {
			err = errors.New("found no chat_template in it")
		}
		if err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", spec, err))
		}
	} else if _, err := template.Parse(string(text)); err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %w", spec, err))
	}
	return map[string][]byte{name: text}, nil
}

// chats renders chats to documents by a template: the text that the model is given, as in a chat, and its replies.
type chats struct {
	template *template.Template // nil for none
	source   string
	bos, eos string
	ends     []string // texts that end a reply
	unnamed  []string // ends that no file names
	end      string   // the end to learn if the template writes none; "" for none
	checked  bool     // a reply without an end is an error
}

var _ data.ChatReader = (*chats)(nil)

// newChats returns a reader that uses the template in the files of a model, see release.ChatFiles. end is the text that
// ends a reply if the template writes none, or "" for the one that the files or the tokenizer name. tok may be nil.
func newChats(texts map[string][]byte, end string, tok tokenizer.Tokenizer) (*chats, error) {
	c := &chats{checked: tok != nil}
	if source := texts[template.SourceFile]; source != nil {
		c.source = string(source)
	}
	if text := texts[template.ConfigFile]; text != nil {
		found, err := template.ParseConfig(text)
		if err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", template.ConfigFile, err))
		}
		c.bos, c.eos = found.BOS, found.EOS
		if c.source == "" {
			c.source = found.Source(false)
		}
	}
	if tok != nil {
		if id, ok := tok.EndOfText(); ok && c.eos == "" {
			c.eos = string(tok.Decode(nil, []int32{id}))
		}
		s, err := chat.Parse(nil, texts[template.GenerationFile], tok, template.GenerationFile)
		if err != nil {
			return nil, err
		}
		for _, id := range s.EndIDs {
			c.ends = append(c.ends, string(tok.Decode(nil, []int32{id})))
		}
	}
	c.ends = slices.DeleteFunc(append(c.ends, c.eos), func(text string) bool { return text == "" })
	if c.end = end; end == "" && len(c.ends) > 0 {
		c.end = cmp.Or(c.eos, c.ends[0])
	}
	if c.source == "" {
		return c, nil
	}
	var err error
	if c.template, err = template.Parse(c.source); err != nil {
		return nil, brief.Error(err)
	}
	for _, more := range []string{end, chat.ReplyEnd(c.template, c.bos, c.eos)} {
		if !slices.ContainsFunc(c.ends, func(text string) bool { return strings.Contains(more, text) }) && more != "" {
			c.ends, c.unnamed = append(c.ends, more), append(c.unnamed, more)
		}
	}
	return c, nil
}

// Fingerprint returns a hash of the template and the texts that end a reply.
func (c *chats) Fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "hippo chats 2 %q %q %q %q %q", c.source, c.bos, c.eos, c.ends, c.end))
	return hex.EncodeToString(sum[:])
}

// chatLine is a line of a file of chats.
type chatLine struct {
	Messages      json.RawMessage   `json:"messages"`
	Conversations json.RawMessage   `json:"conversations"` // messages with from and value
	Prompt        json.RawMessage   `json:"prompt"`
	Completion    json.RawMessage   `json:"completion"`
	Response      json.RawMessage   `json:"response"`
	Tools         []json.RawMessage `json:"tools"`
}

// Read returns the documents of a line, which holds messages, or a prompt and its completion. The latter are texts or
// messages.
func (c *chats) Read(line []byte) ([][]data.Part, error) {
	var l chatLine
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, brief.Error(err)
	}
	if l.Completion == nil {
		l.Completion = l.Response
	}
	switch {
	case l.Messages != nil:
		all, err := messagesOf("messages", l.Messages)
		if err != nil {
			return nil, err
		}
		return c.conversation(all, l.Tools)
	case l.Conversations != nil:
		all, err := shared(l.Conversations)
		if err != nil {
			return nil, err
		}
		return c.conversation(all, l.Tools)
	case l.Prompt == nil || l.Completion == nil:
		return nil, errors.New(`found none of "messages" and "conversations", nor both "prompt" and "completion", ` +
			"want a chat")
	}
	var prompt, completion string
	if json.Unmarshal(l.Prompt, &prompt) == nil && json.Unmarshal(l.Completion, &completion) == nil {
		if completion == "" {
			return nil, errors.New("completion: found no text, want some: there is nothing to learn")
		}
		return [][]data.Part{{{Text: prompt, Given: true}, {Text: completion}}}, nil
	}
	given, err := messagesOf("prompt", l.Prompt)
	if err != nil {
		return nil, err
	}
	all, err := messagesOf("completion", l.Completion)
	if err != nil {
		return nil, err
	}
	for i := range given {
		given[i].given = true
	}
	return c.conversation(append(given, all...), l.Tools)
}

// message is a message of a chat.
type message struct {
	template.Message
	where string // "messages[2]"
	given bool   // not part of the loss, whatever its role
}

// roles lists the roles of messages.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function", "ipython"}

// messagesOf reads a list of messages. A message of weight 0, as in OpenAI's files, is given.
func messagesOf(name string, raw json.RawMessage) (all []message, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("%s: found %.40s, want a list of messages", name, raw)
	}
	for i, raw := range list {
		m := message{where: fmt.Sprintf("%s[%d]", name, i)}
		if err := json.Unmarshal(raw, &m.Message); err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", m.where, err))
		}
		var more struct {
			Content json.RawMessage `json:"content"`
			Calls   json.RawMessage `json:"tool_calls"`
			Call    json.RawMessage `json:"function_call"`
			Weight  *float64        `json:"weight"`
		}
		if err := json.Unmarshal(raw, &more); err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", m.where, err))
		}
		if !slices.Contains(roles, m.Role()) {
			return nil, fmt.Errorf("%s.role: found %q, want one of %q", m.where, m.Role(), roles)
		}
		nothing := len(more.Content) == 0 || string(more.Content) == "null"
		switch {
		case nothing && (m.Role() != "assistant" || more.Calls == nil && more.Call == nil):
			return nil, fmt.Errorf("%s.content: found nothing, want a text", m.where)
		case !nothing && more.Content[0] != '"' && more.Content[0] != '[':
			return nil, fmt.Errorf("%s.content: found %.40s, want a text or a list", m.where, more.Content)
		}
		m.given = more.Weight != nil && *more.Weight == 0
		all = append(all, m)
	}
	return all, nil
}

// speakers maps the senders in files with from and value to roles.
var speakers = map[string]string{
	"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "model": "assistant",
	"chatgpt": "assistant", "system": "system", "tool": "tool",
}

// shared reads a list of messages with from and value.
func shared(raw json.RawMessage) (all []message, err error) {
	var list []struct {
		From  string  `json:"from"`
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf(`conversations: found %.40s, want a list of messages with "from" and "value"`, raw)
	}
	for i, m := range list {
		where := fmt.Sprintf("conversations[%d]", i)
		role, ok := speakers[m.From]
		if !ok {
			return nil, fmt.Errorf("%s.from: found %q, want human, gpt, system or tool", where, m.From)
		}
		if m.Value == nil {
			return nil, fmt.Errorf("%s.value: found nothing, want a text", where)
		}
		all = append(all, message{Message: template.Text(role, *m.Value), where: where})
	}
	return all, nil
}

// maxMessages limits the time for a chat, as the template is rendered anew for each reply.
const maxMessages = 1 << 10

// conversation returns the documents of a chat. A reply is the text that the template adds to the prompt of that reply.
// As a rule the chat is one document. But a template may render earlier messages differently than the last one, for
// example without the model's reasoning. Then each reply whose prompt does not continue the text before it starts a new
// document.
func (c *chats) conversation(all []message, tools []json.RawMessage) (documents [][]data.Part, err error) {
	if c.template == nil {
		return nil, errors.New("found messages, but the model has no chat template; want --template FILE (or " +
			chatMLName + ") or, with --init, a model that has one")
	}
	if len(all) > maxMessages {
		return nil, fmt.Errorf("found %d messages in one chat, want at most %d", len(all), maxMessages)
	}
	var parts []data.Part
	text := "" // text of parts
	for i, m := range all {
		if m.Role() != "assistant" || m.given {
			continue
		}
		if i == 0 {
			return nil, fmt.Errorf("%s.role: found %q as the first, want a message that it replies to", m.where,
				m.Role())
		}
		prompt, full, err := c.reply(all, i, tools)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(full[len(prompt):]) == "" {
			return nil, fmt.Errorf("%s: the chat template shows nothing of this reply", m.where)
		}
		if !strings.HasPrefix(prompt, text) {
			documents, parts, text = append(documents, c.last(parts)), nil, ""
		}
		said, ended := c.endOf(full[len(prompt):])
		if !ended && c.end == "" && c.checked {
			return nil, fmt.Errorf("%s: the chat template writes no text that ends a reply, and no file names a "+
				"token: the model would never stop; want a template that writes an end, such as '<|im_end|>' after "+
				"message.content, or --reply_end TEXT", m.where)
		}
		said += len(prompt)
		parts = append(parts, data.Part{Text: prompt[len(text):], Given: true}, data.Part{Text: full[len(prompt):said]},
			data.Part{Text: full[said:], Given: true})
		text = full
	}
	if len(parts) == 0 {
		return nil, errors.New(
			"found no message of the assistant that counts, want at least one: there is nothing to learn")
	}
	return append(documents, c.last(parts)), nil
}

// reply renders the messages up to message i, which is a reply: prompt ends where the reply starts, full at its end.
func (c *chats) reply(all []message, i int, tools []json.RawMessage) (prompt, full string, err error) {
	render := func(n int, begun bool) string {
		in := template.Input{Tools: tools, AddGenerationPrompt: begun, BOS: c.bos, EOS: c.eos, Now: chatDay}
		for _, m := range all[:n] {
			in.Messages = append(in.Messages, m.Message)
		}
		text, failed := c.template.Render(context.Background(), in)
		if failed != nil && err == nil {
			err = brief.Error(fmt.Errorf("%s: %w", all[n-1].where, failed))
		}
		return text
	}
	prompt, full = render(i, true), render(i+1, false)
	if err != nil || strings.HasPrefix(full, prompt) {
		return prompt, full, err
	}
	// The template's prompt for a reply is not how this reply starts: cut it to the common prefix.
	same := 0
	for same < len(full) && prompt[same] == full[same] {
		same++
	}
	for same > 0 && same < len(full) && !utf8.RuneStart(full[same]) {
		same--
	}
	if before := render(i, false); same < len(before) {
		err = fmt.Errorf("%s: the chat template changes the messages before a reply when the reply is there",
			all[i].where)
	}
	return full[:same], full, err
}

// chatDay is the date that all chats give to templates that ask for it, so that documents do not change from day to
// day.
var chatDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// ReplyEnd returns the text that a chat template writes after every reply, without the white space around it. That is
// the common beginning of the text after a reply that is the last message and of the text after a reply before another
// message. It is "" if there is no such text, or if the template refuses such chats.
func ReplyEnd(t *template.Template, bos, eos string) string {
	after, ok := afterReply(t, bos, eos)
	if !ok {
		return ""
	}
	same := 0
	for same < min(len(after[0]), len(after[1])) && after[0][same] == after[1][same] {
		same++
	}
	return strings.TrimSpace(strings.ToValidUTF8(after[0][:same], ""))
}

// The messages that afterReply uses.
const someQuestion, someReply = "hippo asks", "hippo replies"

// afterReply returns the text that a template writes after a reply that is the last message, and after one before a
// question.
func afterReply(t *template.Template, bos, eos string) (after [2]string, ok bool) {
	messages := []template.Message{template.Text(userRole, someQuestion), template.Text(assistantRole, someReply),
		template.Text(userRole, someQuestion)}
	for i := range after {
		text, err := t.Render(context.Background(), template.Input{Messages: messages[:2+i], BOS: bos, EOS: eos})
		at := strings.LastIndex(text, someReply)
		if err != nil || at < 0 {
			return after, false
		}
		after[i] = text[at+len(someReply):]
	}
	return after, true
}

// userLine matches a paragraph that begins with the name of the speaker, such as "\n\nUser:" in RWKV's chats.
var userLine = regexp.MustCompile(`^\n\n+[A-Za-z][A-Za-z ]*:$`)

// nextTurn returns the text with which a template begins the question after a reply, if that is a paragraph that names
// the user. A model that was trained on such texts continues with it. Otherwise it returns "".
func nextTurn(t *template.Template, bos, eos string) string {
	after, ok := afterReply(t, bos, eos)
	between, _, found := strings.Cut(after[1], someQuestion)
	if between = strings.TrimRight(between, " "); !ok || !found || !userLine.MatchString(between) {
		return ""
	}
	return between
}

// SetTemplate replaces the chat template. The text that the template writes after a reply ends replies, too.
func (s *Settings) SetTemplate(source string, tok tokenizer.Tokenizer) (err error) {
	s.Source = source
	if s.Template, err = template.Parse(source); err == nil {
		s.inferEnd(tok)
	}
	return err
}

// inferEnd adds the end of a reply that the template writes, unless a known end is part of it.
func (s *Settings) inferEnd(tok tokenizer.Tokenizer) {
	if s.Template == nil {
		return
	}
	end := ReplyEnd(s.Template, s.BOS, s.EOS)
	if turn := nextTurn(s.Template, s.BOS, s.EOS); end == "" && turn != "" {
		s.Stop = append(s.Stop, turn)
		return
	}
	known := slices.Clone(s.Stop)
	ids := s.EndIDs
	if id, ok := tok.EndOfText(); ok {
		ids = append(ids[:len(ids):len(ids)], id)
	}
	for _, id := range ids {
		known = append(known, string(tok.Decode(nil, []int32{id})))
	}
	if !slices.ContainsFunc(known, func(text string) bool { return text != "" && strings.Contains(end, text) }) {
		s.addEnd(end, tok)
	}
}

// addEnd adds a text that ends a reply. It adds it as a token if it is a single one.
func (s *Settings) addEnd(end string, tok tokenizer.Tokenizer) {
	if ids, err := tok.Encode(nil, []byte(end)); err == nil && len(ids) == 1 {
		s.EndIDs = append(s.EndIDs, ids[0])
	} else if err == nil && end != "" {
		s.Stop = append(s.Stop, end)
	}
}

// WithEnd returns the files of a chat format (release.ChatFiles) with one more text that ends a reply. It adds the text
// as eos_token of tokenizer_config.json if no file names an end, and otherwise to the lists of generation_config.json.
func WithEnd(files map[string][]byte, end string, tok tokenizer.Tokenizer) (map[string][]byte, error) {
	out := map[string][]byte{}
	parsed := map[string]map[string]json.RawMessage{}
	for name, text := range files {
		out[name] = text
	}
	for _, name := range []string{template.ConfigFile, template.GenerationFile} {
		fields := map[string]json.RawMessage{}
		if text := files[name]; len(bytes.TrimSpace(text)) > 0 {
			if err := json.Unmarshal(text, &fields); err != nil {
				return nil, brief.Error(fmt.Errorf("%s: %w", name, err))
			}
		}
		parsed[name] = fields
	}
	said := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" && string(raw) != `""` }
	config, generation := parsed[template.ConfigFile], parsed[template.GenerationFile]
	name, fields := template.GenerationFile, generation
	if !said(config["eos_token"]) && !said(generation["eos_token_id"]) {
		name, fields = template.ConfigFile, config
		fields["eos_token"] = quoted(end)
	} else if err := addToGeneration(fields, config["eos_token"], end, tok); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(fields)
	out[name] = text.Bytes()
	return out, err
}

// quoted returns a text as JSON, without escaping <.
func quoted(text string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // texts always encode
	}
	return bytes.TrimSpace(b.Bytes())
}

// addToGeneration adds an end to the fields of a generation_config.json. eos is the eos_token of the model, which ends
// replies only as long as this file names no token.
func addToGeneration(fields map[string]json.RawMessage, eos json.RawMessage, end string,
	tok tokenizer.Tokenizer) error {
	ids, err := tok.Encode(nil, []byte(end))
	if err != nil {
		return err
	}
	if len(ids) != 1 {
		texts, err := stopTexts(fields["stop_strings"])
		if err != nil || slices.Contains(texts, end) {
			return err
		}
		fields["stop_strings"], err = json.Marshal(append(texts, end))
		return err
	}
	known, err := endIDs(fields["eos_token_id"], tok.VocabSize())
	if err != nil {
		return err
	}
	c, err := template.ParseConfig(fmt.Appendf(nil, `{"eos_token": %s}`, orNull(eos)))
	if len(known) == 0 && err == nil {
		if one, err := tok.Encode(nil, []byte(c.EOS)); err == nil && len(one) == 1 {
			known = one
		}
	}
	if !slices.Contains(known, ids[0]) {
		known = append(known, ids[0])
	}
	fields["eos_token_id"], err = json.Marshal(known)
	return err
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

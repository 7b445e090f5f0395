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

// ReplyEnd returns the text that a chat template writes after every reply, without the white space around it: what
// follows a reply that is the last message, as far as it also follows one before another message. It is "" if there is
// no such text, or if the template refuses such chats.
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

// The messages of afterReply.
const someQuestion, someReply = "hippo asks", "hippo replies"

// afterReply returns what a template writes after a reply, as the last message and before a question.
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

// userLine matches a paragraph that begins with who speaks: "\n\nUser:" of RWKV's chats.
var userLine = regexp.MustCompile(`^\n\n+[A-Za-z][A-Za-z ]*:$`)

// nextTurn returns how a template begins the question after a reply, where that is a paragraph which names the user: a
// model that was trained on such texts goes on with it. Else it is "".
func nextTurn(t *template.Template, bos, eos string) string {
	after, ok := afterReply(t, bos, eos)
	between, _, found := strings.Cut(after[1], someQuestion)
	if between = strings.TrimRight(between, " "); !ok || !found || !userLine.MatchString(between) {
		return ""
	}
	return between
}

// SetTemplate replaces the chat template. The text that it writes after a reply ends replies, too.
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

// addEnd adds a text that ends a reply: as a token if it is one.
func (s *Settings) addEnd(end string, tok tokenizer.Tokenizer) {
	if ids, err := tok.Encode(nil, []byte(end)); err == nil && len(ids) == 1 {
		s.EndIDs = append(s.EndIDs, ids[0])
	} else if err == nil && end != "" {
		s.Stop = append(s.Stop, end)
	}
}

// WithEnd returns the files of a chat format (release.ChatFiles) with one more text that ends a reply: as eos_token of
// tokenizer_config.json if no file names an end, else in the lists of generation_config.json.
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

// quoted returns a text as JSON, in which < stays <.
func quoted(text string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // texts have no errors
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

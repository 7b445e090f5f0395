package data

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// chatFields lists the sets of fields that identify a JSON object as a chat, or as a prompt with its completion.
var chatFields = [][]string{{"messages"}, {"conversations"}, {"prompt", "completion"}, {"prompt", "response"}}

// chatLines reads lines of FormatChat.
type chatLines struct{ reader ChatReader }

func (chatLines) want() string { return "a message" }

func (l chatLines) read(line []byte) (all []document, err error) {
	if _, err := objectOf(line, "messages, or with a prompt and its completion"); err != nil {
		return nil, err
	}
	texts, err := l.reader.Read(line)
	if err != nil {
		return nil, err
	}
	for _, parts := range texts {
		if slices.ContainsFunc(parts, func(p Part) bool { return p.Text != "" }) {
			all = append(all, document{parts: parts})
		}
	}
	return all, nil
}

// hasChats reports whether any file of the corpus holds chats.
func (c *Corpus) hasChats() bool {
	return slices.ContainsFunc(c.sources, func(s source) bool { return s.format == FormatChat })
}

// settle detects whether a JSONL file without a named format holds chats.
func (c *Corpus) settle(s *source, opt SourceOptions) error {
	if opt.Format == FormatAuto && s.format == FormatJSONL {
		chats, err := s.looksLikeChats(c.field)
		if err != nil {
			return err
		}
		if chats {
			s.format = FormatChat
		}
	}
	if s.format == FormatChat && c.chats == nil {
		return fmt.Errorf("data: %s holds chats, want text in a field %q", s.path, c.field)
	}
	return nil
}

// looksLikeChats reports whether the first object of a JSONL file has the fields of a chat and not the text field.
// Errors of a line are reported when it is read.
func (s *source) looksLikeChats(field string) (bool, error) {
	r, err := s.open()
	if err != nil {
		return false, err
	}
	defer r.Close()
	br := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := readLine(br, nil)
		if err != nil && err != io.EOF {
			if errors.Is(err, bufio.ErrTooLong) {
				return false, nil
			}
			return false, err
		}
		line = bytes.TrimSpace([]byte(strings.TrimPrefix(string(line), "\ufeff")))
		if len(line) == 0 && err == nil {
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(line, &object) != nil || object[field] != nil {
			return false, nil
		}
		return slices.ContainsFunc(chatFields, func(names []string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return object[name] == nil })
		}), nil
	}
}

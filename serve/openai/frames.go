package openai

import (
	"bytes"
	"strconv"

	"github.com/hippo-ssm/hippo/serve/request"
)

// frames are the events of a stream that differ in one choice: what is the same in all is encoded once, and a token
// takes no reflection and no memory. They are for one goroutine at a time.
type frames struct {
	before, after []byte // the choice
	event         []byte
}

// newFrames returns events like one that has no choices.
func newFrames(bare any) *frames {
	const none = `"choices":[]` // which no text has, as its quotes would be escaped
	all := request.SSE(bare)
	at := bytes.Index(all, []byte(none)) + len(none) - 1
	return &frames{before: all[:at], after: all[at:]}
}

// of is the event of a choice, valid until the next call.
func (e *frames) of(choice interface{ appendJSON(b []byte) []byte }) []byte {
	e.event = choice.appendJSON(append(e.event[:0], e.before...))
	e.event = append(e.event, e.after...)
	return e.event
}

// appendText appends a text in JSON.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return append(b, request.JSON(text)...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// appendOrNull appends a text in JSON, or null.
func appendOrNull(b []byte, text *string) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	return appendText(b, *text)
}

// appendJSON appends what json.Marshal makes of the choice.
func (c *completionChoice) appendJSON(b []byte) []byte {
	b = appendText(append(b, `{"text":`...), c.Text)
	b = strconv.AppendInt(append(b, `,"index":`...), int64(c.Index), 10)
	b = append(b, `,"logprobs":`...)
	if c.Logprobs == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, request.JSON(c.Logprobs)...)
	}
	return append(appendOrNull(append(b, `,"finish_reason":`...), c.Finish), '}')
}

// appendJSON appends what json.Marshal makes of the choice.
func (c *chatChoice) appendJSON(b []byte) []byte {
	text := c.Delta
	if c.Message != nil || text == nil || text.Content == nil || text.Role != "" || text.Reasoning != "" ||
		text.Refusal != nil || len(text.Calls) > 0 || c.Logprobs != nil {
		return append(b, request.JSON(c)...)
	}
	b = strconv.AppendInt(append(b, `{"index":`...), int64(c.Index), 10)
	b = appendText(append(b, `,"delta":{"content":`...), *text.Content)
	return append(appendOrNull(append(b, `},"logprobs":null,"finish_reason":`...), c.Finish), '}')
}

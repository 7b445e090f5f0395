package openai

import (
	"bytes"
	"strconv"

	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// textObject is the response of /v1/completions or /v1/chat/completions, and each event of a stream.
type textObject[C any] struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []C          `json:"choices"`
	Usage   *reply.Usage `json:"usage,omitempty"`

	Prompt []map[string]promptLogprob `json:"prompt_logprobs,omitempty"` // of a chat
}

// frames returns frames for events of choices.
func (a textObject[C]) frames(usage bool) *frames {
	a.Choices = []C{}
	return newFrames(a.event(usage))
}

// event returns an event without choices. Its usage is null if the last event will have the usage, and absent
// otherwise.
func (a *textObject[C]) event(usage bool) any {
	if !usage {
		return a
	}
	return struct {
		*textObject[C]
		Usage *reply.Usage `json:"usage"`
	}{textObject: a}
}

// end adds the last events of a stream: the usage, if requested, and the end mark.
func (a textObject[C]) end(to *request.Queue, used *reply.Usage, usage bool) {
	if usage {
		a.Choices, a.Usage = []C{}, used
		to.Add(request.SSE(&a))
	}
	to.Add(request.SSEDone)
}

// frames creates events that differ in one choice. It encodes the rest once, so that a token requires neither
// reflection nor allocation. It must be used by one goroutine at a time.
type frames struct {
	before, after []byte // the parts around the choice
	event         []byte
}

// newFrames returns frames for events that are like bare, which has no choices.
func newFrames(bare any) *frames {
	const none = `"choices":[]` // not part of any string, where quotes are escaped
	all := request.SSE(bare)
	at := bytes.Index(all, []byte(none)) + len(none) - 1
	return &frames{before: all[:at], after: all[at:]}
}

// of returns the event of a choice, valid until the next call.
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

// appendJSON appends the same bytes as json.Marshal.
func (c *completionChoice) appendJSON(b []byte) []byte {
	if c.Receipt != nil {
		return append(b, request.JSON(c)...)
	}
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

// appendJSON appends the same bytes as json.Marshal.
func (c *chatChoice) appendJSON(b []byte) []byte {
	text := c.Delta
	if c.Message != nil || text == nil || text.Content == nil || text.Role != "" || text.Reasoning != "" ||
		text.Refusal != nil || len(text.Calls) > 0 || c.Logprobs != nil || c.Receipt != nil {
		return append(b, request.JSON(c)...)
	}
	b = strconv.AppendInt(append(b, `{"index":`...), int64(c.Index), 10)
	b = appendText(append(b, `,"delta":{"content":`...), *text.Content)
	return append(appendOrNull(append(b, `},"logprobs":null,"finish_reason":`...), c.Finish), '}')
}

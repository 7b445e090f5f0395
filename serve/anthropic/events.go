package anthropic

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Block is a part of a reply. Each type has some of the fields.
type Block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// Types of blocks.
const (
	blockText     = "text"
	blockThinking = "thinking"
	blockCall     = "tool_use"
	blockResult   = "tool_result"
)

// event is an event of a stream. Each type has some of the fields.
type event struct {
	Type    string   `json:"type"`
	Message *Message `json:"message,omitempty"`
	Index   *int     `json:"index,omitempty"`
	Block   *Block   `json:"content_block,omitempty"`
	Delta   any      `json:"delta,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`

	Receipt json.RawMessage `json:"receipt,omitempty"`
}

// delta is a new part of a block. Each type has one of the fields.
type delta struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Input     string `json:"partial_json,omitempty"`
}

// bytes returns the event in a stream's format.
func (e event) bytes() []byte { return named(e.Type, &e) }

func named(kind string, v any) []byte { return append([]byte("event: "+kind+"\n"), request.SSE(v)...) }

// errorEvent returns an error as the last event of a stream.
func errorEvent(c *request.Call, e *request.Error) []byte { return named("error", newFailure(c, e)) }

// writer turns a reply into blocks, and reports the events of each.
type writer struct {
	q        *messageJob
	tell     func(event)
	split    *reply.Splitter
	open     *Block // the last block, unless it is closed
	text     strings.Builder
	thoughts int // number of reasoning tokens
}

// add appends a piece.
func (w *writer) add(p reply.Piece) {
	thinks := w.split.Thinks()
	fresh := w.split.Push(p.Text, p.End != "")
	if thinks || w.split.Thinks() {
		w.thoughts += len(p.Tokens)
	}
	if fresh.Reasoning != "" {
		w.push(blockThinking, fresh.Reasoning)
	}
	if fresh.Content != "" {
		w.push(blockText, fresh.Content)
	}
	for _, c := range fresh.Calls {
		w.begin(Block{Type: blockCall, ID: c.ID, Name: c.Function.Name, Input: json.RawMessage("{}")})
		w.delta(delta{Type: "input_json_delta", Input: c.Function.Arguments})
		w.open.Input = json.RawMessage(c.Function.Arguments)
		w.close()
	}
	if p.End != "" {
		w.close()
		w.q.end(p, w.split.Called)
	}
}

// push appends a text to the open block, or to a new one of the given type.
func (w *writer) push(kind, text string) {
	if w.open == nil || w.open.Type != kind {
		b := Block{Type: kind, Text: new(string)}
		if kind == blockThinking {
			b = Block{Type: kind, Thinking: new(string), Signature: new(string)}
		}
		w.begin(b)
	}
	w.text.WriteString(text)
	switch {
	case kind == blockText:
		w.delta(delta{Type: "text_delta", Text: text})
	case !w.q.Thinking.omits():
		w.delta(delta{Type: "thinking_delta", Thinking: text})
	}
}

// begin opens a block.
func (w *writer) begin(b Block) {
	w.close()
	w.q.answer.Content = append(w.q.answer.Content, b)
	w.open = &w.q.answer.Content[len(w.q.answer.Content)-1]
	w.of("content_block_start", event{Block: &b})
}

// close closes the open block.
func (w *writer) close() {
	if w.open == nil {
		return
	}
	text := w.text.String()
	w.text.Reset()
	switch w.open.Type {
	case blockText:
		w.open.Text = &text
	case blockThinking:
		// Clients drop reasoning without a signature. This server accepts any signature.
		sum := sha256.Sum256([]byte(text))
		signature := base64.StdEncoding.EncodeToString(sum[:])
		w.delta(delta{Type: "signature_delta", Signature: signature})
		if w.open.Signature = &signature; !w.q.Thinking.omits() {
			w.open.Thinking = &text
		}
	}
	w.of("content_block_stop", event{})
	w.open = nil
}

// delta reports a new part of the open block.
func (w *writer) delta(d delta) { w.of("content_block_delta", event{Delta: &d}) }

// of reports an event of the last block.
func (w *writer) of(kind string, e event) {
	at := len(w.q.answer.Content) - 1
	e.Type, e.Index = kind, &at
	w.tell(e)
}

package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/hippo-ssm/hippo/generate"
)

// responseObject is OpenAI's object of a response.
type responseObject struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	Created           int64             `json:"created_at"`
	Completed         *int64            `json:"completed_at"`
	Status            string            `json:"status"`
	Background        bool              `json:"background"`
	Error             *responseError    `json:"error"`
	Incomplete        *responseShort    `json:"incomplete_details"`
	Instructions      *string           `json:"instructions"`
	MaxOutputTokens   *int              `json:"max_output_tokens"`
	Model             string            `json:"model"`
	Output            []responseMessage `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Previous          *string           `json:"previous_response_id"`
	Store             bool              `json:"store"`
	StoreError        string            `json:"store_error,omitempty"` // ours: why it is not kept
	Temperature       float64           `json:"temperature"`
	Text              responseText      `json:"text"`
	ToolChoice        string            `json:"tool_choice"`
	Tools             []struct{}        `json:"tools"`
	TopP              float64           `json:"top_p"`
	TopLogprobs       int               `json:"top_logprobs"`
	Truncation        string            `json:"truncation"`
	Usage             *responseUsage    `json:"usage"`
	Metadata          map[string]string `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// responseShort says why a response is incomplete.
type responseShort struct {
	Reason string `json:"reason"`
}

// responseMessage is a message of the output.
type responseMessage struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Status  string         `json:"status"`
	Role    string         `json:"role"`
	Content []responsePart `json:"content"`
}

// responsePart is a text of a message.
type responsePart struct {
	Type        string         `json:"type"`
	Text        string         `json:"text"`
	Annotations []struct{}     `json:"annotations"`
	Logprobs    *[]chatLogprob `json:"logprobs,omitempty"`
}

type responseUsage struct {
	Input         int                 `json:"input_tokens"`
	InputDetails  details             `json:"input_tokens_details"`
	Output        int                 `json:"output_tokens"`
	OutputDetails responseUsageOutput `json:"output_tokens_details"`
	Total         int                 `json:"total_tokens"`
}

type responseUsageOutput struct {
	Reasoning int `json:"reasoning_tokens"`
}

// States of a response and of its message.
const (
	responseRunning   = "in_progress"
	responseCompleted = "completed"
	responseCut       = "incomplete"
	responseFailed    = "failed"
)

// newResponseObject is a response before anything of it is there.
func newResponseObject(q *responding, o generate.Options) responseObject {
	metadata := q.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return responseObject{
		ID: newResponseID(), Object: "response", Created: now(), Status: responseRunning,
		Instructions: orNull(q.Instructions), MaxOutputTokens: q.MaxOutput, Model: q.model.name,
		Output: []responseMessage{}, ParallelToolCalls: true, Previous: orNull(q.Previous), Store: or(q.Store, true),
		Temperature: o.Temperature, TopP: or(q.TopP, 1), TopLogprobs: or(q.TopLogprobs, 0),
		Text: responseText{responseFormat{Type: "text"}}, ToolChoice: "auto", Tools: []struct{}{},
		Truncation: "disabled", Metadata: metadata,
	}
}

// message is the only message of the output, which is there when the first piece is.
func (a *responseObject) message() *responseMessage {
	if len(a.Output) == 0 {
		a.Output = append(a.Output, responseMessage{
			ID: "msg_" + rand.Text(), Type: "message", Status: responseRunning, Role: assistantRole,
			Content: []responsePart{},
		})
	}
	return &a.Output[0]
}

// part is the text of the message.
func (a *responseObject) part() *responsePart {
	m := a.message()
	if len(m.Content) == 0 {
		m.Content = append(m.Content, responsePart{Type: "output_text", Annotations: []struct{}{}})
	}
	return &m.Content[0]
}

// add puts a piece behind what there is. The token that ends a reply is no part of it.
func (a *responseObject) add(q *responding, r *reply, p piece) {
	to := a.part()
	to.Text += p.text
	tokens := r.take(p)
	if q.top >= 0 {
		if p.end == generate.EndText && len(tokens) > 0 {
			tokens = tokens[:len(tokens)-1]
		}
		if to.Logprobs == nil {
			to.Logprobs = &[]chatLogprob{}
		}
		*to.Logprobs = append(*to.Logprobs, q.model.logprobs(tokens)...)
	}
	switch p.end {
	case "":
		return
	case generate.EndLength:
		a.Status, a.Incomplete = responseCut, &responseShort{"max_output_tokens"}
	default:
		a.Status = responseCompleted
	}
	a.Output[0].Status = a.Status
}

// finish notes what the response took.
func (a *responseObject) finish(u usage) {
	if a.Status == responseCompleted {
		at := now()
		a.Completed = &at
	}
	a.Usage = &responseUsage{Input: u.Prompt, InputDetails: u.Details, Output: u.Completion, Total: u.Total}
}

// responseEvent is an event of a stream. Each type has some of the fields.
type responseEvent struct {
	Type     string           `json:"type"`
	Number   int              `json:"sequence_number"`
	Response *responseObject  `json:"response,omitempty"`
	ItemID   string           `json:"item_id,omitempty"`
	Output   *int             `json:"output_index,omitempty"`
	Content  *int             `json:"content_index,omitempty"`
	Item     *responseMessage `json:"item,omitempty"`
	Part     *responsePart    `json:"part,omitempty"`
	Delta    *string          `json:"delta,omitempty"`
	Text     *string          `json:"text,omitempty"`
	Logprobs *[]chatLogprob   `json:"logprobs,omitempty"`
}

// eventWriter numbers events and adds them to a queue.
type eventWriter struct {
	to     *queue
	number int
	item   string // the id of the message
}

// add adds an event. Those of a message, and of a part of it, have its place.
func (w *eventWriter) add(e responseEvent) {
	w.to.add(w.next(e))
}

func (w *eventWriter) next(e responseEvent) []byte {
	e.Number = w.number
	w.number++
	return append([]byte("event: "+e.Type+"\n"), sse(&e)...)
}

// inItem is an event of the message, or of its part.
func (w *eventWriter) inItem(e responseEvent) responseEvent {
	zero := 0
	e.Output = &zero
	if e.Item == nil {
		e.ItemID, e.Content = w.item, &zero
	}
	return e
}

// stream does the work and sends each piece as it comes.
func (q *responding) stream(ctx context.Context, c *call, to *queue) error {
	q.events = &eventWriter{to: to}
	w := q.events
	begin := func() {
		w.add(responseEvent{Type: "response.created", Response: &q.object})
		w.add(responseEvent{Type: "response.in_progress", Response: &q.object})
		m := *q.object.message()
		w.item = m.ID
		w.add(w.inItem(responseEvent{Type: "response.output_item.added", Item: &m}))
		w.add(w.inItem(responseEvent{Type: "response.content_part.added", Part: q.object.part()}))
	}
	told := 0
	err := q.run(ctx, c, begin, func(p piece) {
		logprobs := q.object.newLogprobs(&told)
		if p.text == "" && len(logprobs) == 0 {
			return
		}
		w.add(w.inItem(responseEvent{Type: "response.output_text.delta", Delta: &p.text, Logprobs: &logprobs}))
	})
	if err != nil {
		return err
	}
	told = 0
	done, logprobs := q.object.part(), q.object.newLogprobs(&told)
	w.add(w.inItem(responseEvent{Type: "response.output_text.done", Text: &done.Text, Logprobs: &logprobs}))
	w.add(w.inItem(responseEvent{Type: "response.content_part.done", Part: done}))
	w.add(w.inItem(responseEvent{Type: "response.output_item.done", Item: q.object.message()}))
	w.add(responseEvent{Type: "response." + q.object.Status, Response: &q.object})
	return nil
}

// newLogprobs are those of the text from the first on that has not been told.
func (a *responseObject) newLogprobs(told *int) []chatLogprob {
	all := a.part().Logprobs
	if all == nil {
		return []chatLogprob{}
	}
	fresh := (*all)[*told:]
	*told = len(*all)
	return fresh
}

// failed is the last event of a stream that an error ends.
func (q *responding) failed(e *Error) []byte {
	code := e.Code
	if code == "" {
		code = e.kind()
	}
	q.object.Status, q.object.Error = responseFailed, &responseError{code, e.short()}
	return q.events.next(responseEvent{Type: "response.failed", Response: &q.object})
}

// deletedObject says that something is no more.
func deletedObject(id, object string) json.RawMessage {
	data, err := json.Marshal(map[string]any{"id": id, "object": object, "deleted": true})
	if err != nil {
		return nil // it consists of texts
	}
	return data
}

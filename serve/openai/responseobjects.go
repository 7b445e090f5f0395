package openai

import (
	"cmp"
	"encoding/json"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Response is OpenAI's object of a response.
type Response struct {
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
	Output            []responseItem    `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Previous          *string           `json:"previous_response_id"`
	Store             bool              `json:"store"`
	StoreError        string            `json:"store_error,omitempty"` // not OpenAI's: why the response is not stored
	Temperature       float64           `json:"temperature"`
	Text              responseText      `json:"text"`
	Reasoning         responseReasoning `json:"reasoning"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	Tools             []json.RawMessage `json:"tools"`
	TopP              float64           `json:"top_p"`
	TopLogprobs       int               `json:"top_logprobs"`
	Truncation        string            `json:"truncation"`
	Usage             *responseUsage    `json:"usage"`
	Metadata          map[string]string `json:"metadata"`
	Conversation      *conversationID   `json:"conversation"`
	Receipt           json.RawMessage   `json:"receipt,omitempty"` // not OpenAI's
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// responseShort is the reason why a response is incomplete.
type responseShort struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input         int                 `json:"input_tokens"`
	InputDetails  reply.UsageDetails  `json:"input_tokens_details"`
	Output        int                 `json:"output_tokens"`
	OutputDetails responseUsageOutput `json:"output_tokens_details"`
	Total         int                 `json:"total_tokens"`
}

type responseUsageOutput struct {
	Reasoning int `json:"reasoning_tokens"`
}

// States of a response and of its items.
const (
	responseQueued    = "queued"
	responseRunning   = "in_progress"
	ResponseCompleted = "completed"
	responseCut       = "incomplete"
	responseFailed    = "failed"
	responseCancelled = "cancelled"
)

// newResponseObject returns the object of a response at its start.
func newResponseObject(q *responding, o generate.Options) Response {
	metadata := q.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	choice, tools := q.Choice, q.Tools
	if len(choice) == 0 {
		choice = json.RawMessage(`"auto"`)
	}
	if tools == nil {
		tools = []json.RawMessage{}
	}
	var talk *conversationID
	if q.talk != nil {
		talk = &conversationID{q.talk.Conversation.ID}
	}
	return Response{
		Conversation: talk, ID: newResponseID(q.Background), Object: "response", Created: request.Now(),
		Status:       responseRunning,
		Instructions: request.OrNull(q.Instructions), MaxOutputTokens: q.MaxOutput, Model: q.job.Model.Name,
		Output: []responseItem{}, ParallelToolCalls: request.Or(q.Parallel, true), Previous: request.OrNull(q.Previous),
		Reasoning: q.Reasoning, Store: request.Or(q.Store, true), Temperature: o.Temperature,
		TopP:        request.Or(q.TopP, 1),
		TopLogprobs: request.Or(q.TopLogprobs, 0), Text: q.Text, ToolChoice: choice, Tools: tools,
		Truncation: "disabled",
		Metadata:   metadata,
	}
}

// finish sets the usage and the time of completion.
func (a *Response) finish(u reply.Usage, thoughts int) {
	if a.Status == ResponseCompleted {
		at := request.Now()
		a.Completed = &at
	}
	a.Usage = &responseUsage{
		Input: u.Prompt, InputDetails: u.Details, Output: u.Completion, OutputDetails: responseUsageOutput{thoughts},
		Total: u.Total,
	}
}

// setError sets the reason why the response has failed.
func (a *Response) setError(e *request.Error) {
	a.Status, a.Error = responseFailed, &responseError{cmp.Or(e.Code, e.Kind()), e.Short()}
}

// failed returns the last event of a stream that ends with an error.
func (q *responding) failed(e *request.Error) []byte {
	q.object.setError(e)
	return q.events.next(responseEvent{Type: "response.failed", Response: &q.object})
}

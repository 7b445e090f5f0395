package clients

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// ask returns a request to /v1/responses.
func ask(input, previous string) responses.ResponseNewParams {
	q := responses.ResponseNewParams{
		Model: "tiny", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(input)},
		Instructions: openai.String("Talk about whales."), MaxOutputTokens: openai.Int(9), Temperature: openai.Float(0),
		Metadata: map[string]string{"of": "a test"},
	}
	if previous != "" {
		q.PreviousResponseID = openai.String(previous)
	}
	return q
}

// TestOpenAIResponses checks that a response is created, continued, found, its input listed, and deleted; that there is
// none under another name; and that a wrong field is named.
func TestOpenAIResponses(t *testing.T) {
	c := newClient(t)
	one, err := c.Responses.New(t.Context(), ask("Call me", ""))
	if err != nil {
		t.Fatal(err)
	}
	if one.Status != "incomplete" || one.IncompleteDetails.Reason != "max_output_tokens" || one.OutputText() == "" ||
		one.Usage.OutputTokens != 9 || one.Metadata["of"] != "a test" || one.Instructions.OfString == "" {
		t.Errorf("got %s", one.RawJSON())
	}
	two, err := c.Responses.New(t.Context(), ask("And then?", one.ID))
	if err != nil {
		t.Fatal(err)
	}
	if two.PreviousResponseID != one.ID || two.Usage.InputTokens <= one.Usage.TotalTokens {
		t.Errorf("got %s", two.RawJSON())
	}
	again, err := c.Responses.Get(t.Context(), two.ID, responses.ResponseGetParams{})
	if err != nil || again.OutputText() != two.OutputText() || again.Usage.TotalTokens != two.Usage.TotalTokens {
		t.Errorf("got %v, %v", again, err)
	}
	items, err := c.Responses.InputItems.List(t.Context(), two.ID, responses.InputItemListParams{})
	if err != nil || len(items.Data) != 1 || items.Data[0].Content.OfInputItemContentList[0].Text != "And then?" {
		t.Errorf("got %+v, %v", items, err)
	}
	if _, err := c.Responses.Cancel(t.Context(), two.ID); err != nil {
		t.Error(err)
	}
	if err := c.Responses.Delete(t.Context(), two.ID); err != nil {
		t.Error(err)
	}
	var wrong *openai.Error
	_, err = c.Responses.Get(t.Context(), two.ID, responses.ResponseGetParams{})
	if !errors.As(err, &wrong) || wrong.StatusCode != http.StatusNotFound {
		t.Errorf("got %v for one that is deleted", err)
	}
	_, err = c.Responses.New(t.Context(), ask("And then?", two.ID))
	if !errors.As(err, &wrong) || wrong.Param != "previous_response_id" || wrong.Code != "previous_response_not_found" {
		t.Errorf("got %v behind one that is deleted", err)
	}
	list := ask("", "")
	list.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("Call", responses.EasyInputMessageRoleUser),
		responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
			responses.ResponseInputContentParamOfInputText("me"),
		}, responses.EasyInputMessageRoleUser),
	}}
	if _, err := c.Responses.New(t.Context(), list); err != nil {
		t.Error(err)
	}
	list.Temperature = openai.Float(-1)
	if _, err := c.Responses.New(t.Context(), list); !errors.As(err, &wrong) || wrong.Param != "temperature" {
		t.Errorf("got %v", err)
	}
}

// TestOpenAIResponsesStream checks that the events of a stream come in the official order, numbered, and make up the
// response in the last of them, which is stored.
func TestOpenAIResponsesStream(t *testing.T) {
	c := newClient(t)
	q := ask("Call me", "")
	q.Include, q.TopLogprobs = []responses.ResponseIncludable{"message.output_text.logprobs"}, param.NewOpt[int64](2)
	stream := c.Responses.NewStreaming(t.Context(), q)
	var kinds []string
	var text string
	var logprobs int
	var last responses.Response
	for stream.Next() {
		e := stream.Current()
		if int(e.SequenceNumber) != len(kinds) {
			t.Errorf("event %s has the number %d, want %d", e.Type, e.SequenceNumber, len(kinds))
		}
		kinds = append(kinds, e.Type)
		switch e := e.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
			logprobs += len(e.Logprobs)
		case responses.ResponseTextDoneEvent:
			if e.Text != text {
				t.Errorf("the text is %q, and its pieces %q", e.Text, text)
			}
		case responses.ResponseIncompleteEvent:
			last = e.Response
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(kinds, " ")
	for strings.Contains(got, " response.output_text.delta response.output_text.delta") {
		got = strings.Replace(got, " response.output_text.delta", "", 1)
	}
	const want = "response.created response.in_progress response.output_item.added response.content_part.added " +
		"response.output_text.delta response.output_text.done response.content_part.done " +
		"response.output_item.done response.incomplete"
	if got != want {
		t.Errorf("the events are %s\nwant %s", got, want)
	}
	if last.OutputText() != text || last.Usage.OutputTokens != 9 || logprobs != 9 {
		t.Errorf("the last event has %s; %d log-probabilities", last.RawJSON(), logprobs)
	}
	if kept, err := c.Responses.Get(t.Context(), last.ID, responses.ResponseGetParams{}); err != nil ||
		kept.OutputText() != text {
		t.Errorf("kept is %v, %v", kept, err)
	}
}

// TestOpenAIResponsesStructured checks a text of a schema, thoughts, and a call, whole and from a stream, whose answer
// is sent after the response.
func TestOpenAIResponsesStructured(t *testing.T) {
	c := newCaller(t)
	q := ask("Which?", "")
	q.MaxOutputTokens, q.Temperature = openai.Int(300), openai.Float(1)
	q.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
		OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: "city", Strict: openai.Bool(true), Schema: city,
		},
	}}
	a, err := c.Responses.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	checkCity(t, a.OutputText())
	if a.Text.Format.Type != "json_schema" || a.Text.Format.Name != "city" {
		t.Errorf("the format is %s", a.Text.RawJSON())
	}
	q.Text = responses.ResponseTextConfigParam{}
	q.Tools = []responses.ToolUnionParam{
		responses.ToolParamOfFunction("find", city, true), responses.ToolParamOfFunction("stop", nil, false),
	}
	q.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{
		OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "find"},
	}
	if a, err = c.Responses.New(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	call := a.Output[0].AsFunctionCall()
	if len(a.Output) != 1 || call.Name != "find" || call.CallID == "" || a.Tools[0].AsFunction().Name != "find" ||
		a.ToolChoice.Name != "find" {
		t.Fatalf("got %s", a.RawJSON())
	}
	checkCity(t, call.Arguments)
	deltas, done := "", false
	stream := c.Responses.NewStreaming(t.Context(), q)
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseFunctionCallArgumentsDeltaEvent:
			deltas += e.Delta
		case responses.ResponseFunctionCallArgumentsDoneEvent:
			checkCity(t, e.Arguments)
		case responses.ResponseOutputItemDoneEvent:
			done = e.Item.AsFunctionCall().Arguments == deltas && e.Item.Name == "find"
		}
	}
	if err := stream.Err(); err != nil || !done {
		t.Errorf("the stream has %q, %v", deltas, err)
	}
	q.PreviousResponseID, q.MaxOutputTokens = openai.String(a.ID), openai.Int(9)
	q.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsNone)}
	q.Reasoning = responses.ReasoningParam{Effort: responses.ReasoningEffortLow}
	q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: openai.String(call.CallID),
			Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("Oslo")},
		}},
	}}
	if a, err = c.Responses.New(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	thought := a.Output[0].AsReasoning()
	if thought.Status != "incomplete" || len(thought.Content) != 1 || thought.Content[0].Text == "" ||
		a.Usage.OutputTokensDetails.ReasoningTokens != 9 || a.Reasoning.Effort != "low" {
		t.Errorf("got %s", a.RawJSON())
	}
	items, err := c.Responses.InputItems.List(t.Context(), a.ID, responses.InputItemListParams{})
	if err != nil || len(items.Data) != 1 || items.Data[0].AsFunctionCallOutput().CallID != call.CallID {
		t.Errorf("got %+v, %v", items, err)
	}
}

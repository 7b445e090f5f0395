package clients

import (
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// message returns an item with a text of the user.
func message(text string) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
}

// TestOpenAIConversations checks that a conversation is created, changed, continued and deleted, with its items; that
// the tokens of a prompt are counted; and that a compacted conversation continues.
func TestOpenAIConversations(t *testing.T) {
	c := newClient(t)
	talk, err := c.Conversations.New(t.Context(), conversations.ConversationNewParams{
		Items:    []responses.ResponseInputItemUnionParam{message("Call me Ishmael.")},
		Metadata: shared.Metadata{"of": "whales"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := responses.ResponseNewParamsConversationUnion{OfString: openai.String(talk.ID)}
	count, err := c.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
		Model: openai.String("tiny"), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("And?")},
		Conversation: responses.InputTokenCountParamsConversationUnion{OfString: openai.String(talk.ID)},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := ask("And?", "")
	q.Instructions, q.Conversation = param.Opt[string]{}, in
	a, err := c.Responses.New(t.Context(), q)
	if err != nil || a.Usage.InputTokens != count.InputTokens || a.Conversation.ID != talk.ID {
		t.Fatalf("got %+v, %v, want %d tokens", a, err, count.InputTokens)
	}
	added, err := c.Conversations.Items.New(t.Context(), talk.ID, conversations.ItemNewParams{
		Items: []responses.ResponseInputItemUnionParam{message("Wait.")},
	})
	if err != nil || len(added.Data) != 1 {
		t.Fatalf("got %+v, %v", added, err)
	}
	var ids []string
	for items := c.Conversations.Items.ListAutoPaging(t.Context(), talk.ID, conversations.ItemListParams{
		Limit: openai.Int(1), Order: conversations.ItemListParamsOrderAsc,
	}); items.Next(); {
		ids = append(ids, items.Current().ID)
	}
	if len(ids) != 4 || ids[3] != added.Data[0].ID {
		t.Errorf("found the items %v", ids)
	}
	one, err := c.Conversations.Items.Get(t.Context(), talk.ID, ids[2], conversations.ItemGetParams{})
	if err != nil || one.AsMessage().Content[0].Text != a.OutputText() {
		t.Errorf("got %+v, %v, want %q", one, err, a.OutputText())
	}
	if _, err := c.Conversations.Items.Delete(t.Context(), talk.ID, ids[3]); err != nil {
		t.Error(err)
	}
	changed, err := c.Conversations.Update(t.Context(), talk.ID, conversations.ConversationUpdateParams{
		Metadata: shared.Metadata{"of": "ships"},
	})
	again, err2 := c.Conversations.Get(t.Context(), talk.ID)
	if err != nil || err2 != nil || changed.RawJSON() != again.RawJSON() {
		t.Errorf("got %+v, %v and %+v, %v", changed, err, again, err2)
	}
	if gone, err := c.Conversations.Delete(t.Context(), talk.ID); err != nil || !gone.Deleted {
		t.Errorf("got %+v, %v", gone, err)
	}
	short, err := c.Responses.Compact(t.Context(), responses.ResponseCompactParams{
		Model: "tiny", PreviousResponseID: openai.String(a.ID),
	})
	if err != nil || len(short.Output) != 3 || short.Output[2].Type != "compaction" {
		t.Fatalf("got %+v, %v", short, err)
	}
	q = ask("", "")
	q.Instructions = param.Opt[string]{}
	q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfCompaction(short.Output[2].AsCompaction().EncryptedContent), message("So?"),
	}}
	if b, err := c.Responses.New(t.Context(), q); err != nil || b.Usage.InputTokens <= a.Usage.TotalTokens {
		t.Errorf("got %+v, %v", b, err)
	}
}

// TestOpenAICustomTools checks that a custom tool is called with a text of its grammar, whole and in a stream, that its
// answer can be sent back, and that one of the allowed tools is called.
func TestOpenAICustomTools(t *testing.T) {
	c := newCaller(t)
	q := ask("Which?", "")
	q.MaxOutputTokens, q.Temperature = openai.Int(300), openai.Float(1)
	q.Tools = []responses.ToolUnionParam{{OfCustom: &responses.CustomToolParam{
		Name: "patch", Format: shared.CustomToolInputFormatUnionParam{
			OfGrammar: &shared.CustomToolInputFormatGrammarParam{Syntax: "regex", Definition: `(add|cut) "[a-c]"`},
		},
	}}, responses.ToolParamOfFunction("find", city, true)}
	q.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{
		OfCustomTool: &responses.ToolChoiceCustomParam{Name: "patch"},
	}
	a, err := c.Responses.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	call := a.Output[0].AsCustomToolCall()
	if len(a.Output) != 1 || call.Name != "patch" || len(call.Input) != len(`add "a"`) {
		t.Fatalf("got %s", a.RawJSON())
	}
	deltas, done := "", false
	stream := c.Responses.NewStreaming(t.Context(), q)
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseCustomToolCallInputDeltaEvent:
			deltas += e.Delta
		case responses.ResponseCustomToolCallInputDoneEvent:
			done = e.Input == deltas && len(deltas) == len(call.Input)
		}
	}
	if err := stream.Err(); err != nil || !done {
		t.Errorf("the stream has %q, %v", deltas, err)
	}
	q.PreviousResponseID = openai.String(a.ID)
	q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfCustomToolCallOutput(call.CallID, "done"),
	}}
	q.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfAllowedTools: &responses.ToolChoiceAllowedParam{
		Mode: "required", Tools: []map[string]any{{"type": "function", "name": "find"}},
	}}
	q.ParallelToolCalls = openai.Bool(false)
	b, err := c.Responses.New(t.Context(), q)
	if err != nil || len(b.Output) != 1 || b.Output[0].Name != "find" {
		t.Fatalf("got %+v, %v", b, err)
	}
	checkCity(t, b.Output[0].AsFunctionCall().Arguments)
}

// TestOpenAIBackground checks that a response in the background can be polled until it has ended, that its events can
// be followed from a given one on, and that it can be cancelled.
func TestOpenAIBackground(t *testing.T) {
	c := newClient(t)
	q := ask("Call me", "")
	q.Background = openai.Bool(true)
	a, err := c.Responses.New(t.Context(), q)
	for ; err == nil && (a.Status == "queued" || a.Status == "in_progress"); time.Sleep(time.Millisecond) {
		a, err = c.Responses.Get(t.Context(), a.ID, responses.ResponseGetParams{})
	}
	if err != nil || a.Status != responses.ResponseStatusIncomplete || a.Usage.OutputTokens != 9 {
		t.Fatalf("got %+v, %v", a, err)
	}
	events := c.Responses.NewStreaming(t.Context(), q)
	id := ""
	for id == "" && events.Next() {
		id = events.Current().Response.ID
	}
	if err := events.Close(); err != nil || id == "" {
		t.Fatalf("found %q, %v", id, err)
	}
	text, number := "", int64(2)
	rest := c.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: openai.Int(1)})
	for rest.Next() {
		e := rest.Current()
		if e.SequenceNumber != number {
			t.Errorf("found the event %d, want %d", e.SequenceNumber, number)
		}
		number++
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
	}
	if err := rest.Err(); err != nil || text != a.OutputText() {
		t.Errorf("the events have %q, %v, want %q", text, err, a.OutputText())
	}
	q.MaxOutputTokens = openai.Int(16000)
	if a, err = c.Responses.New(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if a, err = c.Responses.Cancel(t.Context(), a.ID); err != nil || a.Status != responses.ResponseStatusCancelled {
		t.Errorf("got %+v, %v", a, err)
	}
}

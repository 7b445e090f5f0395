package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// newAnthropic returns Anthropic's own client for a server.
func newAnthropic(address, secret string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(address), option.WithAPIKey(secret), option.WithMaxRetries(0))
}

// says returns a request with one message of the user.
func says(text string, n int64) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "tiny", MaxTokens: n, Temperature: anthropic.Float(0),
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

// streamed returns a message that the client gathers from a stream.
func streamed(t *testing.T, c *anthropic.Client, q anthropic.MessageNewParams) (m anthropic.Message) {
	t.Helper()
	stream := c.Messages.NewStreaming(t.Context(), q)
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Error(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
	return m
}

// TestAnthropicMessages checks that a message gets a reply, the same in a stream; that tokens are counted and models
// are listed; and that a wrong request, a wrong key and a wrong name have errors of their types.
func TestAnthropicMessages(t *testing.T) {
	address, secret := newServer(t, true)
	c := newAnthropic(address, secret)
	q := says("Call me", 8)
	q.System = []anthropic.TextBlockParam{{Text: "Talk about whales."}}
	a, err := c.Messages.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if a.StopReason != anthropic.StopReasonMaxTokens || a.Usage.OutputTokens != 8 || a.Content[0].AsText().Text == "" {
		t.Errorf("got %s", a.RawJSON())
	}
	if b := streamed(t, &c, q); b.Content[0].Text != a.Content[0].Text || b.StopReason != a.StopReason ||
		b.Usage.InputTokens != a.Usage.InputTokens || b.Usage.OutputTokens != 8 {
		t.Errorf("the stream has %s, want %s", b.RawJSON(), a.RawJSON())
	}
	n, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "tiny", Messages: q.Messages,
		System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: q.System},
	})
	if err != nil || n.InputTokens != a.Usage.InputTokens {
		t.Errorf("counted %+v, %v, want %d", n, err, a.Usage.InputTokens)
	}
	q.MaxTokens, q.StopSequences = 40, []string{"y"}
	q.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: map[string]any{"const": "xyz"}}
	b, err := c.Messages.New(t.Context(), q)
	if err != nil || b.StopReason != anthropic.StopReasonStopSequence || b.StopSequence != "y" ||
		strings.TrimSpace(b.Content[0].Text) != `"x` {
		t.Errorf("got %+v, %v", b, err)
	}
	models, err := c.Models.List(t.Context(), anthropic.ModelListParams{})
	if err != nil || len(models.Data) != 1 || models.Data[0].DisplayName != "tiny" || models.HasMore {
		t.Errorf("got %+v, %v", models, err)
	}
	wantError := func(c anthropic.Client, q anthropic.MessageNewParams, status int, kind string) {
		t.Helper()
		var wrong *anthropic.Error
		if _, err := c.Messages.New(t.Context(), q); !errors.As(err, &wrong) || wrong.StatusCode != status ||
			!strings.Contains(wrong.RawJSON(), `"type":"`+kind+`"`) || wrong.RequestID == "" {
			t.Errorf("got %v, want %d, %s", err, status, kind)
		}
	}
	q.TopP = anthropic.Float(7)
	wantError(c, q, http.StatusBadRequest, "invalid_request_error")
	q = says("a", 1)
	wantError(newAnthropic(address, "none"), q, http.StatusUnauthorized, "authentication_error")
	q.Model = "claude"
	wantError(c, q, http.StatusNotFound, "not_found_error")
	q = says("a", 1)
	q.Messages[0].Content = append(q.Messages[0].Content, anthropic.NewImageBlockBase64("image/png", "aGk="))
	wantError(c, q, http.StatusBadRequest, "invalid_request_error")
}

// toolOf returns a tool with a description and a schema.
func toolOf(name string, properties map[string]any, required ...string) anthropic.ToolUnionParam {
	return anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
		Name: name, Description: anthropic.String("does " + name),
		InputSchema: anthropic.ToolInputSchemaParam{Properties: properties, Required: required},
	}}
}

// TestAnthropicTools checks that a tool is called with arguments of its schema, whole and in a stream, and that its
// result can be sent back; that a model thinks if it is asked to; and that a text follows a schema.
func TestAnthropicTools(t *testing.T) {
	c := newAnthropic(newThinker(t), "any")
	q := says("Which?", 300)
	q.Temperature = anthropic.Float(1)
	q.Tools = []anthropic.ToolUnionParam{
		toolOf("find", city["properties"].(map[string]any), "name", "size"), toolOf("stop", nil),
	}
	q.Tools[0].OfTool.InputSchema.ExtraFields = map[string]any{"additionalProperties": false}
	q.ToolChoice = anthropic.ToolChoiceParamOfTool("find")
	a, err := c.Messages.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []anthropic.Message{*a, streamed(t, &c, q)} {
		call := m.Content[0].AsToolUse()
		if len(m.Content) != 1 || call.Name != "find" || call.ID == "" || m.StopReason != anthropic.StopReasonToolUse {
			t.Fatalf("got %s", m.RawJSON())
		}
		checkCity(t, string(call.Input))
	}
	q.Messages = append(q.Messages, a.ToParam(),
		anthropic.NewUserMessage(anthropic.NewToolResultBlock(a.Content[0].ID, "Oslo", true)))
	q.ToolChoice, q.MaxTokens = anthropic.ToolChoiceUnionParam{OfNone: &anthropic.ToolChoiceNoneParam{}}, 9
	q.Thinking = anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{}}
	q.OutputConfig.Effort = anthropic.OutputConfigEffortLow
	for _, m := range []anthropic.Message{*newMessage(t, &c, q), streamed(t, &c, q)} {
		thought := m.Content[0].AsThinking()
		if len(m.Content) != 1 || thought.Thinking == "" || thought.Signature == "" || m.Usage.OutputTokens != 9 {
			t.Errorf("got %s", m.RawJSON())
		}
		q.Messages = append(q.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("So?")))
	}
	q = says("Which?", 300)
	q.Temperature = anthropic.Float(1)
	q.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: city}
	checkCity(t, newMessage(t, &c, q).Content[0].Text)
}

func newMessage(t *testing.T, c *anthropic.Client, q anthropic.MessageNewParams) *anthropic.Message {
	t.Helper()
	m, err := c.Messages.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnthropicAgent replays the requests of a coding agent: a system prompt in blocks, the first of which differs in
// each request, many tools, and turns of calls and results, the last of which is marked to be cached. Every request is
// a stream. Text that an earlier request has read is not read again.
func TestAnthropicAgent(t *testing.T) {
	c := newAnthropic(newThinker(t), "any")
	marked := anthropic.NewCacheControlEphemeralParam()
	q := says("<system-reminder>\nThe folder is empty.\n</system-reminder>\n", 32000)
	q.Messages[0].Content = append(q.Messages[0].Content, anthropic.NewTextBlock("Make a list of files."))
	q.Temperature = anthropic.Float(1)
	q.Metadata.UserID = anthropic.String("user_0_account__session_1")
	q.Thinking = anthropic.ThinkingConfigParamUnion{OfAdaptive: &anthropic.ThinkingConfigAdaptiveParam{}}
	q.ToolChoice = anthropic.ToolChoiceParamOfTool("Tool7")
	for i := range 40 {
		q.Tools = append(q.Tools, toolOf(fmt.Sprintf("Tool%d", i), map[string]any{
			"path": map[string]any{"enum": []string{"a.go", "b.go"}},
		}, "path"))
		q.Tools[i].OfTool.InputSchema.ExtraFields = map[string]any{"additionalProperties": false}
	}
	q.Tools[39].OfTool.CacheControl = marked
	before := int64(0) // number of tokens of the last prompt
	for turn := range 5 {
		q.System = []anthropic.TextBlockParam{
			{Text: fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=%05x;", turn*7919)},
			{Text: "You write programs."}, {Text: strings.Repeat("Be brief. ", 200), CacheControl: marked},
		}
		last := q.Messages[len(q.Messages)-1].Content
		*last[len(last)-1].GetCacheControl() = marked
		m := streamed(t, &c, q)
		*last[len(last)-1].GetCacheControl() = anthropic.CacheControlEphemeralParam{}
		u := m.Usage
		all := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		const chunk = 256 // of a model with long convolutions
		if m.StopReason != anthropic.StopReasonToolUse || u.InputTokens != 0 || all <= before ||
			u.CacheReadInputTokens < before-chunk || turn > 0 && u.CacheReadInputTokens == 0 {
			t.Fatalf("turn %d: got %s, %+v after %d tokens", turn, m.StopReason, u, before)
		}
		before = all
		call := m.Content[len(m.Content)-1].AsToolUse()
		var input struct{ Path string }
		if err := json.Unmarshal(call.Input, &input); err != nil || call.Name != "Tool7" ||
			input.Path != "a.go" && input.Path != "b.go" {
			t.Fatalf("turn %d: got %s, %v", turn, m.RawJSON(), err)
		}
		q.Messages = append(q.Messages, m.ToParam(), anthropic.NewUserMessage(
			anthropic.NewToolResultBlock(call.ID, "package "+strings.Repeat("x", 40), turn == 2)))
	}
}

package clients

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// newCaller returns a client for newThinker's server.
func newCaller(t *testing.T) openai.Client {
	t.Helper()
	return openai.NewClient(option.WithBaseURL(newThinker(t)+"/v1"), option.WithAPIKey("any"), option.WithMaxRetries(0))
}

// newThinker returns the address of a server whose model supports tools, and thinks if it is asked to.
func newThinker(t *testing.T) string {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "h3,attention", 2, 8
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	const source = `{% if tools %}{{ tools | tojson }} call as <tool_call>{"name": ..., "arguments": ...}</tool_call>
{% endif %}{% for m in messages %}<{{ m.role }}>{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}` +
		`{{ m.content }}
{% endfor %}<assistant>{% if reasoning_effort == "low" %}<think>{% endif %}`
	parsed, err := template.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := store.New(t.Context(), store.Options{
		Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 64 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Options{}, host.NewModel(host.ModelOptions{
		Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes(), Texts: texts,
		Settings: &chat.Settings{Source: source, Template: parsed},
	}))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return web.URL
}

// city is the schema that the tests ask for.
var city = map[string]any{
	"type": "object", "additionalProperties": false, "required": []string{"name", "size"},
	"properties": map[string]any{
		"name": map[string]any{"type": "string", "maxLength": 5},
		"size": map[string]any{"type": "integer", "minimum": 1, "maximum": 9},
	},
}

func checkCity(t *testing.T, text string) {
	t.Helper()
	var got struct {
		Name *string `json:"name"`
		Size int     `json:"size"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Name == nil || got.Size < 1 || got.Size > 9 {
		t.Errorf("got %q (%v), want a city", text, err)
	}
}

// TestOpenAIStructured checks that a reply of a schema is parsed as one, also from a stream.
func TestOpenAIStructured(t *testing.T) {
	c := newCaller(t)
	q := openai.ChatCompletionNewParams{
		Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Which?")},
		MaxCompletionTokens: openai.Int(200), Seed: openai.Int(3),
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
				JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
					Name: "city", Strict: openai.Bool(true), Schema: city,
				},
			},
		},
	}
	a, err := c.Chat.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	checkCity(t, a.Choices[0].Message.Content)
	stream, all := c.Chat.Completions.NewStreaming(t.Context(), q), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || all.Choices[0].Message.Content != a.Choices[0].Message.Content {
		t.Errorf("the stream has %+v, %v", all, err)
	}
}

// TestOpenAITools checks that a function is called, whole and in a stream, and that its answer can be sent back.
func TestOpenAITools(t *testing.T) {
	c := newCaller(t)
	q := openai.ChatCompletionNewParams{
		Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Which?")},
		MaxCompletionTokens: openai.Int(300), Seed: openai.Int(5),
		Tools: []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "find", Parameters: city}),
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "stop"}),
		},
		ToolChoice: openai.ToolChoiceOptionFunctionToolChoice(
			openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "find"}),
	}
	a, err := c.Chat.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	said := a.Choices[0]
	if len(said.Message.ToolCalls) != 1 || said.FinishReason != "tool_calls" {
		t.Fatalf("got %s", a.RawJSON())
	}
	call := said.Message.ToolCalls[0]
	if call.ID == "" || call.Function.Name != "find" {
		t.Errorf("got %s", call.RawJSON())
	}
	checkCity(t, call.Function.Arguments)
	stream, all := c.Chat.Completions.NewStreaming(t.Context(), q), openai.ChatCompletionAccumulator{}
	finished := 0
	for stream.Next() {
		all.AddChunk(stream.Current())
		if one, ok := all.JustFinishedToolCall(); ok {
			finished++
			if one.Arguments != call.Function.Arguments || one.Name != "find" {
				t.Errorf("the stream has %+v, want %s", one, call.RawJSON())
			}
		}
	}
	if err := stream.Err(); err != nil || finished != 1 {
		t.Errorf("%d calls in the stream, %v", finished, err)
	}
	q.Messages = append(q.Messages, said.Message.ToParam(), openai.ToolMessage("Oslo", call.ID))
	q.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	q.ReasoningEffort = shared.ReasoningEffortLow
	if a, err = c.Chat.Completions.New(t.Context(), q); err != nil || a.Choices[0].FinishReason != "length" ||
		a.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw() == "" {
		t.Errorf("got %+v, %v, want a reply of thoughts", a, err)
	}
}

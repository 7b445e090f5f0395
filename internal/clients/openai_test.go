package clients

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// newServer returns the address of a server with a small model, and the secret of a key if it wants one.
func newServer(t *testing.T, keys bool) (address, secret string) {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "h3,attention", 2, 8
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	var o serve.Options
	if keys {
		key, of := serve.NewKey("tester", serve.ScopeAll)
		o.Keys, secret = []serve.Key{key}, of
	}
	s, err := serve.New(o, host.NewModel(host.ModelOptions{Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes()}))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return web.URL, secret
}

// newClient returns a client for such a server.
func newClient(t *testing.T) openai.Client {
	t.Helper()
	address, secret := newServer(t, true)
	return openai.NewClient(option.WithBaseURL(address+"/v1"), option.WithAPIKey(secret), option.WithMaxRetries(0))
}

// TestOpenAICompletions checks that models are listed, that a text is continued and scored, and that the error of a
// wrong request names its field.
func TestOpenAICompletions(t *testing.T) {
	c := newClient(t)
	models, err := c.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "tiny" {
		t.Fatalf("got %+v, %v", models, err)
	}
	q := openai.CompletionNewParams{
		Model: "tiny", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Call me")},
		MaxTokens: openai.Int(5), Echo: openai.Bool(true), Logprobs: openai.Int(2), Temperature: openai.Float(0),
	}
	a, err := c.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	p := a.Choices[0].Logprobs
	if len(p.Tokens) != 12 || len(p.TokenLogprobs) != 12 || a.Usage.TotalTokens != 12 ||
		a.Choices[0].FinishReason != openai.CompletionChoiceFinishReasonLength {
		t.Errorf("got %s", a.RawJSON())
	}
	// The client cannot read a list of alternatives whose first is null, which OpenAI has, too, so this request is
	// without the prompt.
	q.Echo = openai.Bool(false)
	b, err := c.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if top := b.Choices[0].Logprobs.TopLogprobs; len(top) != 5 || len(top[4]) != 2 {
		t.Errorf("got %s", b.RawJSON())
	}
	stream, text := c.Completions.NewStreaming(t.Context(), q), ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Text
		}
	}
	if stream.Err() != nil || text != b.Choices[0].Text {
		t.Errorf("the stream has %q (%v), want %q", text, stream.Err(), b.Choices[0].Text)
	}
	q.Temperature = openai.Float(-1)
	var wrong *openai.Error
	if _, err = c.Completions.New(t.Context(), q); !errors.As(err, &wrong) || wrong.Param != "temperature" ||
		wrong.StatusCode != http.StatusBadRequest || wrong.Type != "invalid_request_error" {
		t.Errorf("got %v", err)
	}
}

// TestOpenAIChat checks that a chat has a reply, the same in a stream, with usage at the end.
func TestOpenAIChat(t *testing.T) {
	c := newClient(t)
	q := openai.ChatCompletionNewParams{
		Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Call me")},
		MaxCompletionTokens: openai.Int(8), Seed: openai.Int(3), Logprobs: openai.Bool(true),
	}
	a, err := c.Chat.Completions.New(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if a.Usage.CompletionTokens != 8 || len(a.Choices[0].Logprobs.Content) != 8 {
		t.Errorf("got %s", a.RawJSON())
	}
	q.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream, all := c.Chat.Completions.NewStreaming(t.Context(), q), openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Errorf("a chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil || all.Choices[0].Message.Content != a.Choices[0].Message.Content ||
		all.Usage.CompletionTokens != 8 || all.Choices[0].FinishReason != "length" {
		t.Errorf("the stream has %+v, %v", all, err)
	}
}

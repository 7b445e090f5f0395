package clients

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"testing"

	"github.com/ollama/ollama/api"
)

// newOllama returns Ollama's own client for a server with a small model.
func newOllama(t *testing.T) *api.Client {
	t.Helper()
	address, _ := newServer(t, false)
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return api.NewClient(base, http.DefaultClient)
}

var ollamaOptions = map[string]any{"num_predict": 9, "seed": 3, "temperature": 0.7}

// TestOllamaModels checks that the model is listed, described and running, and that the server has a version.
func TestOllamaModels(t *testing.T) {
	c := newOllama(t)
	list, err := c.List(t.Context())
	if err != nil || len(list.Models) != 1 || list.Models[0].Model != "tiny" {
		t.Errorf("got %+v, %v", list, err)
	}
	if running, err := c.ListRunning(t.Context()); err != nil || len(running.Models) != 1 {
		t.Errorf("got %+v, %v", running, err)
	}
	shown, err := c.Show(t.Context(), &api.ShowRequest{Model: "tiny"})
	if err != nil || len(shown.Capabilities) < 2 || shown.ModelInfo["general.architecture"] != "hippo" {
		t.Errorf("got %+v, %v", shown, err)
	}
	if _, err := c.Version(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Heartbeat(t.Context()); err != nil {
		t.Error(err)
	}
	var status api.StatusError
	if _, err := c.Show(t.Context(), &api.ShowRequest{Model: "other"}); !errors.As(err, &status) ||
		status.StatusCode != http.StatusNotFound {
		t.Errorf("got %v", err)
	}
}

// TestOllamaGenerates checks that a stream has the same text as the reply without one, in /api/generate and /api/chat,
// and says what it took, and that a context continues after it.
func TestOllamaGenerates(t *testing.T) {
	c := newOllama(t)
	var texts [2]string
	var last api.GenerateResponse
	for i, stream := range []bool{false, true} {
		q := &api.GenerateRequest{Model: "tiny", Prompt: "Call me", Options: ollamaOptions, Stream: &stream}
		if err := c.Generate(t.Context(), q, func(a api.GenerateResponse) error {
			texts[i] += a.Response
			last = a
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0] != texts[1] || !last.Done || last.DoneReason != "length" || last.EvalCount != 9 ||
		last.PromptEvalCount != 7 || last.TotalDuration <= 0 || len(last.Context) != 16 {
		t.Errorf("got %q and %q, the last %+v", texts[0], texts[1], last)
	}
	q := &api.GenerateRequest{Model: "tiny", Prompt: "!", Options: ollamaOptions, Context: last.Context}
	if err := c.Generate(t.Context(), q, func(a api.GenerateResponse) error { last = a; return nil }); err != nil ||
		last.PromptEvalCount != 17 {
		t.Errorf("got %+v, %v", last, err)
	}
	texts = [2]string{}
	for i, stream := range []bool{false, true} {
		q := &api.ChatRequest{
			Model: "tiny", Messages: []api.Message{{Role: "user", Content: "Call me"}}, Options: ollamaOptions,
			Stream: &stream,
		}
		if err := c.Chat(t.Context(), q, func(a api.ChatResponse) error {
			texts[i] += a.Message.Content
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0] != texts[1] || texts[0] == "" {
		t.Errorf("got %q and %q", texts[0], texts[1])
	}
}

// TestOllamaStops checks that the server keeps working when a client gives up in the middle.
func TestOllamaStops(t *testing.T) {
	c := newOllama(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	q := &api.GenerateRequest{Model: "tiny", Prompt: "Call me", Options: map[string]any{"num_predict": 10000}}
	err := c.Generate(ctx, q, func(api.GenerateResponse) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	})
	// The client does not say why a stream has ended.
	if err != nil && !errors.Is(err, context.Canceled) || n < 3 || n > 9000 {
		t.Errorf("%d pieces, %v", n, err)
	}
	if _, err := c.List(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOllamaEmbeds checks that embeddings have length 1 and the requested number of dimensions, and are the same from
// both endpoints.
func TestOllamaEmbeds(t *testing.T) {
	c := newOllama(t)
	a, err := c.Embed(t.Context(), &api.EmbedRequest{Model: "tiny", Input: []string{"Call me", "海は広い"}})
	if err != nil || len(a.Embeddings) != 2 || a.PromptEvalCount != 19 {
		t.Fatalf("got %+v, %v", a, err)
	}
	b, err := c.Embeddings(t.Context(), &api.EmbeddingRequest{Model: "tiny", Prompt: "Call me"})
	if err != nil || len(b.Embedding) != len(a.Embeddings[0]) {
		t.Fatalf("got %+v, %v", b, err)
	}
	length := 0.0
	for i, x := range a.Embeddings[0] {
		length += float64(x) * float64(x)
		if math.Abs(b.Embedding[i]-float64(x)) > 1e-7 {
			t.Errorf("number %d is %v and %v", i, x, b.Embedding[i])
		}
	}
	if math.Abs(length-1) > 1e-5 {
		t.Errorf("the square of the length is %v", length)
	}
	few, err := c.Embed(t.Context(), &api.EmbedRequest{Model: "tiny", Input: "Call me", Dimensions: 4})
	if err != nil || len(few.Embeddings) != 1 || len(few.Embeddings[0]) != 4 {
		t.Errorf("got %+v, %v", few, err)
	}
}

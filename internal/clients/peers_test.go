package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/ollama/ollama/api"
)

// TestAnthropicBatches checks that a batch of messages is created, polled until it has ended, listed, read and deleted.
func TestAnthropicBatches(t *testing.T) {
	address, secret := newServer(t, true)
	c := newAnthropic(address, secret)
	q := says("Call me", 8)
	of := func(id string, temperature float64) anthropic.MessageBatchNewParamsRequest {
		return anthropic.MessageBatchNewParamsRequest{CustomID: id, Params: anthropic.MessageBatchNewParamsRequestParams{
			Model: "tiny", MaxTokens: q.MaxTokens, Messages: q.Messages, Temperature: anthropic.Float(temperature),
		}}
	}
	b, err := c.Messages.Batches.New(t.Context(), anthropic.MessageBatchNewParams{
		Requests: []anthropic.MessageBatchNewParamsRequest{of("good", 0), of("bad", -1)},
	})
	for ; err == nil && b.ProcessingStatus != anthropic.MessageBatchProcessingStatusEnded; time.Sleep(time.Millisecond) {
		b, err = c.Messages.Batches.Get(t.Context(), b.ID)
	}
	if err != nil || b.RequestCounts.Succeeded != 1 || b.RequestCounts.Errored != 1 || b.ResultsURL == "" ||
		b.EndedAt.IsZero() {
		t.Fatalf("got %+v, %v", b, err)
	}
	alone, n := newMessage(t, &c, q), 0
	results := c.Messages.Batches.ResultsStreaming(t.Context(), b.ID)
	for ; results.Next(); n++ {
		switch r := results.Current(); r.CustomID {
		case "good":
			if m := r.Result.AsSucceeded().Message; m.Content[0].Text != alone.Content[0].Text {
				t.Errorf("got %s, want %s", m.RawJSON(), alone.RawJSON())
			}
		case "bad":
			if e := r.Result.AsErrored().Error; e.Error.Type != "invalid_request_error" {
				t.Errorf("got %s", r.RawJSON())
			}
		}
	}
	if results.Err() != nil || n != 2 {
		t.Errorf("%d results, %v", n, results.Err())
	}
	all := c.Messages.Batches.ListAutoPaging(t.Context(), anthropic.MessageBatchListParams{Limit: anthropic.Int(1)})
	if !all.Next() || all.Current().ID != b.ID || all.Next() || all.Err() != nil {
		t.Errorf("listed are %+v, %v", all.Current(), all.Err())
	}
	same, err := c.Messages.Batches.Cancel(t.Context(), b.ID)
	if err != nil || same.ProcessingStatus != b.ProcessingStatus {
		t.Errorf("got %+v, %v", same, err)
	}
	if gone, err := c.Messages.Batches.Delete(t.Context(), b.ID); err != nil || gone.ID != b.ID {
		t.Errorf("got %+v, %v", gone, err)
	}
}

// TestOllamaCopies checks that a copy is another name of a model until it is deleted, and that a reply has
// log-probabilities.
func TestOllamaCopies(t *testing.T) {
	c := newOllama(t)
	if err := c.Copy(t.Context(), &api.CopyRequest{Source: "tiny", Destination: "other"}); err != nil {
		t.Fatal(err)
	}
	stream := false
	var a api.GenerateResponse
	q := &api.GenerateRequest{
		Model: "other", Prompt: "Call me", Options: ollamaOptions, Stream: &stream, Logprobs: true, TopLogprobs: 2,
	}
	err := c.Generate(t.Context(), q, func(r api.GenerateResponse) error { a = r; return nil })
	if err != nil || len(a.Logprobs) != 9 || len(a.Logprobs[8].TopLogprobs) != 2 || a.Logprobs[0].Logprob >= 0 {
		t.Errorf("got %+v, %v", a, err)
	}
	if err := c.Delete(t.Context(), &api.DeleteRequest{Model: "other"}); err != nil {
		t.Error(err)
	}
	if err := c.Generate(t.Context(), q, func(api.GenerateResponse) error { return nil }); err == nil {
		t.Error("the name is still there")
	}
}

// TestPeers checks what no client here calls: endpoints of llama.cpp and vLLM, and states.
func TestPeers(t *testing.T) {
	address, _ := newServer(t, false)
	call := func(method, path string, body io.Reader) []byte {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, address+path, body)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		data, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d: %s, %v", path, a.StatusCode, data, err)
		}
		return data
	}
	read := func(data []byte) (v map[string]any) {
		t.Helper()
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	post := func(path, body string) map[string]any {
		return read(call(http.MethodPost, path, strings.NewReader(body)))
	}
	var slots []struct {
		ID   int
		Busy *bool `json:"is_processing"`
	}
	err := json.Unmarshal(call(http.MethodGet, "/slots", nil), &slots)
	if err != nil || len(slots) != 64 || slots[63].ID != 63 || *slots[0].Busy {
		t.Errorf("got %v, %v", slots, err)
	}
	props := read(call(http.MethodGet, "/props", nil))
	if settings, ok := props["default_generation_settings"].(map[string]any); !ok || settings["n_ctx"] == 0.0 ||
		props["total_slots"] != 64.0 {
		t.Errorf("got %v", props)
	}
	if v := read(call(http.MethodGet, "/version", nil)); v["version"] == nil {
		t.Errorf("got %v", v)
	}
	written := post("/apply-template", `{"messages":[{"role":"user","content":"Call me"}]}`)
	if text, ok := written["prompt"].(string); !ok || !strings.Contains(text, "Call me") {
		t.Errorf("got %v", written)
	}
	if v := post("/tokenize", `{"prompt":"Call"}`); v["max_model_len"] == 0.0 {
		t.Errorf("got %v", v)
	}
	made := post("/v1/sessions", `{"text":"Call me Ishmael."}`)
	state := post("/v1/states", `{"session":"`+made["id"].(string)+`"}`)["id"].(string)
	file := call(http.MethodGet, "/v1/states/"+state, nil)
	call(http.MethodDelete, "/v1/states/"+state, nil)
	call(http.MethodPut, "/v1/states/"+state, bytes.NewReader(file))
	after := post("/v1/sessions", `{"state":"`+state+`"}`)
	const generate = `{"max_tokens":5,"seed":1}`
	if a, b := post("/v1/sessions/"+made["id"].(string)+"/generate", generate),
		post("/v1/sessions/"+after["id"].(string)+"/generate", generate); a["text"] == nil || a["text"] != b["text"] {
		t.Errorf("got %v and %v", a, b)
	}
}

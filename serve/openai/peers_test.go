package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/request"
)

// TestPeers checks endpoints for clients of llama.cpp and vLLM. The text of /apply-template is the one that a chat
// reads.
func TestPeers(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Concurrent: 3, MaxPrompt: 5000, Version: "1.2"})
	wanted(s, 200, http.MethodGet, "/version", "", `{"version":"1.2"}`)
	wanted(s, 200, http.MethodGet, "/slots", "", `[{"id":0,"is_processing":false},`)
	for _, part := range []string{
		`"n_ctx":5000`, `"total_slots":3`, `"model_alias":"tiny"`, `"temperature":1`, `"build_info":"1.2"`,
		servetest.Quoted(t, servetest.ChatTemplate)[1:20],
	} {
		wanted(s, 200, http.MethodGet, "/props", "", part)
	}
	wanted(s, 404, http.MethodGet, "/props?model=none", "", "model: found")
	const chat = `"messages":[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":[{"type":"text",` +
		`"text":"Hi"}]},{"role":"assistant","content":"So"}],"chat_template_kwargs":{"a":1}`
	text := servetest.Post[struct{ Prompt string }](s, "/apply-template", "{"+chat+"}").Prompt
	usage := servetest.Post[struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}](s, "/v1/chat/completions", `{"max_tokens":1,`+chat+"}").Usage
	const want = "<system>Be \"brief\".\n<user>Hi\n<assistant>So\n<assistant>"
	if text != want || usage.Prompt != len(want) {
		t.Errorf("got %q, and %d tokens of the chat, want %q", text, usage.Prompt, want)
	}
	open := servetest.Post[struct{ Prompt string }](s, "/apply-template", "{"+chat+`,"continue_final_message":true}`)
	if !strings.HasSuffix(open.Prompt, "<assistant>So") {
		t.Errorf("got %q", open.Prompt)
	}
	for body, want := range map[string]string{
		`{}`:               "messages: found none",
		`{"messages":[7]}`: "messages: found 7",
		`{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`: "chat_template: found",
		`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`:  "image_url",
	} {
		wanted(s, 400, http.MethodPost, "/apply-template", body, want)
	}
	for path, want := range map[string]string{
		"/completion": "/v1/completions", "/generate": "/v1/completions", "/embedding": "/v1/embeddings",
	} {
		wanted(s, 404, http.MethodPost, path, `{"prompt":"a"}`, "there is no POST "+path+", want "+want)
	}
	wanted(s, 501, http.MethodPost, "/lora-adapters", `[{"id":0,"scale":0.5}]`, "the adapter's name as model")
	wanted(s, 403, http.MethodPost, "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/etc"}`, "--adapter_dir")
	// A model without a maximum length reports the longest prompt that the server accepts.
	wanted(s, 200, http.MethodPost, "/api/show", `{"model":"tiny"}`, `"hippo.context_length":5000`)
	wanted(s, 200, http.MethodGet, "/api/ps", "", `"context_length":5000`)
}

// TestSlotsTaken checks that /slots reports the taken places, and fails on request when none is free.
func TestSlotsTaken(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Concurrent: 1})
	if err := s.Hippo.Admission.Enter(t.Context(), request.Share{}); err != nil {
		t.Fatal(err)
	}
	wanted(s, 200, http.MethodGet, "/slots", "", `[{"id":0,"is_processing":true}]`)
	wanted(s, 503, http.MethodGet, "/slots?fail_on_no_slot=1", "", "no slot is free")
	s.Hippo.Admission.Leave("")
	wanted(s, 200, http.MethodGet, "/slots?fail_on_no_slot=1", "", `[{"id":0,"is_processing":false}]`)
}

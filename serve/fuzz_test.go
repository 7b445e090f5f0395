package serve_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// FuzzBodies checks that no body of any endpoint crashes the server or causes a server error.
func FuzzBodies(f *testing.F) {
	s := servetest.NewSite(f, serve.Options{MaxTokens: 4, MaxPrompt: 20, MaxChoices: 2, MaxPrompts: 2})
	var paths []string
	for _, pattern := range s.Hippo.Patterns() {
		if path, ok := strings.CutPrefix(pattern, "POST "); ok && !strings.Contains(path, "{") {
			paths = append(paths, path)
		}
	}
	for _, seed := range []struct{ path, body string }{
		{"/v1/completions", `{"prompt":[[1,2],[3]],"echo":true,"logprobs":1,"max_tokens":1,"temperature":0}`},
		{"/v1/completions", `{"prompt":"a","n":2,"best_of":2,"seed":-1}`},
		{"/api/generate", `{"prompt":"a","stream":true}`},
		{"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"stop":["x"],"logit_bias":{"1":2}}`},
		{"/tokenize", `{"prompt":"é","add_special_tokens":false}`}, {"/detokenize", `{"tokens":[1,255]}`},
		{"/api/chat", `{"messages":[{"role":"user","content":"a"}],"options":{"seed":-1}}`},
		{"/v1/embeddings", `{"input":["a","é"],"encoding_format":"base64","dimensions":3}`},
		{"/v1/embeddings", `{"input":[[1,2],[3]]}`},
		{"/api/embed", `{"model":"tiny","input":"a","truncate":false,"dimensions":2}`},
		{"/api/embeddings", `{"model":"tiny:latest","prompt":"a"}`},
		{"/api/show", `{"model":"tiny","verbose":true}`},
		{"/v1/responses", `{"input":[{"role":"user","content":"a"},{"type":"reasoning","content":[]},` +
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"c","output":"é"}],"text":{"format":{"type":"json_object"}}}`},
		{"/v1/responses", `{"input":"a","stream":true,"tool_choice":"none","reasoning":{"effort":"low"},` +
			`"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`},
		{"/v1/messages", `{"max_tokens":2,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],` +
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
			`{"type":"thinking","thinking":"h"},{"type":"tool_use","id":"c","name":"f","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,` +
			`"content":[{"type":"text","text":"é"}]}]}],"thinking":{"type":"adaptive"}}`},
		{"/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"any"},` +
			`"tools":[{"name":"f","input_schema":{"type":"object"}}]}`},
		{"/v1/batches", `{"input_file_id":"file-A","endpoint":"/v1/embeddings","completion_window":"24h",` +
			`"metadata":{"a":"b"}}`},
	} {
		f.Add(uint8(slices.Index(paths, seed.path)), seed.body)
	}
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		own := *s
		own.T = t
		status, h, data := own.Do(http.MethodPost, paths[int(path)%len(paths)], body)
		stream := h.Get("Content-Type") != "application/json"
		if status == http.StatusInternalServerError || !stream && !json.Valid(data) {
			t.Errorf("%s: got %d, %s", paths[int(path)%len(paths)], status, data)
		}
	})
}

// FuzzForms checks that no form crashes the server, and that the size of stored files is counted.
func FuzzForms(f *testing.F) {
	const boundary = "b"
	for _, body := range []string{
		"--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n" +
			"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{}\r\n--b--\r\n",
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=utf-8''%e2%82%ac\r\n\r\n", "--b--",
	} {
		f.Add(body)
	}
	s := servetest.NewSite(f, serve.Options{Files: batch.Options{MaxFile: 100}})
	f.Fuzz(func(t *testing.T, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/files", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var o openai.File
		err = json.NewDecoder(answer.Body).Decode(&o)
		if err != nil || answer.StatusCode == http.StatusInternalServerError {
			t.Errorf("got %d, %v", answer.StatusCode, err)
		}
		files, _, err := s.Hippo.Files.Store.Files("", "", batch.Page{Limit: 2})
		if err != nil || len(files) > 1 || len(files) == 1 && (files[0].ID != o.ID || o.Bytes > 100) {
			t.Errorf("got %+v, and %+v is kept", o, files)
		}
		if len(files) > 0 {
			if err := s.Hippo.Files.Store.DeleteFile("", o.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

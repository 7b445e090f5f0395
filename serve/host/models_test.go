package host_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// TestNamesOfModels checks that a model is found by its name, and in Ollama's forms of it, and that the exact name
// wins.
func TestNamesOfModels(t *testing.T) {
	var all []host.ModelInfo
	for _, name := range []string{"first", "org/Name", "org/Name:Q8_0", "ORG/name", "x:latest"} {
		all = append(all, host.ModelInfo{Name: name})
	}
	for name, want := range map[string]string{
		"": "first", "org/Name": "org/Name", "ORG/name": "ORG/name", "org/name": "org/Name", "FIRST:Latest": "first",
		"hf.co/org/Name:q8_0": "org/Name:Q8_0", "huggingface.co/org/Name": "org/Name", "x:latest": "x:latest",
		"x": "", "org/Name:Q4_0": "", ":latest": "", "hf.co/": "", "first:latest:latest": "",
	} {
		if got, ok := host.Named(all, name); got.Name != want || ok != (want != "") {
			t.Errorf("%q: found %q, want %q", name, got.Name, want)
		}
	}
}

// TestOllamaModels checks that /api/tags and /v1/models list all models and /api/ps the loaded ones, and that showing a
// model does not load it.
func TestOllamaModels(t *testing.T) {
	library := servetest.NewLibrary(t, "org/one", "org/two")
	s := servetest.NewSite(t, serve.Options{Library: &library.Library})
	type listed struct{ Models []ollama.LoadedModel }
	get := func(path string) []ollama.LoadedModel {
		t.Helper()
		status, _, data := s.Do(http.MethodGet, path, "")
		if status != http.StatusOK {
			t.Fatalf("%s: status %d, %s", path, status, data)
		}
		return servetest.Decode[listed](t, data).Models
	}
	namesOf := func(all []ollama.LoadedModel) (names []string) {
		for _, m := range all {
			names = append(names, m.Name)
		}
		return names
	}
	show := servetest.Post[struct {
		Info    map[string]any `json:"model_info"`
		Details ollama.Details
	}](s, "/api/show", `{"model":"ORG/one:latest"}`)
	if show.Info["general.parameter_count"] != float64(library.Nets["org/one"].NumParams()) ||
		show.Details.Precision != "float32" {
		t.Errorf("the model has %+v", show)
	}
	tags := get("/api/tags")
	if !slices.Equal(namesOf(tags), []string{"tiny", "org/one", "org/two"}) || tags[1].Size == 0 ||
		tags[1].Digest != "digest of org/one" || len(tags[0].Digest) != 64 {
		t.Errorf("the models are %+v", tags)
	}
	ps := get("/api/ps")
	if !slices.Equal(namesOf(ps), []string{"tiny"}) || ps[0].Expires.Before(time.Now().AddDate(99, 0, 0)) {
		t.Errorf("loaded are %+v", ps)
	}
	servetest.Post[openai.Completion](s, "/v1/completions", `{"model":"org/two","prompt":"Call me","max_tokens":2}`)
	ps = get("/api/ps")
	bytes := int64(library.Nets["org/two"].Bytes())
	if !slices.Equal(namesOf(ps), []string{"org/two", "tiny"}) || ps[0].Weights != bytes ||
		ps[0].Texts == 0 || ps[0].Marks == 0 || ps[0].Size != ps[0].Weights+ps[0].Texts ||
		!ps[0].Expires.After(time.Now().Add(4*time.Minute)) || ps[0].Expires.After(time.Now().Add(5*time.Minute)) {
		t.Errorf("loaded are %+v", ps)
	}
	_, _, data := s.Do(http.MethodGet, "/v1/models", "")
	models := servetest.Decode[struct{ Data []openai.Model }](t, data).Data
	if len(models) != 3 || models[1].Loaded || !models[2].Loaded || models[2].ID != "org/two" {
		t.Errorf("the models are %+v", models)
	}
	if status, _, data := s.Do(http.MethodGet, "/v1/models/org/one", ""); status != http.StatusOK ||
		servetest.Decode[openai.Model](t, data).Loaded {
		t.Errorf("one model: status %d, %s", status, data)
	}
	if status, _, _ := s.Do(http.MethodHead, "/", ""); status != http.StatusOK {
		t.Errorf("HEAD / has the status %d", status)
	}
	if library.Count("org/one") != 0 {
		t.Errorf("a model was loaded that nobody used")
	}
}

// TestPullAndDelete checks that clients can fetch and delete models if the server and their keys allow it.
func TestPullAndDelete(t *testing.T) {
	library := servetest.NewLibrary(t, "org/one")
	admin, secret := serve.NewKey("alice", serve.ScopeAdmin, serve.ScopeModels)
	other, otherSecret := serve.NewKey("bob", serve.ScopeCompletions, serve.ScopeModels)
	s := servetest.NewSite(t, serve.Options{Library: &library.Library, Keys: []serve.Key{admin, other}})
	closed := servetest.NewSite(t, serve.Options{})
	s.Key = secret
	status, h, data := s.Do(http.MethodPost, "/api/pull", `{"model":"hf.co/org/one"}`)
	const want = `{"status":"pulling manifest"}
{"status":"pulling org/one","digest":"sha256:0","total":5,"completed":5}
{"status":"success"}
`
	if status != http.StatusOK || h.Get("Content-Type") != "application/x-ndjson" || string(data) != want {
		t.Errorf("pull: status %d, %s, want %s", status, data, want)
	}
	for _, c := range []struct {
		s                       *servetest.Site
		key, method, path, body string
		status                  int
		want                    string
	}{
		{s, secret, "POST", "/api/pull", `{"name":"org/one","stream":false}`, 200, `{"status":"success"}`},
		{s, secret, "POST", "/api/pull", `{"model":"org/none","stream":false}`, 502, `the hub has no org/none`},
		{s, secret, "POST", "/api/pull", `{"model":"org/none"}`, 502, `the hub has no org/none`},
		{s, secret, "POST", "/api/pull", `{"model":"org/one","insecure":true}`, 400, `insecure: found true`},
		{s, secret, "POST", "/api/pull", `{}`, 400, `model: found nothing`},
		{s, otherSecret, "POST", "/api/pull", `{"model":"org/one"}`, 403, `\"admin\"`},
		{s, otherSecret, "DELETE", "/api/delete", `{"model":"org/one"}`, 403, `\"admin\"`},
		{closed, "", "POST", "/api/pull", `{"model":"org/one"}`, 403, `--pull`},
		{closed, "", "DELETE", "/api/delete", `{"model":"tiny"}`, 403, `--pull`},
		{s, secret, "DELETE", "/api/delete", `{"model":"../../etc"}`, 404, `does not have`},
		{s, secret, "DELETE", "/api/delete", `{"model":"org/one"}`, 200, `{}`},
		{s, secret, "DELETE", "/api/delete", `{"model":"org/one"}`, 404, `does not have`},
		{s, secret, "POST", "/api/create", `{"model":"a","from":"b"}`, 501, `hippo train`},
		{s, secret, "POST", "/api/push", `{"model":"a"}`, 501, `hippo train`},
	} {
		c.s.Key = c.key
		status, _, data := c.s.Do(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(string(data), c.want) {
			t.Errorf("%s %s: status %d, %s, want %d, %s", c.path, c.body, status, data, c.status, c.want)
		}
	}
}

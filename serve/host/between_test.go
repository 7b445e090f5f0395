package host_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// TestBatchOfModelThatNeverHasRoom checks that a line for such a model is answered with its error, and the batch ends.
func TestBatchOfModelThatNeverHasRoom(t *testing.T) {
	library := servetest.NewLibrary(t, "large")
	library.Memory = 1
	s := servetest.NewSite(t, serve.Options{Library: &library.Library})
	b := s.Batched("/v1/completions", `{"custom_id":"a","method":"POST","url":"/v1/completions",`+
		`"body":{"model":"large","prompt":"a"}}`)
	all := s.Output(b.ErrorFile)
	if b.Counts.Failed != 1 || len(all) != 1 || all[0].Response.Status != http.StatusServiceUnavailable ||
		!strings.Contains(string(all[0].Response.Body), "model_too_large") {
		t.Errorf("got %+v, %+v", b, all)
	}
}

// TestLoadedSaysWhatRuns checks that /api/ps counts the texts that a model is processing.
func TestLoadedSaysWhatRuns(t *testing.T) {
	library := servetest.NewLibrary(t, "one")
	server := library.Serve(t, serve.Options{MaxTokens: 1 << 30})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		servetest.Ask(ctx, server, http.MethodPost, "/v1/completions",
			`{"prompt":"a","max_tokens":1000000000,"ignore_eos":true}`) // it ends when its client disconnects
	}()
	running := 0
	servetest.WaitUntil(t, func() bool {
		_, data := servetest.Ask(t.Context(), server, http.MethodGet, "/api/ps", "")
		if a := servetest.Decode[ollama.Loaded](t, []byte(data)); len(a.Models) == 1 {
			running = a.Models[0].Running
		}
		return running > 0
	})
	cancel()
	<-ended
	if running != 1 {
		t.Errorf("%d texts run, want 1", running)
	}
}

// TestSessionWaitsForItsModelWithoutAPlace checks that a request for a session whose model waits for memory does not
// block requests that must finish to free that memory.
func TestSessionWaitsForItsModelWithoutAPlace(t *testing.T) {
	library := servetest.NewLibrary(t, "one", "two")
	library.Memory = int64(library.Nets["one"].Bytes())
	server := library.Serve(t, serve.Options{Concurrent: 1})
	status, data := servetest.Ask(t.Context(), server, http.MethodPost, "/v1/sessions",
		`{"model":"two","text":"Call me"}`)
	if status != http.StatusOK {
		t.Fatalf("status %d, %s", status, data)
	}
	var made sessions.Session
	if err := json.Unmarshal([]byte(data), &made); err != nil {
		t.Fatal(err)
	}
	e, _, err := host.Acquire(server.Host, t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int)
	go func() {
		status, _ := servetest.Ask(t.Context(), server, http.MethodPost, "/v1/sessions/"+made.ID+"/generate",
			`{"max_tokens":2}`)
		answered <- status
	}()
	for servetest.WaitingFor(server, "two") == 0 {
		time.Sleep(time.Millisecond)
	}
	if n := server.Admission.Running(); n != 0 {
		t.Errorf("%d places are taken, want none", n)
	}
	host.Release(server.Host, e)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("status %d, want 200", status)
	}
}

// TestTokensAreLimitedWhereTheyAreTaken checks that a key without tokens left can still make requests that use none.
func TestTokensAreLimitedWhereTheyAreTaken(t *testing.T) {
	k, secret := serve.NewKey("alice", serve.ScopeAll)
	k.Tokens = 2
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{k}})
	s.Key = secret
	const short = `{"prompt":"Call me","max_tokens":4}`
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, _, data := s.Do(http.MethodPost, "/v1/completions", short); status != want {
			t.Errorf("status %d, %s, want %d", status, data, want)
		}
	}
	for _, path := range []string{"/v1/batches", "/v1/sessions", "/v1/models"} {
		if status, _, data := s.Do(http.MethodGet, path, ""); status != http.StatusOK {
			t.Errorf("%s: status %d, %s, want 200", path, status, data)
		}
	}
}

package serve_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/session"
)

// TestOneKeyDoesNotTakeAllPlaces checks that while one key has 330 open streams, or as many as it gets, another key is
// answered, with a server's default limits.
func TestOneKeyDoesNotTakeAllPlaces(t *testing.T) {
	greedy, greedySecret := serve.NewKey("greedy", serve.ScopeAll)
	other, otherSecret := serve.NewKey("other", serve.ScopeAll)
	few, fewSecret := serve.NewKey("few", serve.ScopeAll)
	few.Concurrent = 2
	keys, err := serve.ParseKeys([]byte(greedy.String() + "\n" + other.String() + "\n" + few.String()))
	if err != nil || keys[2].Concurrent != 2 {
		t.Fatal(keys, err)
	}
	o := serve.Options{Keys: keys, QueueWait: time.Hour} // also on a busy machine
	s := servetest.NewSiteOf(t, o, func(ctx context.Context, r *session.Request) error {
		if r.Client == "other" {
			return session.Direct{}.Run(ctx, r)
		}
		<-ctx.Done() // an endless reply
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	refused := make(chan string, 1000)
	streams := func(key string, n int) {
		for range n {
			all.Go(func() {
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/completions",
					strings.NewReader(`{"prompt":"a","max_tokens":1000,"stream":true}`))
				r.Header.Set("Authorization", "Bearer "+key)
				w := httptest.NewRecorder()
				if s.Hippo.ServeHTTP(w, r); w.Code == http.StatusTooManyRequests {
					refused <- w.Body.String()
				}
			})
		}
	}
	streams(greedySecret, 330)
	servetest.WaitUntil(t, func() bool { return len(refused) == 330-48-192 })
	for range 3 {
		s.Key = otherSecret
		if status, _, data := s.Do(http.MethodPost, "/v1/completions", servetest.Short); status != http.StatusOK {
			t.Errorf("the other key has the status %d: %s", status, data)
		}
	}
	if e := <-refused; !strings.Contains(e, "rate_limit_exceeded") || !strings.Contains(e, "192 requests are waiting") {
		t.Errorf("the greedy one is told %s", e)
	}
	streams(fewSecret, 5)
	// 48 streams of one and 2 of another run. A request of the third frees its place after its client has the answer.
	servetest.WaitUntil(t, func() bool {
		return s.Hippo.Admission.Queued() == 192+3 && s.Hippo.Admission.Running() == 48+2
	})
}

// TestKeepAliveOfAKey checks that only a key with the scope admin can unload a model or change how long it stays
// loaded, at any endpoint.
func TestKeepAliveOfAKey(t *testing.T) {
	boss, bossSecret := serve.NewKey("boss", serve.ScopeCompletions, serve.ScopeAdmin)
	user, userSecret := serve.NewKey("user", serve.ScopeCompletions)
	server := servetest.NewLibrary(t, "one").Serve(t, serve.Options{Keys: []serve.Key{boss, user}})
	ask := func(key, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path,
			strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		data, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(data)
	}
	requests := map[string]string{
		"/api/generate": `{"model":"one","prompt":"a","options":{"num_predict":1},"keep_alive":%s}`,
		"/api/chat": `{"model":"one","messages":[{"role":"user","content":"a"}],"options":{"num_predict":1},` +
			`"keep_alive":%s}`,
		"/api/embed":      `{"model":"one","input":"a","keep_alive":%s}`,
		"/api/embeddings": `{"model":"one","prompt":"a","keep_alive":%s}`,
	}
	for path, body := range requests {
		for _, keep := range []string{"0", "-1", `"1s"`, `"24h"`} {
			if status, data := ask(userSecret, path, fmt.Sprintf(body, keep)); status != http.StatusOK {
				t.Errorf("%s: status %d: %s", path, status, data)
			}
			l := server.Host.Loaded()
			if len(l) != 1 || time.Until(l[0].Expires) < time.Minute || time.Until(l[0].Expires) > 5*time.Minute {
				t.Errorf("%s with keep_alive %s of a user leaves %+v", path, keep, l)
			}
		}
	}
	const unload = `{"model":"one","keep_alive":0}`
	if status, data := ask(userSecret, "/api/generate", unload); status != http.StatusForbidden ||
		!strings.Contains(data, `does not have the scope \"admin\", which unloading a model needs`) {
		t.Errorf("a user that unloads: status %d: %s", status, data)
	}
	if got := servetest.LoadedNames(server); !slices.Equal(got, []string{"one"}) {
		t.Errorf("loaded are %q", got)
	}
	ask(bossSecret, "/api/generate", `{"model":"one","keep_alive":-1}`)
	if l := server.Host.Loaded(); len(l) != 1 || !l[0].Expires.IsZero() {
		t.Errorf("pinned by an admin it is %+v", l)
	}
	if status, data := ask(bossSecret, "/api/generate", unload); status != http.StatusOK {
		t.Errorf("an admin that unloads: status %d: %s", status, data)
	}
	servetest.WaitUntil(t, func() bool { return len(server.Host.Loaded()) == 0 })
}

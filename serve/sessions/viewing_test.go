package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"

	fig "github.com/hippo-ssm/hippo/explain/figure"
)

// slowView is a view that waits for the test.
type slowView struct {
	begun chan context.Context // receives the context of each view that begins
	end   chan struct{}        // closed to end them
}

func newSlowView() (*slowView, []sessions.View) {
	v := &slowView{begun: make(chan context.Context, 100), end: make(chan struct{})}
	return v, []sessions.View{{Name: "slow", Tokens: []int{8},
		Show: func(ctx context.Context, x *sessions.Viewed) (*fig.Page, error) {
			v.begun <- ctx
			select {
			case <-v.end:
				return servetest.TokensOf(ctx, x)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}, {Name: "quick", Tokens: []int{8}, Free: true, Show: servetest.TokensOf}}
}

// startSession returns the path of a session with a text.
func startSession(s *servetest.Site) string {
	s.T.Helper()
	return "/v1/sessions/" + servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`).ID
}

// begin requests a path until ctx is done, and sends the status.
func begin(s *servetest.Site, ctx context.Context, path string) <-chan int {
	answer := make(chan int, 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		s.T.Fatal(err)
	}
	if s.Key != "" {
		r.Header.Set("Authorization", "Bearer "+s.Key)
	}
	go func() {
		got, err := s.Client().Do(r)
		if err != nil {
			answer <- 0
			return
		}
		got.Body.Close()
		answer <- got.StatusCode
	}()
	return answer
}

// TestViewsKeepNobodyFromTheSession checks that a session can be extended, viewed and deleted while a view is computed,
// and that nothing is shown of a session that was deleted meanwhile.
func TestViewsKeepNobodyFromTheSession(t *testing.T) {
	v, views := newSlowView()
	s := servetest.NewSite(t, serve.Options{Views: views})
	path := startSession(s)
	answer := begin(s, t.Context(), path+"/explain")
	<-v.begun
	// A view that is being computed takes no place of running requests.
	servetest.WaitUntil(t, func() bool { return s.Hippo.Admission.Running() == 0 })
	servetest.Post[sessions.Reply](s, path+"/generate", `{"max_tokens":3}`)
	if got := s.Explain(path, "?view=quick"); got.Position != 10 {
		t.Errorf("found the position %d, want 10", got.Position)
	}
	if status, _, data := s.Do(http.MethodDelete, path, ""); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	close(v.end)
	if status := <-answer; status != http.StatusNotFound {
		t.Errorf("found the status %d of a session that is deleted, want 404", status)
	}
}

// TestViewEndsWithItsClient checks that a view ends when its client disconnects, and the client's next view begins only
// then.
func TestViewEndsWithItsClient(t *testing.T) {
	v, views := newSlowView()
	s := servetest.NewSite(t, serve.Options{Views: views})
	path := startSession(s)
	ctx, cancel := context.WithCancel(t.Context())
	first := begin(s, ctx, path+"/explain")
	running := <-v.begun
	second := begin(s, t.Context(), path+"/explain")
	select {
	case <-v.begun:
		t.Fatal("a client has two views at a time")
	case <-time.After(10 * time.Millisecond): // this cannot show that there is none later
	}
	cancel()
	<-running.Done()
	<-first
	<-v.begun
	close(v.end)
	if status := <-second; status != http.StatusOK {
		t.Errorf("found the status %d", status)
	}
}

// TestManyClientsAtOnce checks that when fifty clients make two requests each, all are answered about their own
// sessions, one after the other, while tokens are generated.
func TestManyClientsAtOnce(t *testing.T) {
	var now, most atomic.Int64
	views := []sessions.View{{Name: "one", Tokens: []int{8}, Show: func(ctx context.Context,
		x *sessions.Viewed) (*fig.Page, error) {
		defer now.Add(-1)
		most.Store(max(most.Load(), now.Add(1)))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return servetest.TokensOf(ctx, x)
	}}}
	const clients, each = 50, 2
	var keys []serve.Key
	var secrets []string
	for i := range clients {
		key, secret := serve.NewKey(fmt.Sprint("client", i), serve.ScopeCompletions)
		keys, secrets = append(keys, key), append(secrets, secret)
	}
	s := servetest.NewSite(t, serve.Options{Views: views, Keys: keys})
	var all sync.WaitGroup
	for i, secret := range secrets {
		mine := *s
		mine.Key = secret
		text := fmt.Sprintf("text %02d", i)
		path := "/v1/sessions/" + servetest.Post[sessions.Session](&mine, "/v1/sessions", `{"text":"`+text+`"}`).ID
		for range each {
			all.Go(func() {
				status, _, data := mine.Do(http.MethodGet, path+"/explain", "")
				got := &servetest.Explained{}
				if err := json.Unmarshal(data, got); err != nil || status != http.StatusOK || got.Tokens != 7 ||
					!strings.HasPrefix(got.Text(), "text") {
					t.Errorf("client %d: status %d: %s (%v)", i, status, data, err)
				}
			})
		}
		all.Go(func() {
			if status, _, data := mine.Do(http.MethodPost, "/v1/completions",
				`{"prompt":"Call","max_tokens":2}`); status != http.StatusOK {
				t.Errorf("client %d: status %d: %s", i, status, data)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("found %d views at a time, want 1", n)
	}
}

// TestViewsOfKeys checks that a key cannot view another's sessions. Tokens read by a view count for the key, and a key
// without tokens left has only the views that read none.
func TestViewsOfKeys(t *testing.T) {
	alice, secretA := serve.NewKey("alice", serve.ScopeCompletions)
	bob, secretB := serve.NewKey("bob", serve.ScopeCompletions)
	models, secretM := serve.NewKey("models", serve.ScopeModels)
	alice.Tokens = 20
	s := servetest.NewSite(t, serve.Options{Views: servetest.TestViews, Keys: []serve.Key{alice, bob, models}})
	s.Key = secretA
	path := startSession(s)
	for key, want := range map[string]int{secretB: http.StatusNotFound, secretM: http.StatusForbidden,
		"": http.StatusUnauthorized} {
		s.Key = key
		for _, query := range []string{"", "?view=influence"} {
			if status, _, data := s.Do(http.MethodGet, path+"/explain"+query, ""); status != want {
				t.Errorf("%s: status %d, want %d: %s", query, status, want, data)
			}
		}
	}
	s.Key = secretA
	const most = 20
	tries, status := 0, http.StatusOK
	for ; status == http.StatusOK && tries < most; tries++ {
		status, _, _ = s.Do(http.MethodGet, path+"/explain?view=influence", "")
	}
	if status != http.StatusTooManyRequests || tries < 2 {
		t.Errorf("found the status %d after %d views, want more than 20 tokens a minute refused", status, tries)
	}
	s.Explain(path, "?view=state")
}

// TestViewsHaveLimits checks that a view that takes too long is ended, that views beyond the queue are refused, and
// that one that panics does not affect others.
func TestViewsHaveLimits(t *testing.T) {
	v, views := newSlowView()
	views = append(views, sessions.View{Name: "mad", Tokens: []int{8},
		Show: func(context.Context, *sessions.Viewed) (*fig.Page, error) {
			panic("mad")
		}})
	s := servetest.NewSite(t, serve.Options{Views: views, ViewTime: time.Millisecond})
	path := startSession(s)
	status, _, data := s.Do(http.MethodGet, path+"/explain", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(string(data), "view_too_slow") {
		t.Errorf("status %d: %s", status, data)
	}
	if status, _, data = s.Do(http.MethodGet, path+"/explain?view=mad", ""); status != http.StatusInternalServerError {
		t.Errorf("status %d: %s", status, data)
	}
	s.Explain(path, "?view=quick")
	<-v.begun

	v, views = newSlowView()
	s = servetest.NewSite(t, serve.Options{Views: views, Queue: 1})
	path = startSession(s)
	first := begin(s, t.Context(), path+"/explain")
	<-v.begun
	status, _, data = s.Do(http.MethodGet, path+"/explain", "")
	if status != http.StatusTooManyRequests || !strings.Contains(string(data), "as many as may") {
		t.Errorf("status %d: %s", status, data)
	}
	s.Explain(path, "?view=quick")
	close(v.end)
	if status := <-first; status != http.StatusOK {
		t.Errorf("found the status %d", status)
	}
}

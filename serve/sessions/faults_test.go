package sessions_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestClientGoesInTheMiddleOfAReply checks that the session ends where the reply was interrupted, is stored, and
// continues.
func TestClientGoesInTheMiddleOfAReply(t *testing.T) {
	const long = 1_000_000 // too many to finish before the client disconnects
	s := servetest.NewSite(t, serve.Options{MaxTokens: long})
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	path := "/v1/sessions/" + a.ID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path+"/generate",
		strings.NewReader(fmt.Sprintf(`{"max_tokens":%d,"ignore_eos":true,"stream":true}`, long)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(answer.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if got := servetest.Fetch[sessions.Session](s, http.MethodGet, path); got.Position != 7 {
		t.Errorf("while a reply is on its way: %+v", got)
	}
	cancel()
	answer.Body.Close()
	b := servetest.Post[sessions.Session](s, path+"/append", `{"text":"!"}`) // it waits for the reply to end
	if b.Position < 9 || b.Position >= long || b.Drawn != b.Position-8 {
		t.Errorf("after that: %+v", b)
	}
}

// TestSessionInUse checks that a request for a session that another one uses for long is refused.
func TestSessionInUse(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	release, err := s.Hippo.Sessions.Lock(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hippo.Sessions.Lock(ctx, a.ID); request.ErrorOf(err).Status != http.StatusConflict {
		t.Errorf("got %v", err)
	}
	release()
	if _, err := s.Hippo.Sessions.Lock(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
}

// TestManyUseOneSession checks that after concurrent requests of all kinds to several sessions, with clients that
// disconnect, each session is consistent: its text read again from its plan gives the same reply.
func TestManyUseOneSession(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Concurrent: 8, MaxSessions: 1000})
	s.Model.Sessions.Most = 3 * host.SessionBudget // so that sessions are evicted
	var ids []string
	for i := range 4 {
		ids = append(ids, servetest.Post[sessions.Session](s, "/v1/sessions",
			fmt.Sprintf(`{"text":"Call me %d"}`, i)).ID)
	}
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 25 {
				path := "/v1/sessions/" + ids[rng.IntN(len(ids))]
				body := map[string]string{
					"/append":   `{"text":" Ishmael"}`,
					"/generate": `{"max_tokens":20,"ignore_eos":true,"stream":` + fmt.Sprint(rng.IntN(2) == 0) + `}`,
					"/mark":     `{"name":"a"}`, "/score": `{"endings":["a","bc"]}`, "/fork": `{}`,
					"/rewind": fmt.Sprintf(`{"position":%d}`, 5+rng.IntN(5)),
				}
				what := []string{"/append", "/generate", "/mark", "/score", "/fork", "/rewind"}[rng.IntN(6)]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(40))*time.Millisecond)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path+what,
					strings.NewReader(body[what]))
				if err != nil {
					t.Error(err)
				} else if answer, err := s.Client().Do(r); err == nil {
					if answer.StatusCode >= 500 {
						t.Errorf("%s: status %d", what, answer.StatusCode)
					}
					answer.Body.Close()
				}
				cancel()
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		got := servetest.Post[sessions.Reply](s, "/v1/sessions/"+id+"/generate",
			`{"max_tokens":5,"seed":1,"ignore_eos":true}`)
		r, err := s.Hippo.Sessions.Record(id)
		if err != nil {
			t.Fatal(err)
		}
		plan := records.PlanSegments(r.Plan)
		n := r.Position - 5
		x, err := session.From(s.Model.Net, s.Model.Tokenizer, session.Options{},
			session.Text{Plan: records.PlanPrefix(plan, n)})
		if err != nil {
			t.Fatal(err)
		}
		o := s.Model.Defaults(5)
		o.Seed, o.IgnoreEnd = 1, true
		text := ""
		for p, err := range x.Generate(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			text += string(p.Text)
		}
		if got.Text != text {
			t.Errorf("session %s goes on with %q, read anew with %q", id, got.Text, text)
		}
	}
	s.Client().CloseIdleConnections()
	for late := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before+8; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d goroutines are left of %d", runtime.NumGoroutine(), before)
		}
	}
}

// TestNothingIsKeptForEver checks that expired sessions and responses are removed, and that files that killed servers
// have left of a session are removed at its next use.
func TestNothingIsKeptForEver(t *testing.T) {
	dir := t.TempDir()
	s := servetest.Tokenized(t, tokenizer.Bytes(), dir)
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	b := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	r := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Call me","max_output_tokens":2}`)
	old := time.Now().Add(-31 * 24 * time.Hour)
	left := filepath.Join(dir, sessions.StatesName(b.ID, "LEFT"))
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sessions.RecordName(a.ID), "responses/all/" + r.ID + ".json"} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	s = servetest.Tokenized(t, tokenizer.Bytes(), dir)
	servetest.Post[openai.Response](s, "/v1/responses", `{"input":"Call me","max_output_tokens":2}`)
	if status, _, _ := s.Do(http.MethodGet, "/v1/responses/"+r.ID, ""); status != http.StatusNotFound {
		t.Errorf("the old response has the status %d", status)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "sessions", "all", a.ID+"*")); err != nil || len(files) != 0 {
		t.Errorf("of the old session %q are left (%v)", files, err)
	}
	list := servetest.Fetch[struct{ Data []sessions.Session }](s, http.MethodGet, "/v1/sessions").Data
	if len(list) != 1 || list[0].ID != b.ID {
		t.Errorf("left are %+v", list)
	}
	servetest.Post[sessions.Session](s, "/v1/sessions/"+b.ID+"/append", `{"text":"!"}`)
	if files, err := filepath.Glob(filepath.Join(dir, "sessions", "all", "*.session")); err != nil || len(files) != 1 {
		t.Errorf("left are %q (%v), want the states of one session", files, err)
	}
}

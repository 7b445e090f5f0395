package serve_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/buckettest"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
)

// term is the term of the leases of a fleet in tests.
const term = 1200 * time.Millisecond

// fleet is a set of servers that share a bucket.
type fleet struct {
	bucket *buckettest.Bucket
	views  []*buckettest.View
	sites  []*servetest.Site
}

func newFleet(t *testing.T, n int, o serve.Options) *fleet {
	t.Helper()
	f := &fleet{bucket: buckettest.New()}
	for range n {
		v := f.bucket.View()
		o.Bucket, o.Term = v, term
		f.views = append(f.views, v)
		f.sites = append(f.sites, servetest.NewSite(t, o))
	}
	return f
}

// want fails unless the server answers with the given status.
func want(t *testing.T, s *servetest.Site, status int, method, path, body string) string {
	t.Helper()
	got, _, data := s.Do(method, path, body)
	if got != status {
		t.Errorf("%s %s %s: status %d, want %d: %s", method, path, body, got, status, data)
	}
	return string(data)
}

const drawn = `{"max_tokens":5,"seed":3,"ignore_eos":true,"logprobs":true}`

// TestFleetIsOneServer checks that a session continues at any server, with the bits of one text read by one model,
// through a slow bucket.
func TestFleetIsOneServer(t *testing.T) {
	for _, servers := range []int{2, 5} {
		f := newFleet(t, servers, serve.Options{})
		rng := rand.New(rand.NewPCG(1, uint64(servers)))
		var mu sync.Mutex
		for _, v := range f.views {
			v.Hook(func(string, string) error {
				mu.Lock()
				d := time.Duration(rng.IntN(1_500)) * time.Microsecond
				mu.Unlock()
				time.Sleep(d)
				return nil
			}, nil)
		}
		one := func() *servetest.Site {
			mu.Lock()
			defer mu.Unlock()
			return f.sites[rng.IntN(servers)]
		}
		m := f.sites[0].Model
		x := session.New(m.Net, m.Tokenizer, session.Options{})
		path := "/v1/sessions/" + servetest.Post[sessions.Session](one(), "/v1/sessions", `{}`).ID
		o := m.Defaults(5)
		o.Seed, o.IgnoreEnd = 3, true
		for turn := range 12 {
			text := fmt.Sprintf("Turn %d: call me. ", turn)
			if err := x.Append(t.Context(), servetest.BytesOf(text)); err != nil {
				t.Fatal(err)
			}
			servetest.Post[sessions.Session](one(), path+"/append", `{"text":`+servetest.Quoted(t, text)+`}`)
			for _, err := range x.Generate(t.Context(), o) {
				if err != nil {
					t.Fatal(err)
				}
			}
			got := servetest.Post[sessions.Reply](one(), path+"/generate", drawn)
			all := x.LogProbs()
			for i, p := range got.Logprobs {
				if want := all[len(all)-5+i]; float32(p) != want {
					t.Fatalf("turn %d, token %d: log-probability %v, want %v", turn, i, p, want)
				}
			}
			if turn == 6 {
				if _, err := x.Rewind(t.Context(), 40); err != nil {
					t.Fatal(err)
				}
				servetest.Post[map[string]any](one(), path+"/rewind", `{"position":40}`)
			}
		}
		state := servetest.Post[sessions.State](one(), "/v1/states", `{"session":"`+path[len("/v1/sessions/"):]+`"}`)
		again := servetest.Post[sessions.Session](one(), "/v1/sessions", `{"state":"`+state.ID+`"}`)
		if again.Position != x.Position() {
			t.Errorf("the state is at %d, want %d", again.Position, x.Position())
		}
		want(t, one(), 200, http.MethodDelete, path, "")
		for _, s := range f.sites {
			want(t, s, 404, http.MethodGet, path, "")
			want(t, s, 404, http.MethodPost, path+"/append", `{"text":"x"}`)
		}
	}
}

// TestFleetKeepsConversations checks that responses and conversations continue at any server, as on a single server.
func TestFleetKeepsConversations(t *testing.T) {
	f := newFleet(t, 2, serve.Options{})
	alone := servetest.NewSite(t, serve.Options{})
	talk := func(at func(i int) *servetest.Site) (text string) {
		c := servetest.Post[openai.Conversation](at(0), "/v1/conversations", `{}`)
		last := ""
		for i := range 4 {
			for _, ref := range []string{`"conversation":"` + c.ID + `"`, last} {
				body := fmt.Sprintf(`{"input":"Say %d","max_output_tokens":6,"temperature":0`, i)
				if ref != "" {
					body += "," + ref
				}
				r := servetest.Post[openai.Response](at(i), "/v1/responses", body+"}")
				text += r.Output[0].Content[0].Text + "|"
				if ref == last {
					last = `"previous_response_id":"` + r.ID + `"`
				}
			}
		}
		return text + want(t, at(1), 200, http.MethodGet, "/v1/conversations/"+c.ID+"/items?order=asc", "")[:40]
	}
	one := talk(func(int) *servetest.Site { return alone })
	if got := talk(func(i int) *servetest.Site { return f.sites[i%2] }); got[:len(got)-40] != one[:len(one)-40] {
		t.Errorf("the fleet says %q, want %q", got, one)
	}
}

// TestTwoAtOnce checks that of concurrent requests for one session, at two and five servers, each is refused or follows
// the others: the text has everything that was stored, once, and nothing else.
func TestTwoAtOnce(t *testing.T) {
	for _, servers := range []int{2, 5} {
		f := newFleet(t, servers, serve.Options{})
		path := "/v1/sessions/" + servetest.Post[sessions.Session](f.sites[0], "/v1/sessions", `{"text":"Begin."}`).ID
		var stored, refused atomic.Int64
		var all sync.WaitGroup
		var said sync.Map
		for i, s := range f.sites {
			for worker := range 2 {
				all.Go(func() {
					for n := range 4 {
						token := fmt.Sprintf("<%d.%d.%d>", i, worker, n)
						status, _, data := s.Do(http.MethodPost, path+"/append", `{"text":"`+token+`"}`)
						switch status {
						case 200:
							stored.Add(1)
							said.Store(token, true)
						case 409:
							refused.Add(1)
							said.Store(token, false)
						default:
							t.Errorf("status %d: %s", status, data)
						}
					}
				})
			}
		}
		all.Wait()
		text := want(t, f.sites[1], 200, http.MethodGet, path+"?text=true", "")
		text = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(text)
		said.Range(func(token, ok any) bool {
			n := 0
			if ok.(bool) {
				n = 1
			}
			if got := strings.Count(text, token.(string)); got != n {
				t.Errorf("%s is there %d times, want %d", token, got, n)
			}
			return true
		})
		if stored.Load() < int64(servers) {
			t.Errorf("%d were stored, %d refused", stored.Load(), refused.Load())
		}
		for _, s := range f.sites { // each continues from the same position
			if got := want(t, s, 200, http.MethodGet, path+"?text=true", ""); len(got) != len(
				want(t, f.sites[0], 200, http.MethodGet, path+"?text=true", "")) {
				t.Errorf("two truths: %s", got)
			}
		}
	}
}

// TestKilledServer checks that when a server is killed during a reply, another continues from what was answered, once
// the lease has expired, and that the first server has no effect if it wakes up.
func TestKilledServer(t *testing.T) {
	f := newFleet(t, 2, serve.Options{})
	a, b := f.sites[0], f.sites[1]
	path := "/v1/sessions/" + servetest.Post[sessions.Session](a, "/v1/sessions", `{"text":"Call me"}`).ID
	before := servetest.Post[sessions.Reply](a, path+"/generate", drawn)
	cut := make(chan struct{})
	f.views[0].Hook(func(what, _ string) error { // the server is killed just before it stores the reply
		if what == "put" {
			f.views[0].Cut(true)
			close(cut)
		}
		return nil
	}, nil)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := a.Do(http.MethodPost, path+"/generate", drawn)
		answered <- status
	}()
	<-cut
	text := servetest.Post[sessions.Reply](b, path+"/generate", drawn).Text
	if status := <-answered; status != 503 {
		t.Errorf("the server without a bucket answers %d", status)
	}
	alone := servetest.NewSite(t, serve.Options{})
	other := "/v1/sessions/" + servetest.Post[sessions.Session](alone, "/v1/sessions", `{"text":"Call me"}`).ID
	first := servetest.Post[sessions.Reply](alone, other+"/generate", drawn).Text
	second := servetest.Post[sessions.Reply](alone, other+"/generate", drawn).Text
	if before.Text != first || text != second {
		t.Errorf("got %q and %q, want %q and %q", before.Text, text, first, second)
	}
	f.views[0].Hook(nil, nil)
	f.views[0].Cut(false)
	third := servetest.Post[sessions.Reply](a, path+"/generate", drawn).Text
	if want := servetest.Post[sessions.Reply](alone, other+"/generate", drawn).Text; third != want {
		t.Errorf("after it came back: %q, want %q", third, want)
	}
}

// TestBucketFails checks that while the bucket fails, requests that must store something get a 503 with a one-line
// error, and later continue as if they had not been made. Requests that need no bucket are answered.
func TestBucketFails(t *testing.T) {
	f := newFleet(t, 2, serve.Options{})
	a, v := f.sites[0], f.views[0]
	path := "/v1/sessions/" + servetest.Post[sessions.Session](a, "/v1/sessions", `{"text":"Call me"}`).ID
	c := servetest.Post[openai.Conversation](a, "/v1/conversations", `{}`)
	respond := `{"input":"x","max_output_tokens":2,"conversation":"` + c.ID + `"}`
	requests := map[string]string{
		path + "/append": `{"text":" Ishmael"}`, path + "/generate": drawn, "/v1/sessions": `{"text":"x"}`,
		"/v1/states": `{"session":"` + path[len("/v1/sessions/"):] + `"}`, path + "/fork": `{}`,
		"/v1/responses": respond,
	}
	for _, when := range []string{"cut", "create", "put"} {
		if when == "cut" {
			v.Cut(true)
		} else {
			v.Hook(func(what, _ string) error {
				if what == when {
					return errors.New("the bucket\nis full")
				}
				return nil
			}, nil)
		}
		for p, body := range requests {
			data := want(t, a, 503, http.MethodPost, p, body)
			if !strings.Contains(data, `"store_unavailable"`) || strings.Count(data, "\n") != 1 {
				t.Errorf("%s: %s", p, data)
			}
		}
		want(t, a, 200, http.MethodPost, "/v1/completions", `{"prompt":"Call me","max_tokens":1}`)
		want(t, a, 200, http.MethodPost, "/v1/responses", `{"input":"x","max_output_tokens":1,"store":false}`)
		v.Cut(false)
		v.Hook(nil, nil)
		for _, s := range f.sites {
			if got := servetest.Fetch[sessions.Session](s, http.MethodGet, path); got.Position != 7 {
				t.Errorf("%s: the session is at %d, want 7", when, got.Position)
			}
		}
	}
	time.Sleep(2 * term) // for a lease that could not be released
	servetest.Post[sessions.Reply](f.sites[1], path+"/generate", drawn)
	servetest.Post[openai.Response](f.sites[1], "/v1/responses", respond)
}

// TestFleetDeletesBatches checks that a batch of messages is deleted with its files, whichever server deletes it.
func TestFleetDeletesBatches(t *testing.T) {
	bucket := buckettest.New()
	site := func() *servetest.Site { // it reads the bucket only on request
		return servetest.NewSite(t, serve.Options{Bucket: bucket.View(), Term: time.Hour})
	}
	a, b := site(), site()
	path := "/v1/messages/batches/" + servetest.Post[anthropic.Batch](a, "/v1/messages/batches", `{"requests":[
		{"custom_id":"a","params":{"max_tokens":2,"messages":[{"role":"user","content":"Call me"}]}}]}`).ID
	for _, s := range []*servetest.Site{a, b} { // a has the result before the bucket, which b reads
		servetest.WaitUntil(t, func() bool {
			return servetest.Fetch[anthropic.Batch](s, http.MethodGet, path).Ended != nil
		})
	}
	want(t, b, 200, http.MethodDelete, path, "")
	want(t, a, 404, http.MethodGet, path, "")
	for _, name := range bucket.Names() {
		if strings.HasPrefix(name, "files/file") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestFleetBackground checks that a background response is visible at every server while one generates it, and has
// failed when that one is killed.
func TestFleetBackground(t *testing.T) {
	f := newFleet(t, 2, serve.Options{})
	next, stopped := servetest.Stepped(f.sites[0])
	begin := func(tokens int) string {
		return "/v1/responses/" + servetest.Post[openai.Response](f.sites[0], "/v1/responses",
			fmt.Sprintf(`{"input":"Call me","max_output_tokens":%d,"background":true}`, tokens)).ID
	}
	status := func(path string) string {
		return servetest.Fetch[openai.Response](f.sites[1], http.MethodGet, path).Status
	}
	path := begin(1)
	for until := time.Now().Add(2 * term); time.Now().Before(until); time.Sleep(term / 10) {
		if got := status(path); got != "queued" && got != "in_progress" {
			t.Fatalf("while it is made it is %s", got)
		}
	}
	next <- true
	for got := ""; got != "incomplete"; got = status(path) {
		if got == "failed" {
			t.Fatal("it has failed")
		}
	}
	path = begin(2)
	next <- true // it is being generated
	f.views[0].Cut(true)
	for got := ""; got != "failed"; got = status(path) {
		time.Sleep(term / 10)
	}
	select {
	case next <- true:
	case <-stopped: // it has noticed that it is late
	}
}

// TestFleetOfTenants checks that what a key has stored at one server is not visible to another key at any.
func TestFleetOfTenants(t *testing.T) {
	alice, aliceSecret := serve.NewKey("alice", serve.ScopeAll)
	mallory, mallorySecret := serve.NewKey("mallory", serve.ScopeAll)
	f := newFleet(t, 2, serve.Options{Keys: []serve.Key{alice, mallory}})
	a, b := f.sites[0], f.sites[1]
	a.Key, b.Key = aliceSecret, mallorySecret
	id := servetest.Post[sessions.Session](a, "/v1/sessions", `{"text":"Call me"}`).ID
	state := servetest.Post[sessions.State](a, "/v1/states", `{"session":"`+id+`"}`).ID
	r := servetest.Post[openai.Response](a, "/v1/responses", `{"input":"x","max_output_tokens":2}`).ID
	c := servetest.Post[openai.Conversation](a, "/v1/conversations", `{}`).ID
	file := a.Sent(line("a", "x"))
	batched := servetest.Post[openai.Batch](a, "/v1/batches",
		`{"input_file_id":"`+file+`","endpoint":"/v1/completions","completion_window":"1h"}`).ID
	for _, path := range []string{"/v1/sessions/" + id, "/v1/states/" + state, "/v1/responses/" + r,
		"/v1/conversations/" + c, "/v1/files/" + file, "/v1/batches/" + batched} {
		want(t, b, 404, http.MethodGet, path, "")
		b.Key = aliceSecret
		want(t, b, 200, http.MethodGet, path, "")
		b.Key = mallorySecret
	}
	for _, path := range []string{"/v1/sessions", "/v1/states", "/v1/files", "/v1/batches"} {
		if got := want(t, b, 200, http.MethodGet, path, ""); !strings.Contains(got, `"data":[]`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, c := range []struct{ path, body string }{
		{"/v1/sessions/" + id + "/append", `{"text":"x"}`},
		{"/v1/sessions", `{"state":"` + state + `"}`},
		{"/v1/responses", `{"input":"x","previous_response_id":"` + r + `"}`},
		{"/v1/responses", `{"input":"x","conversation":"` + c + `"}`},
		{"/v1/batches/" + batched + "/cancel", ""},
		{"/v1/batches", `{"input_file_id":"` + file + `","endpoint":"/v1/completions","completion_window":"1h"}`},
	} {
		want(t, b, 404, http.MethodPost, c.path, c.body)
	}
}

// line is a line of a batch.
func line(id, prompt string) string {
	const form = `{"custom_id":%q,"method":"POST","url":"/v1/completions","body":{"prompt":%q,"max_tokens":2}}` + "\n"
	return fmt.Sprintf(form, id, prompt)
}

// TestFleetRunsBatches checks that a batch whose server is killed is finished by another, each line once, and that it
// is visible and can be cancelled at every server.
func TestFleetRunsBatches(t *testing.T) {
	f := newFleet(t, 2, serve.Options{})
	a, b := f.sites[0], f.sites[1]
	var text strings.Builder
	const lines = 40
	for i := range lines {
		text.WriteString(line(fmt.Sprint(i), "Call me "+fmt.Sprint(i)))
	}
	file := a.Sent(text.String())
	begin := func(s *servetest.Site) openai.Batch {
		return servetest.Post[openai.Batch](s, "/v1/batches",
			`{"input_file_id":"`+file+`","endpoint":"/v1/completions","completion_window":"1h"}`)
	}
	var once sync.Once
	f.views[0].Hook(nil, func(what, name string) error {
		if what == "create" && strings.Contains(name, ".journal/") {
			once.Do(func() { f.views[0].Cut(true) }) // killed after its first results are stored
		}
		return nil
	})
	x := begin(a)
	var now openai.Batch
	servetest.WaitUntil(t, func() bool {
		now = servetest.Fetch[openai.Batch](b, http.MethodGet, "/v1/batches/"+x.ID)
		return now.Status == batch.Completed || now.Status == batch.Failed
	})
	if now.Counts != (batch.Counts{Total: lines, Completed: lines}) {
		t.Fatalf("the batch ended as %+v", now)
	}
	seen := map[string]bool{}
	for _, o := range b.Output(now.Output) {
		if seen[o.CustomID] || o.Response.Status != 200 {
			t.Errorf("the line %s is there twice, or has the status %d", o.CustomID, o.Response.Status)
		}
		seen[o.CustomID] = true
	}
	if len(seen) != lines {
		t.Errorf("the output has %d lines", len(seen))
	}
	f.views[0].Cut(false)
	y := begin(b)
	want(t, a, 200, http.MethodPost, "/v1/batches/"+y.ID+"/cancel", "")
	servetest.WaitUntil(t, func() bool {
		now = servetest.Fetch[openai.Batch](b, http.MethodGet, "/v1/batches/"+y.ID)
		return now.Status == batch.Cancelled || now.Status == batch.Completed
	})
	want(t, b, 200, http.MethodDelete, "/v1/files/"+file, "")
	want(t, a, 404, http.MethodGet, "/v1/files/"+file, "")
	for _, name := range f.bucket.Names() {
		if strings.Contains(name, ".journal/") {
			t.Errorf("%s is left", name)
		}
	}
}

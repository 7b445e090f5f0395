package sessions_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestSessionsOverHTTP checks that a session over HTTP is bit-identical to one in the library, across forks, rewinds,
// export and import, and with a new server on the same folder for each request.
func TestSessionsOverHTTP(t *testing.T) {
	dir := t.TempDir()
	begin := func() *servetest.Site { return servetest.Tokenized(t, servetest.ByteBPE(t), dir) }
	s := begin()
	x := session.New(s.Model.Net, s.Model.Tokenizer, session.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ids, err := s.Model.Encode(request.Prompt{Text: servetest.Corpus})
	must(err)
	must(x.Append(t.Context(), ids))
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":`+servetest.Quoted(t,
		servetest.Corpus)+`,"metadata":{"of":"Wale"}}`)
	path := "/v1/sessions/" + a.ID
	x.Mark("book")
	servetest.Post[sessions.Session](begin(), path+"/mark", `{"name":"book"}`)

	o := s.Model.Defaults(0)
	o.MaxTokens, o.Seed, o.IgnoreEnd = 30, 7, true
	const draw = `{"max_tokens":30,"seed":7,"ignore_eos":true,"logprobs":true}`
	write := func(x *session.Session) (text string) {
		t.Helper()
		for p, err := range x.Generate(t.Context(), o) {
			must(err)
			text += string(p.Text)
		}
		return text
	}
	want := write(x)
	r := servetest.Post[sessions.Reply](begin(), path+"/generate", draw)
	if r.Text != want || len(r.Logprobs) != 30 || *r.Finish != "length" || r.Session.Position != x.Position() ||
		r.Session.Drawn != 30 {
		t.Errorf("the reply is %q (%+v), want %q", r.Text, r.Session, want)
	}
	more, err := s.Model.Tokenizer.Encode(nil, []byte(" und weiter, кит"))
	must(err)
	must(x.Append(t.Context(), more))
	servetest.Post[sessions.Session](begin(), path+"/append", `{"text":" und weiter, кит"}`)
	f := servetest.Post[sessions.Session](begin(), path+"/fork", `{}`)
	if f.From.ID != a.ID || f.From.Position != x.Position() || f.Metadata["of"] != "Wale" {
		t.Errorf("the fork is %+v", f)
	}
	y := x.Fork()
	want = write(y)
	if got := servetest.Post[sessions.Reply](begin(), "/v1/sessions/"+f.ID+"/generate", draw); got.Text != want {
		t.Errorf("the fork's reply is %q, want %q", got.Text, want)
	}
	again, err := x.RewindTo(t.Context(), "book")
	must(err)
	back := servetest.Post[sessions.Rewound](begin(), path+"/rewind", `{"mark":"book"}`)
	if back.Again != again || back.Position != len(ids) {
		t.Errorf("after the rewind %+v, want %d at %d", back, again, len(ids))
	}
	no, err := s.Model.Tokenizer.Encode(nil, []byte(" nein"))
	must(err)
	scores, err := x.Score(t.Context(), no)
	must(err)
	got := servetest.Post[struct{ Data []sessions.Ending }](begin(), path+"/score", `{"endings":[" nein",[5,6]]}`).Data
	if len(got) != 2 || len(got[0].Logprobs) != len(no) || got[0].Logprobs[0] != float64(scores[0][0]) {
		t.Errorf("the scores are %+v, want %v", got, scores)
	}
	status, h, data := begin().Do(http.MethodGet, path+"/export", "")
	if status != http.StatusOK || h.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("export: %d %v", status, h)
	}
	other := servetest.Tokenized(t, servetest.ByteBPE(t), t.TempDir())
	moved := servetest.Post[sessions.Session](other, "/v1/sessions/import?model=tiny", string(data))
	want = write(x)
	if got := servetest.Post[sessions.Reply](other, "/v1/sessions/"+moved.ID+"/generate", draw); got.Text != want {
		t.Errorf("the imported reply is %q, want %q", got.Text, want)
	}
	list := servetest.Fetch[struct{ Data []sessions.Session }](s, http.MethodGet, "/v1/sessions")
	if len(list.Data) != 2 {
		t.Errorf("the list is %+v", list)
	}
	servetest.Fetch[map[string]any](s, http.MethodDelete, path)
	if status, _, _ := begin().Do(http.MethodGet, path, ""); status != http.StatusNotFound {
		t.Errorf("after deletion: status %d", status)
	}
	files, err := os.ReadDir(filepath.Join(dir, "sessions", "all"))
	if err != nil || len(files) != 2 {
		t.Errorf("the folder has %v (%v), want the two files of the fork", files, err)
	}
}

// TestSessionStream checks that a reply arrives in pieces, that the last event has the session, and that a session
// whose client disconnects can be continued.
func TestSessionStream(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	b := servetest.Post[sessions.Session](s, "/v1/sessions/"+a.ID+"/fork", `{}`)
	whole := servetest.Post[sessions.Reply](s, "/v1/sessions/"+a.ID+"/generate", `{"max_tokens":20,"seed":1}`)
	all := servetest.Events[sessions.Reply](s, "/v1/sessions/"+b.ID+"/generate",
		`{"max_tokens":20,"seed":1,"stream":true}`)
	var text string
	for _, e := range all {
		text += e.Text
	}
	last := all[len(all)-1]
	if text != whole.Text || last.Session == nil || last.Session.Position != 27 || len(all) < 3 {
		t.Errorf("the stream has %q and ends by %+v, want %q", text, last, whole.Text)
	}
}

// stuck is a response to a client that reads nothing until it is told to.
type stuck struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (w *stuck) Write(p []byte) (int, error) {
	<-w.reads
	return w.ResponseRecorder.Write(p)
}

// TestSlowReaderFreesSession checks that a client that does not read the end of a reply does not block its session.
func TestSlowReaderFreesSession(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	path := "/v1/sessions/" + servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`).ID
	w := &stuck{httptest.NewRecorder(), make(chan struct{})}
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		body := strings.NewReader(`{"max_tokens":20,"seed":1,"stream":true,"ignore_eos":true}`)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path+"/generate", body)
		r.Header.Set("Content-Type", "application/json")
		close(begun)
		s.Hippo.ServeHTTP(w, r)
	}()
	<-begun
	servetest.WaitUntil(t, func() bool {
		return servetest.Fetch[sessions.Session](s, http.MethodGet,
			path).Position == 27
	})
	if got := servetest.Post[sessions.Session](s, path+"/append", `{"text":" Ishmael"}`); got.Position != 35 {
		t.Errorf("the session ends at %d, want 35", got.Position)
	}
	close(w.reads)
	<-done
	if text := w.Body.String(); !strings.HasSuffix(text, string(request.SSEDone)) ||
		!strings.Contains(text, `"position":27`) {
		t.Errorf("the stream ends by %q, want the session at 27", text[max(0, len(text)-300):])
	}
}

// TestSessionErrors checks that impossible requests get an error, and that the session does not change.
func TestSessionErrors(t *testing.T) {
	alice, a := serve.NewKey("alice", serve.ScopeAll)
	bob, b := serve.NewKey("bob", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, bob}, MaxSessions: 2, MaxPrompt: 200,
		MaxImport: 1 << 10})
	s.Key = a
	x := servetest.Post[sessions.Session](s, "/v1/sessions", `{}`)
	path := "/v1/sessions/" + x.ID
	check := func(status int, text, method, path, body string) {
		t.Helper()
		if got, _, data := s.Do(method, path, body); got != status || !strings.Contains(string(data), text) {
			t.Errorf("%s %s %.60s: status %d: %s, want %d with %q", method, path, body, got, data, status, text)
		}
	}
	check(400, "no text yet", "POST", path+"/generate", `{}`)
	check(400, "without a text", "POST", path+"/score", `{"endings":["a"]}`)
	check(400, `"param":"ids"`, "POST", path+"/append", `{"ids":[1,256]}`)
	check(400, "found nothing", "POST", path+"/append", `{"text":""}`)
	check(400, "want one", "POST", path+"/append", `{}`)
	servetest.Post[sessions.Session](s, path+"/append", `{"text":"Call me"}`)
	check(400, "behind 7, want at most 200", "POST", path+"/append", `{"text":"`+strings.Repeat("a", 200)+`"}`)
	check(400, "behind 7, want at most 200", "POST", path+"/generate", `{"max_tokens":194}`)
	check(400, "found 8, want 0 to 7", "POST", path+"/rewind", `{"position":8}`)
	check(400, "found no mark", "POST", path+"/rewind", `{"mark":"x"}`)
	check(400, "found a name of 0 bytes", "POST", path+"/mark", `{}`)
	check(413, "more than 1024 bytes", "POST", "/v1/sessions/import", strings.Repeat("x", 1025))
	check(400, "damaged", "POST", "/v1/sessions/import", "x")
	check(404, "no session", "GET", "/v1/sessions/..%2f..%2fx", "")
	servetest.Post[sessions.Session](s, path+"/fork", `{}`)
	check(403, "found 2 sessions", "POST", path+"/fork", `{}`)
	check(403, "found 2 sessions", "POST", "/v1/sessions", `{}`)
	s.Key = b
	for _, e := range []struct{ method, path, body string }{
		{"GET", path, ""}, {"DELETE", path, ""}, {"POST", path + "/append", `{"text":"a"}`},
		{"GET", path + "/export", ""},
		{"POST", path + "/fork", `{}`}, {"GET", path + "?text=true", ""},
	} {
		check(404, "no session", e.method, e.path, e.body)
	}
	if list := servetest.Fetch[struct{ Data []sessions.Session }](s, http.MethodGet,
		"/v1/sessions"); len(list.Data) != 0 {
		t.Errorf("bob sees %+v", list)
	}
	s.Key = a
	if got := servetest.Fetch[map[string]any](s, http.MethodGet, path+"?text=true"); got["text"] != "Call me" {
		t.Errorf("alice's session is %v", got)
	}
}

// TestImportForOtherModel checks that files of sessions of another model, in other segments (which could delay others),
// or with a flipped bit are refused.
func TestImportForOtherModel(t *testing.T) {
	s, other := servetest.NewSite(t, serve.Options{}), servetest.Tokenized(t, tokenizer.Bytes(), "")
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	_, _, data := s.Do(http.MethodGet, "/v1/sessions/"+a.ID+"/export", "")
	if status, _, text := other.Do(http.MethodPost, "/v1/sessions/import", string(data)); status != 400 ||
		!strings.Contains(string(text), "another model") {
		t.Errorf("status %d: %s", status, text)
	}
	var pieces bytes.Buffer
	x := session.New(s.Model.Net, s.Model.Tokenizer, session.Options{Chunk: 1 << 20})
	if err := x.Encode(&pieces, session.FileOptions{Signer: servetest.Signer}); err != nil {
		t.Fatal(err)
	}
	if status, _, text := s.Do(http.MethodPost, "/v1/sessions/import", pieces.String()); status != 400 ||
		!strings.Contains(string(text), "pieces of 1048576") {
		t.Errorf("status %d: %s", status, text)
	}
	data[len(data)/2] ^= 1
	if status, _, text := s.Do(http.MethodPost, "/v1/sessions/import", string(data)); status != 400 ||
		!strings.Contains(string(text), "damaged") {
		t.Errorf("status %d: %s", status, text)
	}
}

// TestDamagedSessionIsReadAgain checks that the damaged file of a session is quarantined, and that the session
// continues with the same results.
func TestDamagedSessionIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	tok := servetest.ByteBPE(t)
	s := servetest.Tokenized(t, tok, dir)
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me Ishmael, über das Meer"}`)
	servetest.Post[sessions.Reply](s, "/v1/sessions/"+a.ID+"/generate", `{"max_tokens":30,"seed":1,"ignore_eos":true}`)
	f := servetest.Post[sessions.Session](s, "/v1/sessions/"+a.ID+"/fork", `{}`)
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "all", a.ID+"-*.session"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	s = servetest.Tokenized(t, tok, dir)
	const draw = `{"max_tokens":20,"seed":2,"ignore_eos":true}`
	want := servetest.Post[sessions.Reply](s, "/v1/sessions/"+f.ID+"/generate", draw)
	got := servetest.Post[sessions.Reply](s, "/v1/sessions/"+a.ID+"/generate", draw)
	if got.Text != want.Text || got.Session.Position != want.Session.Position || got.Session.StoreError != "" {
		t.Errorf("got %q, want %q", got.Text, want.Text)
	}
	if aside, _ := filepath.Glob(filepath.Join(dir, "sessions", "all", "*.damaged")); len(aside) != 1 {
		t.Errorf("set aside: %v", aside)
	}
}

// TestTwoServersShareSessions checks that concurrent requests to two servers on one folder lose or mix up nothing of a
// session.
func TestTwoServersShareSessions(t *testing.T) {
	dir := t.TempDir()
	tok := tokenizer.Bytes()
	servers := []*servetest.Site{servetest.Tokenized(t, tok, dir), servetest.Tokenized(t, tok, dir)}
	a := servetest.Post[sessions.Session](servers[0], "/v1/sessions", `{"text":"x"}`)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			s := servers[i%2]
			body := fmt.Sprintf(`{"text":"<%02d>"}`, i)
			for {
				status, _, data := s.Do(http.MethodPost, "/v1/sessions/"+a.ID+"/append", body)
				if status == http.StatusConflict { // others have locked it for long: nothing was changed
					continue
				}
				if status != http.StatusOK {
					t.Errorf("%d %s", status, data)
				}
				return
			}
		})
	}
	all.Wait()
	got := servetest.Fetch[map[string]any](servers[0], http.MethodGet,
		"/v1/sessions/"+a.ID+"?text=true")["text"].(string)
	for i := range 12 {
		if strings.Count(got, fmt.Sprintf("<%02d>", i)) != 1 || len(got) != 1+12*4 {
			t.Fatalf("the text is %q", got)
		}
	}
}

// fullShelf is a store that has no space while it is full, or no space for states, which are large.
type fullShelf struct {
	records.Backend
	full, fullOfStates atomic.Bool
}

func (f *fullShelf) Put(name string, write func(io.Writer) error) error {
	if f.isFull(name) {
		return fmt.Errorf("%s: %w", f, syscall.ENOSPC)
	}
	return f.Backend.Put(name, write)
}

func (f *fullShelf) PutBytes(name string, data []byte) error {
	if f.isFull(name) {
		return fmt.Errorf("%s: %w", f, syscall.ENOSPC)
	}
	return f.Backend.PutBytes(name, data)
}

func (f *fullShelf) isFull(name string) bool {
	return f.full.Load() || f.fullOfStates.Load() && strings.HasSuffix(name, sessions.StatesEnding)
}

// TestFullDiskLeavesSessionsUsable checks that if there is no space, the answer names the store, and the session
// continues in memory and is stored as soon as there is space.
func TestFullDiskLeavesSessionsUsable(t *testing.T) {
	dir := t.TempDir()
	tok := tokenizer.Bytes()
	s := servetest.Tokenized(t, tok, dir)
	a := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	path := "/v1/sessions/" + a.ID
	blocked := &fullShelf{Backend: s.Hippo.Sessions.Store().Backend}
	blocked.full.Store(true)
	s.Hippo.Sessions.Store().Backend = blocked
	b := servetest.Post[sessions.Session](s, path+"/append", `{"text":" Ishmael"}`)
	if b.Position != 15 || !strings.Contains(b.StoreError, "no space") || !strings.Contains(b.StoreError, dir) {
		t.Errorf("on a full disk: %+v", b)
	}
	if got := servetest.Fetch[sessions.Session](s, http.MethodGet, path); got.Position != 15 || got.StoreError == "" {
		t.Errorf("found %+v", got)
	}
	r := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"x","max_output_tokens":1}`)
	if r.Store || !strings.Contains(r.StoreError, "no space") {
		t.Errorf("the response is %+v", r)
	}
	if status, _, data := s.Do(http.MethodPost, "/v1/sessions", `{}`); status != 507 ||
		!strings.Contains(string(data), dir) {
		t.Errorf("a new session: %d %s", status, data)
	}
	blocked.full.Store(false)
	c := servetest.Post[sessions.Reply](s, path+"/generate", `{"max_tokens":2,"ignore_eos":true}`)
	if c.Session.StoreError != "" || c.Session.Position != 17 {
		t.Errorf("with room again: %+v", c.Session)
	}
	if got := servetest.Fetch[sessions.Session](servetest.Tokenized(t, tok, dir), http.MethodGet,
		path); got.Position != 17 {
		t.Errorf("another server finds %+v", got)
	}
}

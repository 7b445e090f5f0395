package sessions_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// stateOf makes a server store the state of a new session with a text, and returns the state and its file.
func stateOf(s *servetest.Site, text string) (sessions.State, []byte) {
	s.T.Helper()
	x := servetest.Post[sessions.Session](s, "/v1/sessions", fmt.Sprintf(`{"text":%q}`, text))
	a := servetest.Post[sessions.State](s, "/v1/states", fmt.Sprintf(`{"session":%q}`, x.ID))
	status, h, file := s.Do(http.MethodGet, "/v1/states/"+a.ID, "")
	if status != http.StatusOK || int64(len(file)) != a.Bytes || h.Get("ETag") != `"`+a.ID+`"` {
		s.T.Fatalf("status %d, %v: %d bytes of %+v", status, h, len(file), a)
	}
	return a, file
}

const goOn = `{"max_tokens":12,"temperature":0,"logprobs":true,"ignore_eos":true}`

// TestStatesMove checks that a state can be moved by its hash to another server that trusts the first, and that a
// session continues from it with the same bits.
func TestStatesMove(t *testing.T) {
	signer := session.NewSigner("")
	key, err := signer.Public()
	if err != nil {
		t.Fatal(err)
	}
	from := servetest.NewSite(t, serve.Options{Signer: signer})
	to := servetest.NewSite(t, serve.Options{Trust: session.Trust{key}, Store: t.TempDir()})
	a, file := stateOf(from, "Call me Ishmael. ")
	content := sha256.Sum256(file[:len(file)-128])
	if a.ID != hex.EncodeToString(content[:]) || a.Signer != key.String() || a.Position != 17 ||
		a.Identity != session.Identify(from.Model.Net, from.Model.Tokenizer) || len(a.Text) != 64 {
		t.Errorf("got %+v", a)
	}
	for range 2 { // the second time changes nothing
		status, _, data := to.Do(http.MethodPut, "/v1/states/"+a.ID, string(file))
		got := servetest.Decode[sessions.State](t, data)
		if status != 200 || got.ID != a.ID || got.Position != a.Position {
			t.Fatalf("status %d: %s", status, data)
		}
	}
	status, h, data := to.Do(http.MethodHead, "/v1/states/"+a.ID, "")
	if status != 200 || h.Get("Content-Length") != fmt.Sprint(len(file)) || len(data) > 0 {
		t.Errorf("HEAD: status %d, %v", status, h)
	}
	if _, _, got := to.Do(http.MethodGet, "/v1/states/"+a.ID, ""); !bytes.Equal(got, file) {
		t.Error("another file comes back")
	}
	var want string
	for _, s := range []*servetest.Site{from, to} {
		x := servetest.Post[sessions.Session](s, "/v1/sessions", fmt.Sprintf(`{"state":%q,"metadata":{"a":"b"}}`, a.ID))
		r := servetest.Post[sessions.Reply](s, "/v1/sessions/"+x.ID+"/generate", goOn)
		got := fmt.Sprint(r.Text, r.IDs, servetest.Quoted(t, r.Logprobs))
		if x.Position != 17 || x.Metadata["a"] != "b" || want != "" && got != want {
			t.Errorf("%+v continues with %s, want %s", x, got, want)
		}
		want = got
	}
	list := servetest.Decode[struct{ Data []sessions.State }](t, third(to.Do(http.MethodGet, "/v1/states", "")))
	if len(list.Data) != 1 || list.Data[0].ID != a.ID || list.Data[0].Bytes != a.Bytes {
		t.Errorf("listed are %+v", list)
	}
	for _, want := range []int{200, 404} {
		if status, _, data := to.Do(http.MethodDelete, "/v1/states/"+a.ID, ""); status != want {
			t.Errorf("deleting: status %d: %s, want %d", status, data, want)
		}
	}
}

func third(_ int, _ http.Header, data []byte) []byte { return data }

// TestStatesAreChecked checks that a state with a wrong hash, signature or signer, or for another model, is refused
// with its own code, and that nothing of it is stored.
func TestStatesAreChecked(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{MaxImport: 4 << 20})
	a, file := stateOf(s, "Call me")
	s.Do(http.MethodDelete, "/v1/states/"+a.ID, "")
	flipped := bytes.Clone(file)
	flipped[len(flipped)/2] ^= 1
	x := session.New(s.Model.Net, s.Model.Tokenizer, session.Options{})
	encoded := func(signer *session.Signer) string {
		var b bytes.Buffer
		if err := x.Encode(&b, session.FileOptions{Signer: signer}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	signature := bytes.Clone(file)
	signature[len(file)-40] ^= 1
	for _, c := range []struct {
		name, hash, file, code string
		status                 int
	}{
		{"another hash", strings.Repeat("0", 64), string(file), "wrong_hash", 400},
		{"no hash", "x", string(file), "", 400},
		{"an upper case", strings.ToUpper(a.ID), string(file), "", 400},
		{"a path", "..%2F" + a.ID, string(file), "", 400},
		{"a flipped byte", a.ID, string(flipped), "damaged", 400},
		{"a flipped byte of the signature", a.ID, string(signature), "damaged", 400},
		{"a short file", a.ID, string(file[:len(file)-1]), "damaged", 400},
		{"half a file", a.ID, string(file[:len(file)/2]), "damaged", 400},
		{"a long file", a.ID, string(file) + "x", "damaged", 400},
		{"nothing", a.ID, "", "damaged", 400},
		{"text", a.ID, "a state, which it is not", "damaged", 400},
		{"no signature", a.ID, encoded(nil), "unsigned", 403},
		{"another's signature", a.ID, encoded(session.NewSigner("")), "untrusted_key", 403},
		{"too many bytes", a.ID, strings.Repeat("x", 5<<20), "request_too_large", 413},
	} {
		status, _, data := s.Do(http.MethodPut, "/v1/states/"+c.hash, c.file)
		if status != c.status || !strings.Contains(string(data), fmt.Sprintf(`"code":%q`, c.code)) && c.code != "" {
			t.Errorf("%s: status %d: %s, want %d, %s", c.name, status, data, c.status, c.code)
		}
		if data := third(s.Do(http.MethodGet, "/v1/states", "")); !strings.Contains(string(data), `"data":[]`) {
			t.Errorf("%s: stored is %s", c.name, data)
		}
	}
	for _, c := range []struct {
		name, body, code string
		status           int
	}{
		{"a state that is not there", fmt.Sprintf(`{"state":%q}`, a.ID), "state_not_found", 404},
		{"a path", `{"state":"../../x"}`, "state_not_found", 404},
		{"beside a text", fmt.Sprintf(`{"state":%q,"text":"a"}`, a.ID), "", 400},
		{"a number", `{"state":7}`, "", 400},
	} {
		if status, _, data := s.Do(http.MethodPost, "/v1/sessions", c.body); status != c.status ||
			c.code != "" && !strings.Contains(string(data), c.code) {
			t.Errorf("%s: status %d: %s", c.name, status, data)
		}
	}
	if status, _, data := s.Do(http.MethodPut, "/v1/states/"+a.ID, string(file)); status != 200 {
		t.Fatalf("status %d: %s", status, data)
	}
	other := servetest.Tokenized(t, tokenizer.Bytes(), "") // another model with the same key
	if status, _, data := other.Do(http.MethodPut, "/v1/states/"+a.ID, string(file)); status != 200 {
		t.Fatalf("status %d: %s", status, data)
	}
	status, _, data := other.Do(http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"state":%q}`, a.ID))
	if status != 400 || !strings.Contains(string(data), "other_model") {
		t.Errorf("another model: status %d: %s", status, data)
	}
}

// TestStatesBelongToKeys checks that to another key, a state looks like one that does not exist, and that each key has
// its own limits.
func TestStatesBelongToKeys(t *testing.T) {
	alice, aliceSecret := serve.NewKey("alice", serve.ScopeAll)
	mallory, mallorySecret := serve.NewKey("mallory", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice, mallory}, MaxSessions: 2})
	s.Key = aliceSecret
	a, file := stateOf(s, "My secret")
	s.Key = mallorySecret
	nobody := strings.Repeat("0", 64)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/states/%s", ""}, {http.MethodHead, "/v1/states/%s", ""},
		{http.MethodDelete, "/v1/states/%s", ""}, {http.MethodPost, "/v1/sessions", `{"state":"%s"}`},
	} {
		fill := func(text, id string) string { return strings.ReplaceAll(text, "%s", id) }
		ask := func(id string) string {
			status, _, data := s.Do(c.method, fill(c.path, id), fill(c.body, id))
			return fmt.Sprint(status, strings.ReplaceAll(string(data), id, "ID"))
		}
		if got, want := ask(a.ID), ask(nobody); got != want || !strings.HasPrefix(got, "404") {
			t.Errorf("%s %s: got %s, want %s", c.method, c.path, got, want)
		}
	}
	if got := string(third(s.Do(http.MethodGet, "/v1/states", ""))); strings.Contains(got, a.ID) {
		t.Errorf("another key sees %s", got)
	}
	if status, _, data := s.Do(http.MethodPut, "/v1/states/"+a.ID, string(file)); status != 200 { // the key's own copy
		t.Errorf("status %d: %s", status, data)
	}
	for i, want := range []int{200, 403} { // one more is allowed, two are not
		x := servetest.Post[sessions.Session](s, "/v1/sessions", fmt.Sprintf(`{"text":"text %d"}`, i))
		status, _, data := s.Do(http.MethodPost, "/v1/states", fmt.Sprintf(`{"session":%q}`, x.ID))
		if status != want {
			t.Errorf("state %d: status %d: %s, want %d", i+2, status, data, want)
		}
	}
	s.Key = aliceSecret
	if status, _, _ := s.Do(http.MethodGet, "/v1/states/"+a.ID, ""); status != 200 {
		t.Errorf("alice's own: status %d", status)
	}
}

// TestStatesTakeTurns checks that states that arrive concurrently get no more space than those that arrive in sequence.
func TestStatesTakeTurns(t *testing.T) {
	from, to := servetest.NewSite(t, serve.Options{}), servetest.NewSite(t, serve.Options{MaxSessions: 2})
	var all sync.WaitGroup
	var stored atomic.Int32
	for i := range 6 {
		a, file := stateOf(from, fmt.Sprint("text ", i))
		all.Go(func() {
			switch status, _, data := to.Do(http.MethodPut, "/v1/states/"+a.ID, string(file)); status {
			case http.StatusOK:
				stored.Add(1)
			case http.StatusForbidden:
			default:
				t.Errorf("status %d: %s", status, data)
			}
		})
	}
	all.Wait()
	list := servetest.Decode[struct{ Data []sessions.State }](t, third(to.Do(http.MethodGet, "/v1/states", "")))
	if n := stored.Load(); n != 2 || len(list.Data) != 2 {
		t.Errorf("%d are stored, %d listed, want 2", n, len(list.Data))
	}
}

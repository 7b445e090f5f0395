package sessions_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// talk is a session on a server without a network connection.
type talk struct {
	t      *testing.T
	server *serve.Server
	id     string
}

// ask sends a request for the session, or one that creates it if it has no id yet.
func (x *talk) ask(method, path, body string) []byte {
	x.t.Helper()
	status, data := servetest.Ask(x.t.Context(), x.server, method, strings.TrimSuffix("/v1/sessions/"+x.id, "/")+path,
		body)
	if status != http.StatusOK {
		x.t.Fatalf("%s %s %s: status %d: %s", method, path, body, status, data)
	}
	return []byte(data)
}

// now returns the session as the server describes it.
func (x *talk) now() sessions.Session {
	x.t.Helper()
	return servetest.Decode[sessions.Session](x.t, x.ask(http.MethodGet, "", ""))
}

func (x *talk) append(text string) sessions.Session {
	x.t.Helper()
	return servetest.Decode[sessions.Session](x.t, x.ask(http.MethodPost, "/append", fmt.Sprintf(`{"text":%q}`, text)))
}

// reply returns a reply of 10 tokens.
func (x *talk) reply(seed int) sessions.Reply {
	x.t.Helper()
	return servetest.Decode[sessions.Reply](x.t, x.ask(http.MethodPost, "/generate",
		fmt.Sprintf(`{"max_tokens":10,"ignore_eos":true,"seed":%d}`, seed)))
}

// TestUnsavedSessionsOutliveTheirModels checks that a session whose changes could not be stored is complete after its
// model was unloaded and loaded again, with the same replies as an undisturbed one. It is stored if there is space,
// even if only for the text, when the model is unloaded or the server stops.
func TestUnsavedSessionsOutliveTheirModels(t *testing.T) {
	dir, lib := t.TempDir(), servetest.NewLibrary(t, "one")
	server := lib.Serve(t, serve.Options{Store: dir})
	shelf := &fullShelf{Backend: server.Sessions.Store().Backend}
	server.Sessions.Store().Backend = shelf
	x, calm := &talk{t: t, server: server}, &talk{t: t, server: lib.Serve(t, serve.Options{})}
	for _, one := range []*talk{x, calm} {
		one.id = servetest.Decode[sessions.Session](t, one.ask(http.MethodPost, "", `{"text":"Call me"}`)).ID
	}
	goes := func() {
		t.Helper()
		servetest.Ask(t.Context(), server, http.MethodPost, "/api/generate", `{"model":"one","keep_alive":0}`)
		for server.Host.Busy() {
			runtime.Gosched()
		}
	}
	same := func(of *talk, seed int, stored bool) {
		t.Helper()
		got, want := of.reply(seed), calm.reply(seed)
		if got.Text != want.Text || got.Session.Position != want.Session.Position ||
			(got.Session.StoreError == "") != stored {
			t.Errorf("got %q (%+v), want %q (%+v)", got.Text, got.Session, want.Text, want.Session)
		}
	}
	stored := func(position, files int) {
		t.Helper()
		other := &talk{t, lib.Serve(t, serve.Options{Store: dir}), x.id}
		if got := other.now(); got.Position != position || got.StoreError != "" {
			t.Errorf("another server finds %+v, want a text of %d", got, position)
		}
		states, err := filepath.Glob(filepath.Join(dir, "sessions", "all", "*"+sessions.StatesEnding))
		if err != nil || len(states) != files {
			t.Errorf("the states are in %q (%v), want %d files", states, err, files)
		}
	}
	x.append(" Ishmael")
	calm.append(" Ishmael")
	shelf.full.Store(true)
	same(x, 1, false)
	goes()
	if got := x.now(); got.Position != 25 || !strings.Contains(got.StoreError, "no space") {
		t.Errorf("without its model the session is %+v", got)
	}
	same(x, 2, false)
	if _, list := servetest.Ask(t.Context(), server, http.MethodGet, "/v1/sessions", ""); !strings.Contains(list,
		`"position":35`) {
		t.Errorf("the list is %s", list)
	}
	goes()
	stored(15, 1)
	same(x, 3, false)
	shelf.full.Store(false)
	goes()
	stored(45, 1)
	shelf.fullOfStates.Store(true)
	same(x, 4, false)
	goes()
	stored(55, 0)
	same(x, 5, false)
	server.Close()
	stored(65, 0)
	same(&talk{t, lib.Serve(t, serve.Options{Store: dir}), x.id}, 6, true)
	stored(75, 1)
}

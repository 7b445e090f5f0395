package serve_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	leases "github.com/hippo-ssm/hippo/serve/fleet"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
)

// TestFleetFollows checks that a background response can be followed, cancelled and deleted at another server while it
// is generated, and that the server that generates it then stops.
func TestFleetFollows(t *testing.T) {
	servers := newFleet(t, 2, serve.Options{})
	next, stopped := servetest.Stepped(servers.sites[0])
	stream := func(s *servetest.Site, method, path, body string) (*bufio.Reader, string) {
		r, err := s.Client().Do(s.Request(method, path, strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Body.Close() })
		lines := bufio.NewReader(r.Body)
		first := event(t, lines)
		return lines, servetest.Decode[struct{ Response openai.Response }](t, []byte(first)).Response.ID
	}
	for _, end := range []string{"done", "cancel", "delete"} {
		here, id := stream(servers.sites[0], http.MethodPost, "/v1/responses",
			`{"input":"Call me","max_output_tokens":4,"ignore_eos":true,"background":true,"stream":true}`)
		path := "/v1/responses/" + id
		there, _ := stream(servers.sites[1], http.MethodGet, path+"?stream=true", "")
		next <- true
		next <- true
		for text := ""; !strings.Contains(text, `"delta":"a"`); {
			text = event(t, there)
		}
		switch end {
		case "done":
			next <- true
			next <- true
		case "cancel":
			got := servetest.Post[openai.Response](servers.sites[1], path+"/cancel", "")
			if got.Status != "cancelled" || len(got.Output) != 1 {
				t.Errorf("it is cancelled as %s", servetest.Quoted(t, got))
			}
		case "delete":
			want(t, servers.sites[1], 200, http.MethodDelete, path, "")
		}
		if end != "done" {
			if err := <-stopped; !errors.Is(err, leases.ErrLost) {
				t.Errorf("%s: the server that makes it stops with %v", end, err)
			}
		}
		status := map[string]string{"done": "incomplete", "cancel": "cancelled", "delete": "cancelled"}[end]
		var last string
		for e := event(t, here); e != ""; e = event(t, here) {
			last = e
		}
		if want := `"type":"response.` + status + `"`; !strings.Contains(last, want) {
			t.Errorf("%s: the last event is %s, want %s", end, last, want)
		}
		seen := ""
		for e := event(t, there); e != ""; e = event(t, there) {
			seen = e
		}
		if end == "done" && seen != last || end == "cancel" && !strings.Contains(seen, `"type":"response.cancelled"`) {
			t.Errorf("%s: elsewhere the last event is %s, want %s", end, seen, last)
		}
		for _, s := range servers.sites {
			if end == "delete" {
				want(t, s, 404, http.MethodGet, path, "")
			} else if got := servetest.Fetch[openai.Response](s, http.MethodGet, path).Status; got != status {
				t.Errorf("%s: it is %s", end, got)
			}
		}
	}
}

// event reads the data of the next event, or "" at the end.
func event(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return ""
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return data
		}
	}
}

// TestFleetStopsWhatIsLost checks that a request stops when another server takes its session, since its result could
// not be stored.
func TestFleetStopsWhatIsLost(t *testing.T) {
	servers := newFleet(t, 2, serve.Options{})
	a, b := servers.sites[0], servers.sites[1]
	begun := make(chan bool, 1)
	a.Model.Runner = servetest.RunnerFunc(func(ctx context.Context, r *session.Request) error {
		if r.Next == nil {
			return session.Direct{}.Run(ctx, r)
		}
		begun <- true
		<-ctx.Done()
		return context.Cause(ctx)
	})
	path := "/v1/sessions/" + servetest.Post[sessions.Session](a, "/v1/sessions", `{"text":"Call me"}`).ID
	ended := make(chan string)
	go func() {
		_, _, data := a.Do(http.MethodPost, path+"/generate", drawn)
		ended <- string(data)
	}()
	select {
	case <-begun:
	case got := <-ended:
		t.Fatalf("the request ends with %s", got)
	}
	servers.views[0].Cut(true)
	servetest.WaitUntil(t, func() bool {
		status, _, _ := b.Do(http.MethodPost, path+"/append", `{"text":" Ahab"}`)
		return status == 200
	})
	servers.views[0].Cut(false)
	if got := <-ended; !strings.Contains(got, "used_elsewhere") {
		t.Errorf("the request ends with %s", got)
	}
	if n := servetest.Fetch[sessions.Session](b, http.MethodGet, path).Position; n != len("Call me Ahab") {
		t.Errorf("the session is at %d", n)
	}
}

// TestFleetBackgroundKeepsWhy checks that a background response whose conversation cannot be stored in the bucket fails
// with the reason.
func TestFleetBackgroundKeepsWhy(t *testing.T) {
	servers := newFleet(t, 1, serve.Options{})
	s := servers.sites[0]
	talk := servetest.Post[openai.Conversation](s, "/v1/conversations", `{}`).ID
	next, _ := servetest.Stepped(s)
	path := "/v1/responses/" + servetest.Post[openai.Response](s, "/v1/responses",
		`{"input":"x","max_output_tokens":1,"background":true,"conversation":"`+talk+`"}`).ID
	servers.views[0].Hook(func(what, name string) error {
		if what == "create" && strings.Contains(name, talk) {
			return errors.New("the bucket is full")
		}
		return nil
	}, nil)
	next <- true
	s.Hippo.Responses.Wait(t.Context())
	got := servetest.Fetch[openai.Response](s, http.MethodGet, path)
	if got.Status != "failed" || got.Error == nil || got.Error.Code != "store_unavailable" {
		t.Errorf("it is %s", servetest.Quoted(t, got))
	}
}

//go:build unix

package main

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// served is a hippo serve to which a test sends requests.
type served struct {
	*process
	t   *testing.T
	url string
}

// serveIn starts hippo serve in a folder.
func serveIn(t *testing.T, dir string, args ...string) *served {
	t.Helper()
	p := background(t, dir, append([]string{"serve", "run", "--listen", "127.0.0.1:0"}, args...)...)
	return &served{p, t, addressIn(p, `"address":"(http://127[^"]+)"`)}
}

// ask sends a POST request with a body, or a GET request if body is "". It returns the value in the response that the
// path of names leads to.
func (s *served) ask(path, body string, names ...string) any {
	s.t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	var v any
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %s (%v)", path, a.StatusCode, data, err)
	}
	for _, name := range names {
		if list, ok := v.([]any); ok {
			v = list[0]
		}
		v = v.(map[string]any)[name]
	}
	return v
}

// TestServeGoesOnFromItsStore checks that after an orderly end the next server has the text that the previous one has
// read, and reports where another text diverges from it. After kill -9 it still has sessions and responses, to the bit.
func TestServeGoesOnFromItsStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "2").wantEnd(0)
	// A chunk has 256 tokens. The tokens of this model are characters.
	long := strings.Repeat("Call me Ishmael. ", 40)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	prompt := string(quoted)
	complete := func(s *served, text string) map[string]any {
		return s.ask("/v1/completions", `{"max_tokens":1,"prompt":`+text+`}`, "usage",
			"prompt_tokens_details").(map[string]any)
	}
	s := serveIn(t, dir, "--store", "state", "--disk", "100")
	complete(s, prompt)
	s.signal(syscall.SIGTERM)
	s.wantEnd(0)

	s = serveIn(t, dir, "--store", "state")
	edited := strings.Replace(prompt, "Ishmael. Call me Ishmael. \"", "Ishmael. Call me. \"", 1)
	if got := complete(s, edited); got["cached_tokens"].(float64) < 256 ||
		!strings.HasPrefix(got["cache_miss"].(string), "edited at token") {
		t.Errorf("after a restart: %v", got)
	}
	response := s.ask("/v1/responses", `{"max_output_tokens":9,"input":`+prompt+`}`, "id").(string)
	session := s.ask("/v1/sessions", `{"text":`+prompt+`}`, "id").(string)
	fork := s.ask("/v1/sessions/"+session+"/fork", `{}`, "id").(string)
	const draw = `{"max_tokens":20,"seed":1,"ignore_eos":true}`
	want := s.ask("/v1/sessions/"+session+"/generate", draw, "text")
	after := `{"max_output_tokens":9,"seed":1,"input":"And then?","previous_response_id":"` + response + `"}`
	reply := s.ask("/v1/responses", after, "output", "content", "text")
	s.signal(syscall.SIGKILL)
	s.waitFor("the end", s.hasEnded)

	s = serveIn(t, dir, "--store", "state")
	if got := s.ask("/v1/sessions/"+fork+"/generate", draw, "text"); got != want {
		t.Errorf("after kill -9 the session goes on with %q, want %q", got, want)
	}
	if got := s.ask("/v1/responses", after, "output", "content", "text"); got != reply {
		t.Errorf("after kill -9 the response goes on with %q, want %q", got, reply)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "state", "*", "*", "*.tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q (%v)", left, err)
	}
}

// TestKilledServerLosesNoSession checks that after a server is killed, a session has every change that was acknowledged
// and at most one that was not, and that no other files are left.
func TestKilledServerLosesNoSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "2").wantEnd(0)
	s := serveIn(t, dir, "--store", "state")
	session := "/v1/sessions/" + s.ask("/v1/sessions", `{"text":"Call"}`, "id").(string)
	answered := 4.0
	for round := range 8 {
		var all sync.WaitGroup
		url, begun := s.url+session+"/append", make(chan struct{})
		all.Go(func() {
			once := sync.OnceFunc(func() { close(begun) })
			defer once()
			for {
				a, err := http.Post(url, "application/json", strings.NewReader(`{"text":"me"}`))
				if err != nil {
					return // the server was killed
				}
				var got struct{ Position float64 }
				err = json.NewDecoder(a.Body).Decode(&got)
				a.Body.Close()
				if err != nil {
					return
				}
				answered = got.Position
				once()
			}
		})
		<-begun
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		s.signal(syscall.SIGKILL)
		s.waitFor("the end", s.hasEnded)
		all.Wait()
		s = serveIn(t, dir, "--store", "state")
		found := s.ask(session+"?text=true", "").(map[string]any)
		position, text := found["position"].(float64), found["text"].(string)
		if position < answered || position > answered+2 || text != "Call"+strings.Repeat("me", int(position-4)/2) {
			t.Fatalf("round %d: found %v tokens, %q, want %v", round, position, text, answered)
		}
		answered = position
	}
	s.waitFor("a record and its states to be all that is left", func() bool { // the lock is removed after the response
		left, err := filepath.Glob(filepath.Join(dir, "state", "sessions", "all", "*"))
		return err == nil && len(left) == 2
	})
}

//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestServe checks that hippo serve accepts a key that hippo key made, and no other key. After SIGTERM it writes a
// running reply to its end, and ends with status 0.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "2").wantEnd(0)
	key := strings.TrimSpace(background(t, dir, "key", "alice", "--keys", "keys.txt").wantEnd(0))
	background(t, dir, "key", "alice", "--keys", "keys.txt").wantEnd(1)
	text, err := os.ReadFile(filepath.Join(dir, "keys.txt"))
	if err != nil || strings.Contains(string(text), key) || !strings.HasPrefix(string(text), "alice all ") {
		t.Errorf("the file of keys has %s (%v)", text, err)
	}
	p := background(t, dir, "serve", "whale=run", "--keys", "keys.txt", "--listen", "127.0.0.1:0")
	server := addressIn(p, `"address":"(http://127[^"]+)"`)
	url := server + "/v1/completions"

	shown := background(t, dir, "ps", "--server", server, "--key", key).wantEnd(0)
	if !regexp.MustCompile(`(?m)^name +weights .*\nwhale +\S+ [KM]iB .* in [45]`).MatchString(shown) {
		t.Errorf("hippo ps shows %s", shown)
	}
	if said := background(t, dir, "ps", "--server", server).wantEnd(1); !strings.Contains(said, "no API key") {
		t.Errorf("without a key hippo ps says %s", said)
	}
	background(t, dir, "stop", "whale:latest", "--server", server, "--key", key).wantEnd(0)
	p.waitFor("the model to go", func() bool {
		return background(t, dir, "ps", "--server", server, "--key", key).wantEnd(0) == "no models are loaded\n"
	})
	if said := background(t, dir, "stop", "shark", "--server", server, "--key", key).wantEnd(1); !strings.Contains(said,
		"404 Not Found: model: found \"shark\"") {
		t.Errorf("hippo stop says %s", said)
	}

	ask := func(key, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	if a := ask("hippo-x", "{}"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("another key has the status %d", a.StatusCode)
	}
	a := ask(key, `{"model":"whale","prompt":"Call me","max_tokens":2000,"stream":true,"ignore_eos":true}`)
	body := bufio.NewReader(a.Body)
	first, err := body.ReadString('\n')
	if err != nil || !strings.HasPrefix(first, "data: {") {
		t.Fatalf("the stream begins with %q (%v)", first, err)
	}
	p.signal(syscall.SIGTERM)
	rest, err := io.ReadAll(body)
	if err != nil || !strings.Contains(string(rest), `"finish_reason":"length"`) ||
		!strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %q (%v)", rest[max(0, len(rest)-200):], err)
	}
	if log := p.wantEnd(0); !strings.Contains(log, `"client":"alice"`) || strings.Contains(log, key) {
		t.Errorf("the log is\n%s", log)
	}
}

//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo"
)

// TestAudit checks that hippo audit computes a reply of hippo serve again and finds it equal to its receipt, on one
// core and at the level of the receipt. At another level or with another model its error tells what is needed. A state
// that the server has signed is accepted where its key is trusted.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "2").wantEnd(0)
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "other", "--train.steps", "1").wantEnd(0)
	book := strings.Repeat("Call me Ishmael. Some years ago, never mind how long. ", 12)
	if err := os.WriteFile(filepath.Join(dir, "book.txt"), []byte(book), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"book: ", "book has been read"} {
		said := background(t, dir, "read", "run", "book.txt", "--library", "texts").wantEnd(0)
		if !strings.Contains(said, want) {
			t.Errorf("hippo read --library: said %s, want %s", said, want)
		}
	}
	background(t, dir, "read", "run", "book.txt", "--library", "texts", "--name", "a/b").wantEnd(1)
	background(t, dir, "read", "run", "book.txt", "book.txt", "--name", "twice").wantEnd(1)
	own := strings.TrimSpace(background(t, dir, "session", "signer").wantEnd(0))
	p := background(t, dir, "serve", "whale=run", "--listen", "127.0.0.1:0", "--signing_key", "server.key",
		"--library", "texts", "--trust", own)
	server := addressIn(p, `"address":"(http://127[^"]+)"`)
	save := func(name, method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s (%v)", answer.StatusCode, data, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("reply.json", http.MethodPost, "/v1/completions", `{"prompt":"Call me","max_tokens":20,"n":2,"receipt":true}`)
	save("hash.json", http.MethodPost, "/v1/completions", `{"prompt":"Call me","max_tokens":3,"receipt":"hash"}`)
	audit := func(status int, want string, cpu string, args ...string) {
		t.Helper()
		cmd := command(dir, append([]string{"audit"}, args...)...)
		if cmd.Env = append(cmd.Env, "GOMAXPROCS=1"); cpu != "" {
			cmd.Env = append(cmd.Env, "HIPPO_CPU="+cpu)
		}
		if said := start(t, cmd).wantEnd(status); !strings.Contains(said, want) {
			t.Errorf("%v: said %s, want %s", args, said, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "prompt"), []byte("Call me"), 0o600); err != nil {
		t.Fatal(err)
	}
	save("mounted.json", http.MethodPost, "/v1/chat/completions",
		`{"mount":["book"],"messages":[{"role":"user","content":"Who?"}],"max_tokens":5,"receipt":true}`)
	audit(0, "; computed from the state ", "", "mounted.json", "--model", "run", "--state", "texts/book.session")
	audit(0, "equal: 5 tokens", "", "mounted.json", "--model", "run")
	audit(1, "texts/book.txt: it is damaged", "", "mounted.json", "--model", "run", "--state", "texts/book.txt")
	background(t, dir, "session", "rm", "book", "--store", "texts").wantEnd(0)
	if _, err := os.Stat(filepath.Join(dir, "texts", "book.txt")); err == nil {
		t.Error("the text is still there")
	}
	audit(0, "equal: 20 tokens of whale, float32, ", "", "reply.json", "--model", "run")
	audit(1, "--prompt names a file", "", "hash.json", "--model", "run")
	audit(0, "equal: 3 tokens", "", "hash.json", "--model", "run", "--prompt", "prompt")
	audit(1, "of another model: found ", "", "reply.json", "--model", "other")
	audit(1, "token 1 differs", "", "reply.json", "--model", "other", "--anyway")
	audit(1, "--trust ed25519:", "", "reply.json", "--model", "run", "--trust", "ed25519:"+strings.Repeat("0", 64))
	if level, err := hippo.CPULevel(); err == nil && level != "generic" {
		audit(1, "computes with generic: set HIPPO_CPU=", "generic", "reply.json", "--model", "run")
		if strings.HasPrefix(level, "avx512bf16") { // integer products are exact with any instructions
			audit(0, "equal: 20 tokens", "avx512+bf16", "reply.json", "--model", "run")
		}
	}

	save("session", http.MethodPost, "/v1/sessions", `{"text":"Call me"}`)
	text, err := os.ReadFile(filepath.Join(dir, "session"))
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Split(string(text), `"`)[3]
	save("a.session", http.MethodGet, "/v1/sessions/"+id+"/export", "")
	said := background(t, dir, "session", "verify", "a.session").wantEnd(1)
	_, key, _ := strings.Cut(said, "--trust ")
	key, _, _ = strings.Cut(key, " ")
	if !strings.HasPrefix(key, "ed25519:") || !strings.Contains(said, "a key that you do not trust") {
		t.Fatalf("said %s", said)
	}
	background(t, dir, "session", "import", "a.session", "mine").wantEnd(1)
	background(t, dir, "session", "import", "a.session", "mine", "--trust", key).wantEnd(0)
	background(t, dir, "session", "verify", "a.session", "--trust", key).wantEnd(0)
}

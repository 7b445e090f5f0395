//go:build unix

package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// addressIn waits until a server has printed the address at which it listens, and returns the address.
func addressIn(p *process, pattern string) string {
	p.t.Helper()
	address := regexp.MustCompile(pattern)
	p.waitFor("the address", func() bool { return address.MatchString(p.said.String()) })
	return address.FindStringSubmatch(p.said.String())[1]
}

// manager is a service manager that receives the states of a program.
type manager struct {
	path string
	conn *net.UnixConn
}

func newManager(t *testing.T, dir string) *manager {
	t.Helper()
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &manager{path, conn}
}

// want waits for the next state, which must be word.
func (m *manager) want(t *testing.T, word string) {
	t.Helper()
	text := make([]byte, 1000)
	n, err := m.conn.Read(text)
	if got := strings.TrimSpace(string(text[:n])); err != nil || got != word {
		t.Fatalf("the manager is told %q (%v), want %q", got, err, word)
	}
}

// TestServeOperations checks that variables set flags, that SIGHUP makes the server read keys and certificate again
// while a stream continues, and that it keeps the old ones with an error if the new ones are wrong. Metrics and
// profiles are served at the admin address. systemd is notified.
func TestServeOperations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "2").wantEnd(0)
	alice := strings.TrimSpace(background(t, dir, "key", "alice", "--keys", "keys.txt", "--rpm", "60").wantEnd(0))
	writeTestCertificate(t, dir)
	m := newManager(t, dir)
	cmd := command(dir, "serve", "run", "--listen", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.path, "HIPPO_SERVE_KEYS=keys.txt", "HIPPO_SERVE_ADMIN=127.0.0.1:0",
		"HIPPO_SERVE_TLS_CERT=cert.pem", "HIPPO_SERVE_TLS_KEY=key.pem", "HIPPO_SERVE_LISTEN=not used",
		"HIPPO_SERVE_SHARE_CACHE=true")
	p := start(t, cmd)
	url := addressIn(p, `"address":"(https://127[^"]+)"`)
	admin := addressIn(p, `"address":"(http://127[^"]+)"`)
	m.want(t, "READY=1")
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}}
	ask := func(key, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Body.Close() })
		return a
	}
	stream := ask(alice, `{"prompt":"Call me","max_tokens":16000,"stream":true,"ignore_eos":true}`)
	if stream.StatusCode != http.StatusOK || stream.Header.Get("X-Ratelimit-Remaining-Requests") != "59" {
		t.Errorf("the stream has status %d, %v", stream.StatusCode, stream.Header)
	}
	bob := strings.TrimSpace(background(t, dir, "key", "bob", "--keys", "keys.txt").wantEnd(0))
	if a := ask(bob, "{}"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a key that is new has status %d before SIGHUP", a.StatusCode)
	}
	const short = `{"prompt":"a","max_tokens":1}`
	reload := func() {
		t.Helper()
		p.signal(syscall.SIGHUP)
		m.want(t, "RELOADING=1")
		m.want(t, "READY=1")
	}
	reload()
	if a := ask(bob, short); a.StatusCode != http.StatusOK {
		t.Errorf("a key that is new has status %d after SIGHUP", a.StatusCode)
	}
	if got := ask(alice, short).Header.Get("X-Hippo-Cache"); got != "cached=1, read=0" {
		t.Errorf("with --share-cache a key finds %q of what another has sent", got)
	}
	background(t, dir, "key", "revoke", "bob", "--keys", "keys.txt").wantEnd(0)
	reload()
	if a := ask(bob, short); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a key that was taken back has status %d", a.StatusCode)
	}
	for _, name := range []string{"keys.txt", "cert.pem"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("nonsense\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	if a := ask(alice, short); a.StatusCode != http.StatusOK {
		t.Errorf("after files that are wrong a key has status %d", a.StatusCode)
	}
	if said := p.said.String(); !strings.Contains(said, "what could not be read again is as it was") ||
		!strings.Contains(said, "keys.txt: line 1") || !strings.Contains(said, "cert.pem") {
		t.Errorf("the log does not tell of files that are wrong:\n%s", said)
	}
	if _, err := stream.Body.Read(make([]byte, 1)); err != nil {
		t.Errorf("the stream has ended: %v", err)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/heap", "/ready"} {
		a, err := http.Get(admin + path)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != http.StatusOK {
			t.Errorf("%s has status %d", path, a.StatusCode)
		}
	}
	stream.Body.Close()
	p.signal(syscall.SIGTERM)
	m.want(t, "STOPPING=1")
	p.wantEnd(0)
}

// TestSecondSignal checks that a second SIGTERM ends a server at once, even if requests are running.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := setUp(dir); err != nil {
		t.Fatal(err)
	}
	background(t, dir, "train", "--config", "tiny.yaml", "--out", "run", "--train.steps", "2").wantEnd(0)
	p := background(t, dir, "serve", "run", "--listen", "127.0.0.1:0", "--drain_delay", "1h", "--grace", "1h")
	url := addressIn(p, `"address":"(http://127[^"]+)"`)
	p.signal(syscall.SIGTERM)
	p.waitFor("the delay", func() bool { return strings.Contains(p.said.String(), `"delay":"1h0m0s"`) })
	a, err := http.Get(url + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/ready has status %d", a.StatusCode)
	}
	p.signal(syscall.SIGTERM)
	p.wantEnd(130)
}

// TestKeyCommands checks that keys are listed with their limits and scopes and can be revoked, and that mistakes are
// reported.
func TestKeyCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(status int, args ...string) string {
		t.Helper()
		return background(t, dir, append([]string{"key"}, args...)...).wantEnd(status)
	}
	run(0, "alice", "--keys", "k", "--rpm", "5", "--tpm", "7", "--expires", "2099-12-31", "--scopes", "models,metrics")
	run(0, "bob", "--keys", "k")
	list := run(0, "list", "--keys", "k")
	for _, want := range []string{`alice +models,metrics +5 +7 +2099-12-31`, `bob +all +any +any +never`} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("the list has no %s:\n%s", want, list)
		}
	}
	run(0, "revoke", "alice", "--keys", "k")
	if list := run(0, "list", "--keys", "k"); strings.Contains(list, "alice") || !strings.Contains(list, "bob") {
		t.Errorf("after alice was taken back:\n%s", list)
	}
	for _, args := range [][]string{
		{"revoke", "alice", "--keys", "k"}, {"list"}, {"list", "--keys", "none"}, {"c", "--keys", "k", "--rpm", "-1"},
		{"c", "--keys", "k", "--expires", "soon"}, {"c", "--keys", "k", "--scopes", "none"},
	} {
		run(1, args...)
	}
	if info, err := os.Stat(filepath.Join(dir, "k")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of keys: %v, %v", info, err)
	}
	keys, err := readKeys(filepath.Join(dir, "k"))
	if err != nil || len(keys) != 1 || keys[0].Name != "bob" {
		t.Errorf("the file has the keys %v (%v)", keys, err)
	}
}

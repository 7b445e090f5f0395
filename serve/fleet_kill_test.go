package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// fleetEnv is the environment variable with the bucket of a server process that will be killed.
const fleetEnv = "HIPPO_TEST_FLEET"

// process is a server of a fleet in its own process.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	url string
}

func start(t *testing.T, bucket string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledFleet$")
	cmd.Env = append(os.Environ(), fleetEnv+"="+bucket)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, e := fmt.Sscanf(line, "at %s", &p.url); e != nil {
		t.Fatalf("found %q (%v)", line, err)
	}
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.in.Close()
	p.cmd.Wait()
}

// TestKilledFleet checks that when three processes share a folder and are killed at random moments while clients use
// them, each session has everything that was answered, once and in order, and continues with the bits of its text read
// again.
func TestKilledFleet(t *testing.T) {
	if url := os.Getenv(fleetEnv); url != "" {
		b, err := store.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		s, err := serve.New(serve.Options{Bucket: b, Term: term, Signer: servetest.Signer}, servetest.Model(t, "tiny"))
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s)
		fmt.Println("at", web.URL)
		io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}
	const servers, clients, kills = 3, 3, 8
	bucket := "file://" + t.TempDir() + "/fleet"
	var mu sync.Mutex
	all := make([]*process, servers)
	for i := range all {
		all[i] = start(t, bucket)
	}
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	send := func(path, body string) (int, []byte) {
		mu.Lock()
		url := all[rng.IntN(servers)].url
		mu.Unlock()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil // killed
		}
		defer a.Body.Close()
		data, err := io.ReadAll(a.Body)
		if err != nil {
			return 0, nil
		}
		return a.StatusCode, data
	}
	type client struct {
		path   string
		tokens []string
		status []int
	}
	done := make(chan struct{})
	talks := make([]client, clients)
	var talking sync.WaitGroup
	var answered atomic.Int64
	for i := range talks {
		status, data := send("/v1/sessions", `{"text":"Begin."}`)
		if status != 200 {
			t.Fatalf("status %d: %s", status, data)
		}
		talks[i].path = "/v1/sessions/" + servetest.Decode[sessions.Session](t, data).ID
	}
	talks[1].path = talks[0].path // two clients at once on one session
	for i := range talks {
		talking.Go(func() {
			c := &talks[i]
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				token := fmt.Sprintf("(%d-%d)", i, n)
				status, data := send(c.path+"/append", `{"text":"`+token+`"}`)
				c.tokens, c.status = append(c.tokens, token), append(c.status, status)
				if status == 200 {
					answered.Add(1)
				}
				if status != 0 && status != 200 && status != 409 && status != 503 {
					t.Errorf("status %d: %s", status, data)
				}
				send(c.path+"/generate", `{"max_tokens":2,"ignore_eos":true}`)
			}
		})
	}
	for range kills {
		mu.Lock()
		i, pause := rng.IntN(servers), time.Duration(rng.IntN(150))*time.Millisecond
		mu.Unlock()
		time.Sleep(pause)
		all[i].kill() // possibly during a request
		p := start(t, bucket)
		mu.Lock()
		all[i] = p
		mu.Unlock()
	}
	servetest.WaitUntil(t, func() bool { return answered.Load() >= kills }) // this takes longer on a slow machine
	close(done)
	talking.Wait()
	m := servetest.Model(t, "tiny")
	for i, c := range talks {
		var data []byte
		for status := 0; status != 200; time.Sleep(term / 4) { // until the leases of the killed servers have expired
			status, _ = send(c.path+"/mark", `{"name":"end"}`)
		}
		r, err := http.Get(all[0].url + c.path + "/export")
		if err == nil {
			data, err = io.ReadAll(r.Body)
			r.Body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := session.Decode(data, m.Net, m.Tokenizer, session.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, from := string(x.Text()), 0
		for j, token := range c.tokens {
			at := strings.Index(text[from:], token)
			switch {
			case c.status[j] == 200 && at < 0:
				t.Errorf("client %d: %s was answered and is lost, or out of order", i, token)
			case c.status[j] == 409 && at >= 0:
				t.Errorf("client %d: %s was refused and is there", i, token)
			case strings.Count(text, token) > 1:
				t.Errorf("client %d: %s is there twice", i, token)
			}
			if at >= 0 {
				from += at
			}
		}
		again, err := session.From(m.Net, m.Tokenizer, session.Options{}, session.Text{Plan: x.Segments()})
		if err != nil {
			t.Fatal(err)
		}
		status, data := send(c.path+"/generate", drawn)
		if status != 200 {
			t.Fatalf("status %d: %s", status, data)
		}
		got := servetest.Decode[sessions.Reply](t, data)
		o := m.Defaults(5)
		o.Seed, o.IgnoreEnd = 3, true
		if i == 1 { // the session includes what client 0 generated last
			continue
		}
		written := ""
		for p, err := range again.Generate(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			written += string(p.Text)
		}
		if got.Text != written {
			t.Errorf("client %d: the session goes on with %q, read again with %q", i, got.Text, written)
		}
	}
	t.Logf("%d kills, %d answers", kills, answered.Load())
}

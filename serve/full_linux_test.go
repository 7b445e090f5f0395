package serve_test

import (
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// fullEnv is set in the process of TestFullDisk, in which no file can grow.
const fullEnv = "HIPPO_TEST_FULL_DISK"

// TestFullDisk checks that if no file can be written, as on a full disk, sessions and files can still be read, changes
// of sessions continue in memory and report it, and other writes get a 507. Nothing that was stored is lost.
func TestFullDisk(t *testing.T) {
	if os.Getenv(fullEnv) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestFullDisk$")
		cmd.Env = append(os.Environ(), fullEnv+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	o := serve.Options{Store: filepath.Join(dir, "state"), Files: batch.Options{Dir: filepath.Join(dir, "files")}}
	s := servetest.NewSite(t, o)
	one := servetest.Post[sessions.Session](s, "/v1/sessions", `{"text":"Call me"}`)
	file := s.Sent(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"a"}}` + "\n")
	answer := servetest.Post[openai.Response](s, "/v1/responses", `{"input":"x","max_output_tokens":1}`)
	signal.Ignore(syscall.SIGXFSZ) // writes then fail with an error
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	path := "/v1/sessions/" + one.ID
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{http.MethodGet, path, "", 200, `"position":7`},
		{http.MethodGet, path + "?text=true", "", 200, `"text":"Call me"`},
		{http.MethodGet, "/v1/sessions", "", 200, one.ID},
		{http.MethodGet, path + "/export", "", 200, "hippo session"},
		{http.MethodPost, path + "/score", `{"endings":["a"]}`, 200, `"logprobs":[-`},
		{http.MethodPost, path + "/append", `{"text":" Ishmael"}`, 200, `"store_error":"store `},
		{http.MethodPost, path + "/generate", `{"max_tokens":1,"ignore_eos":true}`, 200, `"position":16`},
		{http.MethodPost, "/v1/sessions", `{"text":"a"}`, 507, "could not be stored"},
		{http.MethodPost, path + "/fork", `{}`, 507, "could not be stored"},
		{http.MethodPut, "/v1/library/a", `{"text":"` + strings.Repeat("Call me Ishmael. ", 20) + `"}`, 507,
			"could not be stored"},
		{http.MethodGet, "/v1/responses/" + answer.ID, "", 200, answer.ID},
		{http.MethodPost, "/v1/responses", `{"input":"x","max_output_tokens":1}`, 200, `"store_error"`},
		{http.MethodGet, "/v1/files", "", 200, file},
		{http.MethodGet, "/v1/files/" + file + "/content", "", 200, `"custom_id":"a"`},
		{http.MethodPost, "/v1/batches", `{"input_file_id":"` + file +
			`","endpoint":"/v1/completions","completion_window":"24h"}`, 507, "takes no more data"},
	} {
		if status, _, data := s.Do(c.method, c.path, c.body); status != c.status ||
			!strings.Contains(string(data), c.want) {
			t.Errorf("%s %s: status %d: %.400s, want %d: %s", c.method, c.path, status, data, c.status, c.want)
		}
	}
	if status, data := s.Upload(map[string]string{"purpose": "batch"}, "x"); status != 507 ||
		!strings.Contains(string(data), "takes no more data") {
		t.Errorf("a new file: status %d: %s", status, data)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 40, Max: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	got := servetest.Post[sessions.Session](s, path+"/append", `{"text":"."}`)
	if got.Position != 17 || got.StoreError != "" {
		t.Errorf("with space again the session is %+v", got)
	}
	o.Files.Dir = ""
	if next := servetest.Fetch[sessions.Session](servetest.NewSite(t, o), http.MethodGet, path); next.Position != 17 {
		t.Errorf("the next server finds %+v", next)
	}
}

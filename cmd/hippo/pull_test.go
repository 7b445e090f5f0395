package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// scriptHub is the script command "hub [-token TOKEN] NAME=DIR...". It starts a hub whose models are the files in
// folders, and sets HF_ENDPOINT to its address.
func scriptHub(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: hub [-token TOKEN] NAME=DIR...")
	}
	h := hubtest.New(ts.Defer)
	if args[0] == "-token" {
		h.Token, args = args[1], args[2:]
	}
	for _, arg := range args {
		name, dir, _ := strings.Cut(arg, "=")
		paths, err := filepath.Glob(filepath.Join(ts.MkAbs(dir), "*"))
		ts.Check(err)
		files := hubtest.Files{}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			ts.Check(err)
			files[filepath.Base(path)] = content
		}
		h.Repos[name] = hubtest.Repo{"main": files}
	}
	ts.Setenv("HF_ENDPOINT", h.URL)
}

// slowHub is a hub whose first response with the weights of org/model stops in the middle.
type slowHub struct {
	*hubtest.Hub
	weights []byte
	half    int
	dir     string // folder in which programs run
}

func newSlowHub(t *testing.T) *slowHub {
	t.Helper()
	s := &slowHub{Hub: hubtest.New(t.Cleanup), weights: bytes.Repeat([]byte("weights "), 1<<16), dir: t.TempDir()}
	s.half = len(s.weights) / 2
	s.Repos["org/model"] = hubtest.Repo{"main": {"config.json": []byte("{}"), "model.pt": s.weights}}
	var asked atomic.Int32
	s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "model.pt") || asked.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(s.weights)))
		w.Write(s.weights[:s.half])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	return s
}

// pull starts hippo pull.
func (s *slowHub) pull(t *testing.T) *process {
	t.Helper()
	cmd := command(s.dir, "pull", "org/model")
	cmd.Env = append(cmd.Env, "HF_ENDPOINT="+s.URL)
	return start(t, cmd)
}

// blob returns the path at which the weights will be stored.
func (s *slowHub) blob() string {
	return filepath.Join(s.dir, ".cache", "huggingface", "hub", "models--org--model", "blobs",
		hubtest.Sum("model.pt", s.weights))
}

// hasHalf reports whether half of the weights are on the disk.
func (s *slowHub) hasHalf() bool {
	info, err := os.Stat(s.blob() + ".incomplete")
	return err == nil && info.Size() == int64(s.half)
}

// goesOn checks that the next pull fetches only the other half.
func (s *slowHub) goesOn(t *testing.T) {
	t.Helper()
	s.pull(t).wantEnd(0)
	got, err := os.ReadFile(s.blob())
	if err != nil || !bytes.Equal(got, s.weights) {
		t.Errorf("found %d bytes (%v), want %d that are the same", len(got), err, len(s.weights))
	}
	var asked []string
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.URL.Path, "model.pt") {
			asked = append(asked, r.Header.Get("Range"))
		}
	}
	if want := fmt.Sprintf("bytes=%d-", s.half); len(asked) != 2 || asked[1] != want {
		t.Errorf("asked for the ranges %q, want all and then %s", asked, want)
	}
}

// TestKilledPullGoesOn kills a pull in the middle of a file and checks that the next pull continues it.
func TestKilledPullGoesOn(t *testing.T) {
	t.Parallel()
	s := newSlowHub(t)
	p := s.pull(t)
	p.waitFor("half of the weights", s.hasHalf)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if !s.hasHalf() {
		t.Error("what had come is gone")
	}
	s.goesOn(t)
}

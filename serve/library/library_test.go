package library

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/convert"
	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// modelOfWidth writes a model over bytes with the given width and random weights to a folder, and returns the size of
// the weights in bytes.
func modelOfWidth(t *testing.T, dir string, width int, seed uint64) int {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.DState, c.DInner = width, 256, "mamba*2", 4, 2*width
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(seed)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{m.Save(dir), tokenizer.Bytes().Save(dir)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return m.Bytes()
}

// librarian is a server of models in this process.
type librarian struct {
	*serve.Server
	t *testing.T
}

func newLibrarian(t *testing.T, o Options, names ...string) librarian {
	t.Helper()
	o.Precision, o.Texts, o.Log = "float32", 8<<20, slog.New(slog.DiscardHandler)
	o.Models = names
	lib, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Options{Library: lib.Host()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := s.Unload(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return librarian{s, t}
}

// ask sends a request and checks its status.
func (l librarian) ask(want int, method, path, body string) string {
	l.t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(l.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	l.ServeHTTP(w, r)
	if w.Code != want {
		l.t.Errorf("%s %s: status %d, %s, want %d", path, body, w.Code, w.Body, want)
	}
	return w.Body.String()
}

// reply returns a model's text after "Call me".
func (l librarian) reply(name string) string {
	l.t.Helper()
	text := l.ask(http.StatusOK, http.MethodPost, "/v1/completions", fmt.Sprintf(
		`{"model":%q,"prompt":"Call me","max_tokens":4,"temperature":0,"echo":true,"logprobs":1}`, name))
	var a struct{ Choices []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) != 1 {
		l.t.Fatalf("%s: %s", name, text)
	}
	return string(a.Choices[0])
}

// TestServeWhatChangesOnTheDisk checks that a loaded model answers as before when its files are truncated or removed.
// One that is not loaded is refused with the reason, and loaded when the files are complete again.
func TestServeWhatChangesOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	modelOfWidth(t, one, 64, 1)
	modelOfWidth(t, two, 64, 2)
	l := newLibrarian(t, Options{KeepAlive: -1}, one, two)
	before := l.reply("one")
	if other := l.reply("two"); other == before {
		t.Error("two models have the same reply")
	}
	weights := filepath.Join(one, model.WeightsFile)
	if err := os.Truncate(weights, 1000); err != nil {
		t.Fatal(err)
	}
	if got := l.reply("one"); got != before {
		t.Errorf("after the file was cut off: got %s, want %s", got, before)
	}
	l.ask(http.StatusOK, http.MethodPost, "/api/generate", `{"model":"one","keep_alive":0}`)
	text := l.ask(http.StatusInternalServerError, http.MethodPost, "/api/generate", `{"model":"one"}`)
	if !strings.Contains(text, "cannot be loaded") || !strings.Contains(text, model.WeightsFile) {
		t.Errorf("a model that is cut off: %s", text)
	}
	text = l.ask(http.StatusInternalServerError, http.MethodPost, "/api/show", `{"model":"one"}`)
	if !strings.Contains(text, model.WeightsFile) {
		t.Errorf("a model that is cut off is shown: %s", text)
	}
	modelOfWidth(t, one, 64, 1)
	if got := l.reply("one"); got != before {
		t.Errorf("after it was made whole: got %s, want %s", got, before)
	}
	if err := os.RemoveAll(one); err != nil {
		t.Fatal(err)
	}
	if got := l.reply("one"); got != before {
		t.Errorf("after it was removed: got %s, want %s", got, before)
	}
}

// TestServeFileThatIsCutOffWhileItIsLoaded checks that truncating a file during a load at worst fails the load.
func TestServeFileThatIsCutOffWhileItIsLoaded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "one")
	modelOfWidth(t, dir, 256, 1)
	weights := filepath.Join(dir, model.WeightsFile)
	whole, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	l := newLibrarian(t, Options{KeepAlive: 0}, dir)
	const tries = 20
	var took time.Duration // the longest load so far
	failed, loaded := 0, 0
	for i := range tries {
		if err := os.WriteFile(weights, whole, 0o666); err != nil {
			t.Fatal(err)
		}
		began, cut := time.Now(), make(chan error)
		wait := took * time.Duration(i) / tries
		go func() {
			if i == 0 {
				cut <- nil // only to measure the time
				return
			}
			time.Sleep(wait)
			cut <- os.Truncate(weights, int64(len(whole)*(i%4)/4))
		}()
		switch err := l.Preload(t.Context(), "one"); {
		case err == nil:
			loaded++
			took = max(took, time.Since(began))
		case strings.Contains(err.Error(), "cannot be loaded"):
			failed++
		default:
			t.Error(err)
		}
		if err := <-cut; err != nil {
			t.Fatal(err)
		}
	}
	if loaded == 0 || failed+loaded != tries {
		t.Errorf("%d loads failed and %d did not, of %d", failed, loaded, tries)
	}
}

// TestServePublishedModels checks that without names all models of the cache are served, and that clients can use and
// delete models that they may fetch.
func TestServePublishedModels(t *testing.T) {
	dir := t.TempDir()
	modelOfWidth(t, filepath.Join(dir, "m"), 64, 1)
	files := hubtest.Files{}
	for _, name := range []string{model.ConfigFile, model.WeightsFile, "tokenizer.json"} {
		content, err := os.ReadFile(filepath.Join(dir, "m", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = content
	}
	h := hubtest.New(t.Cleanup)
	h.Repos["org/Model"] = hubtest.Repo{"main": files}
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HUB_CACHE", filepath.Join(dir, "cache"))
	l := newLibrarian(t, Options{KeepAlive: 5 * time.Minute, Pull: true})
	plain := newLibrarian(t, Options{KeepAlive: 5 * time.Minute})
	l.ask(http.StatusNotFound, http.MethodPost, "/api/generate", `{"model":"org/model"}`)
	plain.ask(http.StatusForbidden, http.MethodPost, "/api/pull", `{"model":"org/Model"}`)
	said := l.ask(http.StatusOK, http.MethodPost, "/api/pull", `{"model":"hf.co/org/Model:latest"}`)
	first, last := `{"status":"pulling manifest"}`, `{"status":"success"}`+"\n"
	if !strings.HasPrefix(said, first) || !strings.HasSuffix(said, last) || !strings.Contains(said, `"completed"`) {
		t.Errorf("the pull said %s", said)
	}
	for name, want := range map[string]int{
		"org/none": http.StatusNotFound, "org/Model:nowhere": http.StatusNotFound,
		"org/Model:Q8_0": http.StatusNotFound,
		"../etc/passwd":  http.StatusBadRequest, "a b": http.StatusBadRequest, "": http.StatusBadRequest,
	} {
		for _, stream := range []string{"", `,"stream":false`} {
			l.ask(want, http.MethodPost, "/api/pull", fmt.Sprintf(`{"model":%q%s}`, name, stream))
		}
	}
	want := newLibrarian(t, Options{KeepAlive: 5 * time.Minute}, filepath.Join(dir, "m")).reply("m")
	if got := l.reply("ORG/model:latest"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if tags := l.ask(http.StatusOK, http.MethodGet, "/api/tags", ""); !strings.Contains(tags, `"name":"org/Model"`) ||
		!strings.Contains(tags, `"format":"safetensors"`) {
		t.Errorf("the models are %s", tags)
	}
	l.ask(http.StatusOK, http.MethodDelete, "/api/delete", `{"model":"org/Model"}`)
	l.ask(http.StatusNotFound, http.MethodPost, "/api/generate", `{"model":"org/Model"}`)
	if left, err := filepath.Glob(filepath.Join(dir, "cache", "models--*")); err != nil || len(left) > 0 {
		t.Errorf("on the disk is left %q (%v)", left, err)
	}
}

// TestServeWithinItsMemory checks that models that do not fit together are loaded in turn, with the same replies as
// when all are loaded, and that one that does not fit at all is refused with the memory that it needs.
func TestServeWithinItsMemory(t *testing.T) {
	dir := t.TempDir()
	var paths, names []string
	var size int
	for i, name := range []string{"one", "two", "three"} {
		paths, names = append(paths, filepath.Join(dir, name)), append(names, name)
		size = modelOfWidth(t, paths[i], 256, uint64(i))
	}
	mib := size>>20 + 1
	all := newLibrarian(t, Options{KeepAlive: 5 * time.Minute, Memory: int64(3*mib) << 20}, paths...)
	one := newLibrarian(t, Options{KeepAlive: 5 * time.Minute, Memory: int64(mib) << 20}, paths...)
	for range 2 {
		for _, name := range names {
			if got, want := one.reply(name), all.reply(name); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
	loaded := func(l librarian) int {
		t.Helper()
		var a ollama.Loaded
		if err := json.Unmarshal([]byte(l.ask(http.StatusOK, http.MethodGet, "/api/ps", "")), &a); err != nil {
			t.Fatal(err)
		}
		return len(a.Models)
	}
	if n, m := loaded(one), loaded(all); n != 1 || m != 3 {
		t.Errorf("loaded are %d, and %d where there is room, want 1 and 3", n, m)
	}
	small := newLibrarian(t, Options{KeepAlive: 5 * time.Minute, Memory: 1 << 20}, paths...)
	said := small.ask(http.StatusServiceUnavailable, http.MethodPost, "/api/generate", `{"model":"one"}`)
	if !strings.Contains(said, fmt.Sprintf("needs about %d MiB", size>>20)) || !strings.Contains(said, "has 1 MiB") {
		t.Errorf("a model that is too large: %s", said)
	}
	lib, err := Open(Options{Models: paths, Precision: "float32", Memory: int64(2*mib) << 20, Preload: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = lib.Preload(t.Context(), one.Preload)
	if err == nil || !strings.Contains(err.Error(), "want more --max_memory") {
		t.Errorf("three models in the memory of two: %v", err)
	}
}

// TestWeightsAreEstimated checks that the estimated memory of a model is about what it takes when loaded, in each
// precision and from files of integers.
func TestWeightsAreEstimated(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	modelOfWidth(t, plain, 256, 1)
	small := filepath.Join(dir, "small")
	if _, err := convert.Quantize(t.Context(), plain, small, convert.QuantizeOptions{Bits: 4}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, precision string }{
		{plain, hippo.Stored}, {plain, "float32"}, {plain, "bf16"}, {plain, "int8"}, {plain, "int4"},
		{plain, "int4min"}, {small, hippo.Stored},
	} {
		lib, err := Open(Options{Models: []string{c.path}, Precision: c.precision})
		if err != nil {
			t.Fatal(err)
		}
		m, err := hippo.Load(c.path, hippo.Precision(c.precision))
		if err != nil {
			t.Fatal(err)
		}
		info, err := lib.describe(filepath.Base(c.path), c.path)
		if ratio := float64(info.Memory) / float64(m.Net().Bytes()); err != nil || ratio < 0.7 || ratio > 1.5 {
			t.Errorf("%s as %s: %d bytes are expected, %d taken; %v", c.path, c.precision, info.Memory,
				m.Net().Bytes(), err)
		}
	}
}

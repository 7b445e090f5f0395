package library

import (
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/convert"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/serve/ollama"
)

// adapterOf writes an adapter of a model with changes determined by seed, and returns its folder.
func adapterOf(t *testing.T, base, name string, seed uint64) string {
	t.Helper()
	m, err := hippo.Load(base)
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.Net().Adapt(model.AdapterShape{Rank: 2, Alpha: 4})
	if err != nil {
		t.Fatal(err)
	}
	a.Init(seed)
	for _, c := range a.Changes {
		x := make([]float32, c.B.Len())
		for i := range x {
			x[i] = float32(math.Sin(float64(i) + float64(seed)))
		}
		c.B.CopyFrom(x)
	}
	dir := filepath.Join(t.TempDir(), name)
	about := release.Adapter{Name: base, Path: base, Weights: m.Net().WeightsFingerprint(), Rank: 2, Alpha: 4}
	err = convert.WriteFolder(dir, func(dir string) error {
		return release.SaveAdapter(dir, m.Net(), about, nil)
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestServeAdapters checks that adapters are served as models beside their base model. Their replies are bit-identical
// to those of each served alone, for any number of concurrent requests, and the base weights are in memory once.
func TestServeAdapters(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	size := modelOfWidth(t, base, 256, 1)
	letters, poems := adapterOf(t, base, "letters", 2), adapterOf(t, base, "poems", 3)
	want := map[string]string{}
	for name, path := range map[string]string{"base": base, "base:letters": letters, "base:verse": poems} {
		l := newLibrarian(t, Options{KeepAlive: 5 * time.Minute}, path)
		want[name] = l.reply(filepath.Base(path))
		for other, text := range want {
			if other != name && text == want[name] {
				t.Errorf("%s and %s have the same reply", name, other)
			}
		}
	}
	mib := size>>20 + 2
	l := newLibrarian(t, Options{KeepAlive: 5 * time.Minute, Memory: int64(mib) << 20,
		Adapters: []string{letters, "base:verse=" + poems}}, base)
	var all sync.WaitGroup
	for i := range 12 {
		name := []string{"base", "base:letters", "base:verse"}[i%3]
		all.Go(func() {
			if got := l.reply(name); got != want[name] {
				t.Errorf("%s: got %s, want %s", name, got, want[name])
			}
		})
	}
	all.Wait()
	listed := l.ask(http.StatusOK, http.MethodGet, "/v1/models", "")
	var ps ollama.Loaded
	if err := json.Unmarshal([]byte(l.ask(http.StatusOK, http.MethodGet, "/api/ps", "")), &ps); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, m := range ps.Models {
		total += m.Weights
		if !strings.Contains(listed, `"id":"`+m.Name+`"`) {
			t.Errorf("%s is not among the models: %s", m.Name, listed)
		}
	}
	if len(ps.Models) != 3 || total > int64(size)+1<<20 {
		t.Errorf("%d models are loaded, of %d bytes, want 3 of little more than %d", len(ps.Models), total, size)
	}
	l.ask(http.StatusOK, http.MethodPost, "/api/show", `{"model":"base:letters"}`)
	l.ask(http.StatusNotFound, http.MethodPost, "/api/generate", `{"model":"base:none"}`)

	// A model's adapters are unloaded before it, and loaded again with it.
	l.ask(http.StatusOK, http.MethodPost, "/api/generate", `{"model":"base","keep_alive":0}`)
	if got := l.reply("base:letters"); got != want["base:letters"] {
		t.Errorf("after the model had gone: %s", got)
	}
}

// TestServeAdaptersWithinTheMemory checks that a model and its adapters make space for another model, and come back
// later.
func TestServeAdaptersWithinTheMemory(t *testing.T) {
	dir := t.TempDir()
	base, other := filepath.Join(dir, "base"), filepath.Join(dir, "other")
	size := modelOfWidth(t, base, 256, 1)
	modelOfWidth(t, other, 256, 2)
	o := Options{KeepAlive: -1, Memory: int64(size>>20+2) << 20}
	o.Adapters = []string{"base:one=" + adapterOf(t, base, "one", 2), "base:two=" + adapterOf(t, base, "two", 3)}
	l := newLibrarian(t, o, base, other)
	names := []string{"base:one", "other", "base:two", "base", "other"}
	want := map[string]string{}
	for range 2 {
		for _, name := range names {
			got := l.reply(name)
			if want[name] == "" {
				want[name] = got
			}
			if got != want[name] {
				t.Errorf("%s: got %s, want %s", name, got, want[name])
			}
		}
	}
	var all sync.WaitGroup
	for i := range 15 {
		all.Go(func() {
			if got := l.reply(names[i%len(names)]); got != want[names[i%len(names)]] {
				t.Errorf("%s: got %s", names[i%len(names)], got)
			}
		})
	}
	all.Wait()
}

package library

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAdaptersComeAndGo checks that an adapter added while the server runs has the same replies as one that was there
// from the start, while others are used, and that a removed one is gone and its name free.
func TestAdaptersComeAndGo(t *testing.T) {
	dir := t.TempDir()
	base, box := filepath.Join(dir, "base"), filepath.Join(dir, "box")
	modelOfWidth(t, base, 16, 1)
	if err := os.MkdirAll(box, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, seed := range map[string]uint64{"letters": 2, "poems": 3} {
		if err := os.CopyFS(filepath.Join(box, name), os.DirFS(adapterOf(t, base, name, seed))); err != nil {
			t.Fatal(err)
		}
	}
	first := newLibrarian(t, Options{KeepAlive: time.Minute,
		Adapters: []string{"letters=" + filepath.Join(box, "letters"), "poems=" + filepath.Join(box, "poems")}}, base)
	letters, poems, plain := first.reply("base:letters"), first.reply("base:poems"), first.reply("base")
	if letters == poems || letters == plain {
		t.Fatalf("the replies are %q, %q and %q", letters, poems, plain)
	}
	l := newLibrarian(t, Options{KeepAlive: time.Minute, AdapterDir: box}, base)
	add := func(name, path, more string) string {
		return l.ask(http.StatusOK, http.MethodPost, "/v1/load_lora_adapter",
			fmt.Sprintf(`{"lora_name":%q,"lora_path":%q%s}`, name, path, more))
	}
	remove := func(name string) {
		l.ask(http.StatusOK, http.MethodPost, "/v1/unload_lora_adapter", fmt.Sprintf(`{"lora_name":%q}`, name))
	}
	reply := func(name, want string) {
		t.Helper()
		if got := l.reply(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := add("x", "letters", ""); got != "Success: LoRA adapter 'x' added successfully." {
		t.Errorf("got %q", got)
	}
	add("base:y", filepath.Join(box, "poems"), "")
	reply("x", letters)
	reply("base:y", poems)
	reply("base", plain)
	if got := l.ask(http.StatusOK, http.MethodGet, "/lora-adapters", ""); strings.TrimSpace(got) !=
		`[{"id":0,"path":"x","scale":0},{"id":1,"path":"base:y","scale":0}]` {
		t.Errorf("got %s", got)
	}
	add("x", "poems", `,"load_inplace":true,"base_model_name":"base"`)
	reply("x", poems)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { reply("base", plain) })
		all.Go(func() {
			remove("x")
			add("x", "letters", "")
		})
		all.Wait()
		reply("x", letters)
	}
	remove("base:y")
	l.ask(http.StatusNotFound, http.MethodPost, "/v1/completions", `{"model":"base:y","prompt":"a"}`)
	l.ask(http.StatusNotFound, http.MethodPost, "/v1/unload_lora_adapter", `{"lora_name":"base:y"}`)

	// Paths stay in the folder, and errors do not reveal what is elsewhere.
	if err := os.Symlink(filepath.Join(dir, "base"), filepath.Join(box, "out")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"../base", base, "out", "", "none", "/etc/passwd", "letters\x00", box, strings.Repeat("../", 4000) + "x",
	} {
		data, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		got := l.ask(http.StatusBadRequest, http.MethodPost, "/v1/load_lora_adapter",
			fmt.Sprintf(`{"lora_name":"z","lora_path":%s}`, data))
		if !strings.Contains(got, "lora_path: found") || !strings.Contains(got, "want an adapter in the folder") {
			t.Errorf("%.60q: got %s", path, got)
		}
	}
	for fields, want := range map[string]string{
		`"lora_name":"x"`: "lora_name: found", `"lora_name":"base","load_inplace":true`: "lora_name: found",
		`"lora_name":""`: "lora_name: found", `"lora_name":"a b"`: "lora_name: found",
		`"lora_name":"a","base_model_name":"none"`:       "base_model_name: found",
		`"lora_name":"a","base_model_name":"x"`:          "base_model_name: found", // an adapter of an adapter
		`"lora_name":"` + strings.Repeat("n", 201) + `"`: "lora_name: found",
	} {
		got := l.ask(http.StatusBadRequest, http.MethodPost, "/v1/load_lora_adapter",
			`{"lora_path":"letters",`+fields+`}`)
		if !strings.Contains(got, want) {
			t.Errorf("%.60s: got %s", fields, got)
		}
	}
	l.ask(http.StatusNotFound, http.MethodPost, "/v1/unload_lora_adapter", `{"lora_name":"base"}`)
}

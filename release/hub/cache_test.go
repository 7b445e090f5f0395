package hub

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// list lists a cache, without paths and times.
func list(t *testing.T, c Cache) []string {
	t.Helper()
	entries, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range entries {
		if age := time.Since(e.Pulled); age < -time.Minute || age > time.Hour {
			t.Errorf("%s was pulled %v ago", e.Name, age)
		}
		if _, err := os.Stat(e.Path); err != nil {
			t.Error(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %d %s %d %s", e.Name, e.Family, e.Parameters, e.Precision, e.Bytes,
			e.Problem))
	}
	slices.Sort(lines)
	return lines
}

func wantList(t *testing.T, c Cache, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := list(t, c); !slices.Equal(got, want) {
		t.Errorf("list:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestList lists models of all kinds by what their headers say.
func TestList(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	h.Repos[testRepo]["v1"] = hubtest.Files{"config.json": []byte(`{"architectures": ["MambaForCausalLM"]}`),
		"model.safetensors": weights(t, 10, 2)}
	quantised := hubtest.Files{"x-F16.gguf": ggufFile(t, 640), "x-F32.gguf": ggufFile(t, 64), "README.md": nil}
	h.Repos["org/gguf"] = hubtest.Repo{MainRevision: quantised}
	h.Repos["pickled"] = hubtest.Repo{MainRevision: {"config.json": []byte(`{"d_model": 8}`),
		"pytorch_model.bin": []byte("never opened")}}
	c := client(t, h, "")
	wantList(t, c.Cache)
	mustPull(t, c, testRepo)
	mustPull(t, c, testRepo+":v1")
	mustPull(t, c, "org/gguf:F16")
	mustPull(t, c, "pickled")
	v1 := fmt.Sprintf("org/model:v1 MambaForCausalLM 10 F32 %d ", 39+len(weights(t, 10, 2)))
	wantList(t, c.Cache, "org/model mamba 50000 F32 200115 ", v1,
		fmt.Sprintf("org/gguf mamba 640 F16 %d ", len(quantised["x-F16.gguf"])), "pickled  0  26 ")

	mustPull(t, c, "org/gguf:F32") // now the name alone does not tell which
	for _, name := range []string{"pickled", testRepo} {
		remove(t, c.Cache, name)
	}
	wantList(t, c.Cache,
		fmt.Sprintf("org/gguf:x-F16.gguf mamba 640 F16 %d ", len(quantised["x-F16.gguf"])),
		fmt.Sprintf("org/gguf:x-F32.gguf mamba 64 F16 %d ", len(quantised["x-F32.gguf"])))
}

// TestListOfWhatIsNotWhole shows what a pull left that was broken off, and what cannot be read.
func TestListOfWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	h, _ := brokenHub(t, 1000, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 1000)
		cut(w)
	})
	c := client(t, h, "")
	if _, err := pull(t, c, testRepo); err == nil {
		t.Fatal("no error")
	}
	wantList(t, c.Cache, "org/model  0  1000 incomplete: hippo pull org/model resumes it")
	h.Intercept = nil
	found := mustPull(t, c, testRepo)
	path := filepath.Join(found.Dir, "model.safetensors")
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	lines := list(t, c.Cache)
	if len(lines) != 1 || !strings.Contains(lines[0], "model.safetensors") {
		t.Errorf("list: %q, want one that says what is wrong", lines)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	lines = list(t, c.Cache)
	if len(lines) != 1 || !strings.Contains(lines[0], "is incomplete") {
		t.Errorf("list: %q, want one that says what is wrong", lines)
	}
}

// TestShow tells what a configuration and a .gguf file say, without vocabularies.
func TestShow(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	files["x-F16.gguf"] = ggufFile(t, 64)
	files["config.json"] = []byte(`{"model_type": "mamba", "hidden_size": 8, "long": "` +
		strings.Repeat("x", 300) + `"}`)
	c := client(t, newHub(t, files), "")
	mustPull(t, c, testRepo)
	mustPull(t, c, testRepo+":F16")
	s, err := c.Cache.Show(mustParse(t, testRepo))
	if err != nil || s.Said["hidden_size"] != 8.0 || s.Said["long"] != nil ||
		len(s.Files) != 3 || s.Parameters != 50_000 {
		t.Errorf("shown: %+v (%v)", s, err)
	}
	s, err = c.Cache.Show(mustParse(t, testRepo+":F16"))
	if err != nil || s.Said["general.architecture"] != "mamba" || len(s.Files) != 1 || s.Family != "mamba" {
		t.Errorf("shown: %+v (%v)", s, err)
	}
}

func remove(t *testing.T, c Cache, name string) *Removal {
	t.Helper()
	plan, err := c.PlanRemoval(mustParse(t, name))
	if err == nil {
		err = plan.Remove()
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestRemoveKeepsWhatOthersUse removes a revision, a file, and the rest.
func TestRemoveKeepsWhatOthersUse(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	files["x-F16.gguf"] = ggufFile(t, 64)
	h := newHub(t, files)
	old := modelFiles(t)
	old["tokenizer.json"] = []byte(`{"old": true}`)
	h.Repos[testRepo]["old"] = old
	c := client(t, h, "")
	mustPull(t, c, testRepo)
	mustPull(t, c, testRepo+":F16")
	before := tree(t, c.Cache.Dir)
	mustPull(t, c, testRepo+":old")

	if p := remove(t, c.Cache, testRepo+":old"); p.Files != 3 || p.Bytes != int64(len(old["tokenizer.json"])) {
		t.Errorf("removed %d files and %d bytes, want 3 and those of the file of its own", p.Files, p.Bytes)
	}
	after := slices.DeleteFunc(tree(t, c.Cache.Dir), func(s string) bool {
		return strings.Contains(s, hubtest.Sum("tokenizer.json", old["tokenizer.json"])+".lock")
	})
	if !slices.Equal(before, after) {
		t.Errorf("left:\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}

	if p := remove(t, c.Cache, testRepo+":F16"); p.Files != 1 || p.Bytes != int64(len(files["x-F16.gguf"])) {
		t.Errorf("removed %d files and %d bytes, want one", p.Files, p.Bytes)
	}
	if _, err := c.Cache.Find(mustParse(t, testRepo+":F16")); err == nil {
		t.Error("it is still found")
	}
	found, err := c.Cache.Find(mustParse(t, testRepo))
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, found, "model.safetensors", files["model.safetensors"])

	if p := remove(t, c.Cache, testRepo); p.Files != 3 {
		t.Errorf("removed %d files, want 3", p.Files)
	}
	if left := tree(t, c.Cache.Dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	_, err = c.Cache.PlanRemoval(mustParse(t, testRepo))
	wantError(t, err, "no model org/model")
}

// TestRemoveStaysInside leaves alone what a link in a snapshot leads to outside of its repository.
func TestRemoveStaysInside(t *testing.T) {
	t.Parallel()
	c := client(t, newHub(t, modelFiles(t)), "")
	found := mustPull(t, c, testRepo)
	mine := filepath.Join(t.TempDir(), "mine.txt")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o666),
		os.Symlink(mine, filepath.Join(found.Dir, "link.bin")),
		os.Symlink(filepath.Dir(mine), filepath.Join(found.Dir, "folder"))); err != nil {
		t.Fatal(err)
	}
	remove(t, c.Cache, testRepo+":"+found.Commit)
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(found.Dir); err == nil {
		t.Error("the snapshot is still there")
	}
}

// TestRemoveDuringPull refuses to take a model away while it is fetched.
func TestRemoveDuringPull(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan bool), make(chan bool)
	h, files := brokenHub(t, 1, func(w http.ResponseWriter, r *http.Request, content []byte) {
		sendPart(w, content, 1000)
		close(began)
		<-goOn
		w.Write(content[1000:])
	})
	c := client(t, h, "")
	done := make(chan error, 1)
	go func() {
		_, err := pull(t, c, testRepo)
		done <- err
	}()
	<-began
	plan, err := c.Cache.PlanRemoval(mustParse(t, testRepo))
	if err == nil {
		err = plan.Remove()
	}
	wantError(t, err, "another program is downloading it")
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	found, err := c.Cache.Find(mustParse(t, testRepo))
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, found, "model.safetensors", files["model.safetensors"])
}

// TestCacheOfTheEnvironment finds the cache and the token where the hub's tools have them.
func TestCacheOfTheEnvironment(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_TOKEN",
		"HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home) // of Windows
	want := func(dir, token string) {
		t.Helper()
		c, err := FromEnvironment()
		if err != nil || c.Cache.Dir != dir || c.token != token {
			t.Errorf("found %+v (%v), want the cache %s and the token %s", c, err, dir, token)
		}
	}
	standard := filepath.Join(home, ".cache", "huggingface")
	want(filepath.Join(standard, "hub"), "")
	if err := errors.Join(os.MkdirAll(standard, 0o777),
		os.WriteFile(filepath.Join(standard, "token"), []byte("hf_file\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	want(filepath.Join(standard, "hub"), "hf_file")
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "hf_old")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "xdg"))
	want(filepath.Join(home, "xdg", "huggingface", "hub"), "hf_old")
	t.Setenv("HF_TOKEN", " hf_new\n")
	t.Setenv("HF_HOME", "~/hf")
	want(filepath.Join(home, "hf", "hub"), "hf_new")
	t.Setenv("HF_HUB_CACHE", filepath.Join(home, "elsewhere"))
	want(filepath.Join(home, "elsewhere"), "hf_new")
	for name, value := range map[string]string{"HF_TOKEN": "two words", "HF_ENDPOINT": "ftp://x",
		"HF_HUB_DOWNLOAD_TIMEOUT": "soon", "HF_HUB_OFFLINE": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if c, err := FromEnvironment(); err == nil {
				t.Errorf("%s=%s gives %+v, want an error", name, value, c)
			} else if strings.Contains(err.Error(), "two words") {
				t.Errorf("the error %q shows the token", err)
			}
		})
	}
}

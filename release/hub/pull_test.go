package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

// TestPullMakesTheHubsLayout pulls a model. The cache is laid out as the hub documents it, and holds what is needed and
// nothing else.
func TestPullMakesTheHubsLayout(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	c := client(t, h, "")
	found := mustPull(t, c, testRepo)
	commit := hubtest.Commit(files)
	var want []string
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		sum := hubtest.Sum(name, files[name])
		want = append(want, fmt.Sprintf("models--org--model/blobs/%s %d", sum, len(files[name])),
			fmt.Sprintf("models--org--model/snapshots/%s/%s -> ../../blobs/%s", commit, name, sum))
		wantContent(t, found, name, files[name])
	}
	wantTree(t, c, append(want, "models--org--model/refs/main 40")...)
	ref, err := os.ReadFile(filepath.Join(c.Cache.Dir, "models--org--model", "refs", "main"))
	if string(ref) != commit {
		t.Errorf("refs/main is %q (%v), want %s", ref, err, commit)
	}
	lock := filepath.Join(c.Cache.Dir, ".locks", "models--org--model", hubtest.Sum("config.json",
		files["config.json"])+".lock")
	if _, err := os.Stat(lock); err != nil {
		t.Error(err)
	}
	again, err := c.Cache.Find(mustParse(t, testRepo))
	if err != nil || again.Path() != found.Dir || found.Path() != found.Dir {
		t.Errorf("found %s (%v), want the folder %s", again.Path(), err, found.Dir)
	}

	before := len(h.Requests())
	mustPull(t, c, testRepo)
	if n := len(h.Requests()) - before; n != 1 {
		t.Errorf("a second pull makes %d requests, want that for the list alone", n)
	}
}

// TestPullOfAChangedModel shows that a new commit shares what has not changed, and that the old one stays.
func TestPullOfAChangedModel(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	h.Repos[testRepo]["old"] = files
	c := client(t, h, "")
	old := mustPull(t, c, testRepo)
	next := modelFiles(t)
	next["config.json"] = []byte(`{"model_type": "mamba", "hidden_size": 16}`)
	h.Repos[testRepo][MainRevision] = next
	before := len(h.Requests())
	found := mustPull(t, c, testRepo)
	if n := len(h.Requests()) - before; n != 2 {
		t.Errorf("%d requests, want the list and the file that has changed", n)
	}
	wantContent(t, found, "config.json", next["config.json"])
	wantContent(t, found, "model.safetensors", next["model.safetensors"])
	wantContent(t, old, "config.json", files["config.json"])
	if back := mustPull(t, c, testRepo+":old"); back.Dir != old.Dir {
		t.Errorf("the revision old is in %s, want %s", back.Dir, old.Dir)
	}
	if byCommit := mustPull(t, c, testRepo+":"+old.Commit); byCommit.Dir != old.Dir {
		t.Errorf("the commit is in %s, want %s", byCommit.Dir, old.Dir)
	}
}

// TestPartOfAModelKeepsTheRest pulls another file of a changed repository: what was pulled before stays usable by its
// name, as far as it has not changed.
func TestPartOfAModelKeepsTheRest(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	files["model-Q8_0.gguf"] = ggufFile(t, 64)
	h := newHub(t, files)
	c := client(t, h, "")
	mustPull(t, c, testRepo)
	files["README.md"] = []byte("changed")
	one := mustPull(t, c, testRepo+":Q8_0")
	if want := filepath.Join(one.Dir, "model-Q8_0.gguf"); one.Path() != want {
		t.Errorf("path %s, want %s", one.Path(), want)
	}
	whole, err := c.Cache.Find(mustParse(t, testRepo))
	if err != nil || whole.Path() != one.Dir || whole.Commit != hubtest.Commit(files) {
		t.Errorf("found %s (%v), want the folder %s", whole.Path(), err, one.Dir)
	}
	wantContent(t, whole, "model.safetensors", files["model.safetensors"])
}

// TestForceFetchesAgain replaces a content that was spoilt on the disk.
func TestForceFetchesAgain(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	c := client(t, newHub(t, files), "")
	found := mustPull(t, c, testRepo)
	spoilt := make([]byte, len(files["model.safetensors"]))
	if err := os.WriteFile(c.Cache.repo(testRepo).blob(hubtest.Sum("model.safetensors", files["model.safetensors"])),
		spoilt, 0o666); err != nil {
		t.Fatal(err)
	}
	plan, err := c.Plan(context.Background(), mustParse(t, testRepo))
	if err == nil {
		_, err = c.Pull(context.Background(), plan, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, found, "model.safetensors", files["model.safetensors"])
}

// TestWithoutLinks puts the files themselves in their places, as Python's tools do.
func TestWithoutLinks(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	c := client(t, h, "")
	c.Cache.symlink = func(string, string) error { return errors.ErrUnsupported }
	found := mustPull(t, c, testRepo)
	prefix := "models--org--model/snapshots/" + found.Commit + "/"
	wantTree(t, c, "models--org--model/refs/main 40",
		fmt.Sprintf("%sconfig.json %d", prefix, len(files["config.json"])),
		fmt.Sprintf("%stokenizer.json %d", prefix, len(files["tokenizer.json"])),
		fmt.Sprintf("%smodel.safetensors %d", prefix, len(files["model.safetensors"])))
	before := len(h.Requests())
	mustPull(t, c, testRepo)
	if n := len(h.Requests()) - before; n != 1 {
		t.Errorf("a second pull makes %d requests, want that for the list alone", n)
	}
	removal, err := c.Cache.PlanRemoval(mustParse(t, testRepo))
	if err == nil {
		err = removal.Remove()
	}
	if err != nil {
		t.Fatal(err)
	}
	wantTree(t, c)
}

// TestTwoPullsAtOnce pulls one name by two clients at the same time. Every content is fetched once.
func TestTwoPullsAtOnce(t *testing.T) {
	t.Parallel()
	files := modelFiles(t)
	h := newHub(t, files)
	began, waits := make(chan bool, 10), make(chan bool)
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/resolve/") && strings.HasSuffix(r.URL.Path, "model.safetensors") {
			began <- true
			<-waits
		}
		return false
	}
	a := client(t, h, "")
	b := client(t, h, "")
	b.Cache = a.Cache
	b.Watch.Note = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "model.safetensors: waiting for another program") {
			close(waits) // only now the first may go on
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := pull(t, a, testRepo); err != nil {
			t.Error(err)
		}
	})
	<-began
	found := mustPull(t, b, testRepo)
	group.Wait()
	wantContent(t, found, "model.safetensors", files["model.safetensors"])
	fetched := 0
	for _, r := range h.Requests() {
		if strings.Contains(r.URL.Path, "/resolve/") {
			fetched++
		}
	}
	if fetched != 3 {
		t.Errorf("%d files were fetched, want each of three once", fetched)
	}
}

// TestIndex fetches the files of an index, and no others.
func TestIndex(t *testing.T) {
	t.Parallel()
	a, b := weights(t, 10, 1), weights(t, 20, 2)
	files := hubtest.Files{
		"config.json": []byte(`{}`),
		"model.safetensors.index.json": []byte(`{"weight_map": {"a": "model-00001-of-00002.safetensors",
			"b": "model-00002-of-00002.safetensors"}}`),
		"model-00001-of-00002.safetensors": a,
		"model-00002-of-00002.safetensors": b,
		"consolidated.safetensors":         weights(t, 30, 3),
	}
	h := newHub(t, files)
	c := client(t, h, "")
	found := mustPull(t, c, testRepo)
	if len(found.Weights) != 2 || len(found.Files) != 4 || found.Path() != found.Dir {
		t.Errorf("found %q, path %s", found.Files, found.Path())
	}
	if _, err := os.Stat(filepath.Join(found.Dir, "consolidated.safetensors")); err == nil {
		t.Error("consolidated.safetensors is there, which the index does not name")
	}
	if err := os.Remove(filepath.Join(found.Dir, "model-00002-of-00002.safetensors")); err != nil {
		t.Fatal(err)
	}
	_, err := c.Cache.Find(mustParse(t, testRepo))
	wantError(t, err, "is incomplete", "model-00002-of-00002.safetensors", "hippo pull org/model")
	var missing *NotCachedError
	if !errors.As(err, &missing) {
		t.Errorf("error %T, want a NotCachedError", err)
	}
}

// TestPathsStayInside gives names that lead out of the cache: in the list, in an index, and as the hub's commit.
func TestPathsStayInside(t *testing.T) {
	t.Parallel()
	hostile := []string{"../../../evil.safetensors", "/etc/evil.safetensors", `..\evil.safetensors`, "a/../../b.gguf",
		"C:evil.safetensors", "evil\x1b[2J.safetensors", "evil\n.gguf", "", ".", "..", "a//b.bin", "./a.bin",
		"a\x00.bin",
		strings.Repeat("x", 2000) + ".gguf", "bad\xff.gguf", "a/", "a\u202eb.gguf"}
	for _, name := range hostile {
		if isSafePath(name) {
			t.Errorf("%q is taken for a path", name)
		}
	}
	files := hubtest.Files{"config.json": []byte(`{}`)}
	for _, name := range hostile {
		files[name] = []byte("evil")
	}
	c := client(t, newHub(t, files), "")
	_, err := pull(t, c, testRepo)
	wantError(t, err, "found no weights", fmt.Sprint(len(hostile), " names of files were refused"))
	if strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("the error %q has control characters", err)
	}
	wantTree(t, c)

	for _, name := range []string{"../../x.safetensors", "/x.safetensors", "config.json", "sub/missing.safetensors"} {
		files := hubtest.Files{"config.json": []byte(`{}`), "model.safetensors.index.json": fmt.Appendf(nil,
			`{"weight_map": {"a": %q}}`, name)}
		c := client(t, newHub(t, files), "")
		_, err := pull(t, c, testRepo)
		wantError(t, err, "names missing files", name)
		wantTree(t, c)
	}

	h := newHub(t, modelFiles(t))
	h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, `{"sha": "../../../../tmp", "siblings": []}`)
		return true
	}
	c = client(t, h, "")
	_, err = pull(t, c, testRepo)
	wantError(t, err, "40 hexadecimal digits")
	wantTree(t, c)
}

// TestSumsThatAreNoSums refuses a list whose checksums could name other files, or are missing.
func TestSumsThatAreNoSums(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("a", 40)
	for _, file := range []string{
		`{"rfilename": "a.gguf", "size": 1, "blobId": "../../../evil"}`,
		`{"rfilename": "a.gguf", "size": 1}`,
		`{"rfilename": "a.gguf", "blobId": "` + commit + `"}`,
		`{"rfilename": "a.gguf", "size": -5, "blobId": "` + commit + `"}`,
		`{"rfilename": "a.gguf", "size": 1, "blobId": "` + commit + `", "lfs": {"size": 1, "sha256": "../x"}}`,
	} {
		h := newHub(t, nil)
		h.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprintf(w, `{"sha": %q, "siblings": [%s]}`, commit, file)
			return true
		}
		c := client(t, h, "")
		_, err := pull(t, c, testRepo)
		wantError(t, err, "a.gguf", "to check it by")
		wantTree(t, c)
	}
}

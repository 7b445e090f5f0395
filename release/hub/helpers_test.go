package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/hubtest"
)

const testRepo = "org/model"

// weights is a safetensors file with one tensor of n numbers, which depend on the seed.
func weights(t testing.TB, n int, seed uint64) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	values := make([]float32, n)
	for i := range values {
		values[i] = rng.Float32()
	}
	var out bytes.Buffer
	x := checkpoint.NewTensor("w", []int{n}, values)
	if err := checkpoint.WriteSafetensors(&out, []checkpoint.Tensor{x}, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// ggufFile is a file of llama.cpp with one tensor of n numbers.
func ggufFile(t testing.TB, n int) []byte {
	t.Helper()
	x, err := checkpoint.ConvertTensor("w", checkpoint.F16, []int{n}, make([]float32, n))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	said := []checkpoint.GGUFValue{{Key: "general.architecture", Value: "mamba"}}
	if err := checkpoint.WriteGGUF(&out, said, []checkpoint.Tensor{x}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// modelFiles returns the files of a small model, and some that are not needed.
func modelFiles(t testing.TB) hubtest.Files {
	return hubtest.Files{
		"config.json":          []byte(`{"model_type": "mamba", "hidden_size": 8}`),
		"tokenizer.json":       []byte(`{}`),
		"model.safetensors":    weights(t, 50_000, 1),
		"pytorch_model.bin":    []byte("the same again"),
		"README.md":            []byte("# A model"),
		"onnx/model.onnx":      []byte("another form"),
		"training_args.bin":    []byte("no weights"),
		"adapter/config.json":  []byte(`{}`),
		"runs/events.tfevents": []byte("curves"),
	}
}

// newHub starts a hub with a model under testRepo.
func newHub(t testing.TB, files hubtest.Files) *hubtest.Hub {
	h := hubtest.New(t.Cleanup)
	h.Repos[testRepo] = hubtest.Repo{MainRevision: files}
	return h
}

// client returns a client of a hub with an empty cache, which does not wait long.
func client(t testing.TB, h *hubtest.Hub, token string) *Client {
	t.Helper()
	c, err := NewClient(h.URL, token, Cache{Dir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	c.wait = time.Millisecond
	return c
}

func mustParse(t testing.TB, text string) Name {
	t.Helper()
	n, err := ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pull plans and runs a pull.
func pull(t testing.TB, c *Client, name string) (Found, error) {
	t.Helper()
	plan, err := c.Plan(context.Background(), mustParse(t, name))
	if err != nil {
		return Found{}, err
	}
	return c.Pull(context.Background(), plan, false)
}

func mustPull(t testing.TB, c *Client, name string) Found {
	t.Helper()
	found, err := pull(t, c, name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantError checks the text of an error.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// tree lists a cache: paths of files with their sizes, and links with their targets.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		what := fmt.Sprint(info.Size())
		if target, err := os.Readlink(path); err == nil {
			what = "-> " + filepath.ToSlash(target)
		}
		found = append(found, filepath.ToSlash(rel)+" "+what)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// wantTree checks the contents of a cache without locks.
func wantTree(t testing.TB, c *Client, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(tree(t, c.Cache.Dir), func(s string) bool { return strings.HasPrefix(s, locksDir) })
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("cache:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantContent checks a file of a model.
func wantContent(t testing.TB, found Found, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(found.Dir, name))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: found %d bytes (%v), want %d that are the same", name, len(got), err, len(want))
	}
}

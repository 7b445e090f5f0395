package task

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// putFile writes a file under dir and creates its folders. The file is compressed if its name ends in gz.
func putFile(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, "gz") {
		content = gzipped(t, content)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// openTask opens a task with options modified by set. It returns the error.
func openTask[O any](t *testing.T, task *Task, dir string, set func(o *O)) (*Set, error) {
	t.Helper()
	o := task.Options()
	if set != nil {
		set(o.(*O))
	}
	return task.Open(t.Context(), dir, o)
}

// wantError fails unless err contains all of the texts.
func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("found the error %v, want one with %q", err, text)
		}
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	for _, task := range []*Task{SMNIST, PSMNIST, Digits, ECG, DNA, ETTh1, ETTh2, Text,
		Retrieval, Image, Pathfinder, PathX} {
		_, err := task.Open(t.Context(), t.TempDir(), task.Options())
		wantError(t, err, "task "+task.Name, "found none of", "https://")
	}
}

func TestDamagedGzip(t *testing.T) {
	dir := t.TempDir()
	whole := gzipped(t, bytes.Repeat([]byte("some text "), 1000))
	from := origin{task: "x"}
	if err := os.WriteFile(filepath.Join(dir, "cut.gz"), whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "not.gz"), []byte("plain text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cut.gz", "not.gz"} {
		err := from.read(filepath.Join(dir, name), func(r io.Reader) error {
			_, err := new(bytes.Buffer).ReadFrom(r)
			return err
		})
		wantError(t, err, "task x", name)
	}
}

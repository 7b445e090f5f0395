package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/disktest"
)

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q, %v, want %q", path, got, err, want)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"first", "second, which replaces it", ""} {
		if err := WriteFile(path, writes(text)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, path, text)
		disktest.WantFiles(t, dir, "file")
	}
}

// diskFull is a disk with room for left more bytes.
type diskFull struct {
	w    io.Writer
	left int
}

func (d *diskFull) Write(p []byte) (int, error) {
	n, err := d.w.Write(p[:min(len(p), d.left)])
	d.left -= n
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestWriteFileDiskFull checks WriteFile on a disk that gets full after any number of bytes. The file is larger than
// the buffer.
func TestWriteFileDiskFull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := WriteFile(path, writes("old")); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 3<<20)
	for _, room := range []int{0, 1, 1 << 20, 3<<20 - 1} {
		err := writeFile(path, writes(text), func(f *os.File) io.Writer { return &diskFull{f, room} })
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("with room for %d bytes: %v, want %v", room, err, syscall.ENOSPC)
		}
		for _, want := range []string{path, fmt.Sprintf("after %d bytes", room), "as it was before"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("with room for %d bytes: %v, want %q in it", room, err, want)
			}
		}
		wantContent(t, path, "old")
		disktest.WantFiles(t, dir, "file")
	}
	if err := writeFile(path, writes(text), func(f *os.File) io.Writer { return &diskFull{f, 3 << 20} }); err != nil {
		t.Errorf("with room enough: %v", err)
	}
}

func TestWriteFileErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := WriteFile(path, writes("old")); err != nil {
		t.Fatal(err)
	}
	mistake := errors.New("NaN in w")
	err := WriteFile(path, func(w io.Writer) error { return errors.Join(writes("half")(w), mistake) })
	if !errors.Is(err, mistake) {
		t.Errorf("got %v, want %v", err, mistake)
	}
	func() {
		defer func() { recover() }()
		WriteFile(path, func(w io.Writer) error { panic("mistake") })
	}()
	wantContent(t, path, "old")
	disktest.WantFiles(t, dir, "file")

	err = WriteFile(filepath.Join(dir, "missing", "file"), writes("x"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that does not exist: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "folder"), writes("x")); err == nil {
		t.Error("replaced a folder by a file")
	}
	disktest.WantFiles(t, dir, "file", "folder")
}

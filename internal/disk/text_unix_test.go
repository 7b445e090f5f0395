//go:build unix

package disk

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOpenOfWhatIsNoFile checks that pipes and devices, also behind links, are errors at once, and do not block or read
// endlessly.
func TestOpenOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, zero := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "found a named pipe", zero: "found a device",
		dir: "found a folder"} {
		done := make(chan error, 1)
		go func() {
			_, err := ReadText(path, MaxText)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), path+": "+want) {
				t.Errorf("%s: got %v, want %q", path, err, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: reading it does not end", path)
		}
	}
}

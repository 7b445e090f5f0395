package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMapAndRead checks that both return the first bytes of a file, also after it has been closed, and that Read
// reports missing bytes.
func TestMapAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("hippo and more"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(*os.File, int) (Mapping, error){"Map": Map, "Read": Read} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := open(f, 5)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{m.Data, m.Data[1:2], make([]byte, 3), nil} {
			if m.Release(part); string(m.Data) != "hippo" {
				t.Errorf("%s: got %q", name, m.Data)
			}
		}
		if err := m.Close(); err != nil {
			t.Errorf("%s: closing: %v", name, err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Read(f, 100); err == nil || err.Error() != "read 14 of 100 bytes: unexpected EOF" {
		t.Errorf("reading past the end: %v", err)
	}
}

// TestSync checks that files and folders can be synced, and that a missing one is an error.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := SyncFile(path); err != nil {
		t.Error(err)
	}
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := SyncFile(filepath.Join(dir, "absent")); !os.IsNotExist(err) {
		t.Errorf("an absent file: %v", err)
	}
}

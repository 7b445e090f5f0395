package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkedDir writes a folder of two files.
func checkedDir(t *testing.T, dir, a, b string) {
	t.Helper()
	err := WriteDirAtomic(dir, func(tmp string) error {
		return errors.Join(os.WriteFile(filepath.Join(tmp, "a"), []byte(a), 0o666), os.WriteFile(filepath.Join(tmp,
			"b"), []byte(b), 0o666))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamageIsSeen checks that a flipped bit or a missing byte is an error that names the file before anything is read,
// unless that file is not asked for, and that a folder without a manifest is read as it is.
func TestDamageIsSeen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	checkedDir(t, dir, "hippo", strings.Repeat("x", 3<<20))
	path, read := filepath.Join(dir, "b"), 0
	try := func(names ...string) error { return ReadDir(dir, func() error { read++; return nil }, names...) }
	if err := try(); err != nil || read != 1 {
		t.Fatalf("a whole folder: %v, read %d times", err, read)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[2<<20] ^= 1
	for want, content := range map[string][]byte{path + ": found the checksum ": data,
		path + ": found 3145727 bytes, want the 3145728": data[1:]} {
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := try(); err == nil || !strings.Contains(err.Error(), want) || read != 1 {
			t.Errorf("got %v, want %q; read %d times", err, want, read)
		}
	}
	if err := try("a"); err != nil || read != 2 {
		t.Errorf("another file: %v, read %d times", err, read)
	}
	if err := os.Remove(filepath.Join(dir, ManifestFile)); err != nil {
		t.Fatal(err)
	}
	if err := try(); err != nil || read != 3 {
		t.Errorf("without a manifest: %v, read %d times", err, read)
	}
}

// TestFolderReplacedMeanwhile checks that a reader reads the newer folder if it replaces the old one during the read.
func TestFolderReplacedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	checkedDir(t, dir, "old", "old")
	tries := 0
	err := ReadDir(dir, func() error {
		if tries++; tries == 1 {
			checkedDir(t, dir, "new", "newer")
			return errors.New("the files do not fit each other")
		}
		return nil
	})
	if err != nil || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}
	failed := errors.New("still")
	if err := ReadDir(dir, func() error { tries++; return failed }); err != failed || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// TestHostileManifest checks that a manifest may only name files of its folder, and must be of a known version.
func TestHostileManifest(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{"version": 1, "files": {"../secret": {"size": 1, "crc32c": "0"}}}`: `found the file "../secret"`,
		`{"version": 2}`: "found version 2, want 1",
		`{"version": 1, "files": {"a": {"size": ` + strings.Repeat("1", 1<<20) + `}}}`: "cannot unmarshal",
	} {
		if err := os.WriteFile(filepath.Join(dir, ManifestFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := ReadDir(dir, func() error { return nil }); err == nil || !strings.Contains(err.Error(), want) ||
			len(err.Error()) > 1<<15 {
			t.Errorf("got %.300v, want %q", err, want)
		}
	}
}

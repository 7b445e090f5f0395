package data

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// age sets the file's modification time to d ago, and returns that time.
func age(t *testing.T, path string, d time.Duration) time.Time {
	t.Helper()
	at := time.Now().Add(-d)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestIndexRemembersHashes(t *testing.T) {
	dir := t.TempDir()
	opt := SourceOptions{CacheDir: filepath.Join(dir, "cache")}
	big := bytes.Repeat([]byte("0123456789abcdef"), indexMinSize/16)
	p := write(t, dir+"/big.txt", big)
	at := age(t, p, time.Hour)
	first := open(t, opt, p).Hash()

	// A change that the stat does not show proves that the index is used.
	big[0] = 'X'
	write(t, p, big)
	if err := os.Chtimes(p, at, at); err != nil {
		t.Fatal(err)
	}
	c := open(t, opt, p)
	if c.Hash() != first {
		t.Error("the hash of an unchanged file was not taken from the index")
	}
	wantError(t, c.Each(drain), "changed after it was opened") // but reading it detects the change

	age(t, p, time.Minute)
	if open(t, opt, p).Hash() == first {
		t.Error("another modification time did not make the file be hashed again")
	}

	// Another file of the same size and time in its place.
	second := open(t, opt, p).Hash()
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	big[0] = 'Y'
	other := write(t, dir+"/other.txt", big)
	if err := os.Chtimes(other, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, p); err != nil {
		t.Fatal(err)
	}
	if open(t, opt, p).Hash() == second {
		t.Error("another inode did not make the file be hashed again")
	}
}

func TestIndexLeavesOut(t *testing.T) {
	dir := t.TempDir()
	opt := SourceOptions{CacheDir: filepath.Join(dir, "cache"), Binary: true}
	fresh := write(t, dir+"/fresh.txt", make([]byte, indexMinSize))
	small := write(t, dir+"/small.txt", make([]byte, indexMinSize-1))
	age(t, small, time.Hour)
	open(t, opt, fresh, small)
	if x := openIndex(opt.CacheDir); len(x.Files) != 0 {
		t.Errorf("recorded %v, want neither a file just written nor a small one", x.Files)
	}

	// An entry recorded with binary content allowed must not make the file pass without.
	age(t, fresh, time.Hour)
	open(t, opt, fresh)
	if x := openIndex(opt.CacheDir); len(x.Files) != 1 {
		t.Fatalf("recorded %v, want one file", x.Files)
	}
	opt.Binary = false
	_, err := Open([]string{fresh}, opt)
	wantError(t, err, "fresh.txt", "looks like a binary file")
}

func TestIndexBroken(t *testing.T) {
	dir := t.TempDir()
	p := write(t, dir+"/big.txt", bytes.Repeat([]byte("x"), indexMinSize))
	age(t, p, time.Hour)
	want := open(t, noCache, p).Hash()
	for _, broken := range []string{"", "{", "null", `{"files": 3}`, `{"version": 2, "files": {"` + p + `": {}}}`,
		`{"version": 1, "files": {}}`} {
		write(t, dir+"/cache/index.json", []byte(broken))
		if got := open(t, SourceOptions{CacheDir: dir + "/cache"}, p).Hash(); got != want {
			t.Errorf("index %q: hash %s, want %s", broken, got, want)
		}
	}

	// A folder that cannot be created gives a note, not an error.
	c := open(t, SourceOptions{CacheDir: p + "/cache"}, p)
	if c.Hash() != want || len(c.Notes()) != 1 {
		t.Errorf("notes %q", c.Notes())
	}
}

package data

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestRenamed checks that a renamed or compressed file counts as the same data: it has the same token file, and a
// cursor fits, even one of an earlier version that depended on names. Other content does not fit.
func TestRenamed(t *testing.T) {
	dir := t.TempDir()
	text := []byte(strings.Repeat("call me ishmael ", 100))
	opt := TokenOptions{CacheDir: filepath.Join(dir, "cache")}
	options := LoaderOptions{BatchSize: 2, SeqLen: 8, Seed: 3}
	old, _ := tokenize(t, open(t, noCache, write(t, dir+"/old.txt", text)), byteEncoder{}, opt)
	l := loader(t, old, options)
	next(l)
	at := l.Cursor()
	named := at
	named.Tokens = old.namedHash()
	for _, path := range []string{write(t, dir+"/new.txt", text), write(t, dir+"/new.md.gz", gzipBytes(t, text))} {
		tok, _ := tokenize(t, open(t, noCache, path), byteEncoder{}, opt)
		if err := loader(t, tok, options).Seek(at); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := len(tokFiles(t, opt.CacheDir)); n != 1 {
		t.Errorf("%d token files for one text", n)
	}
	if err := loader(t, old, options).Seek(named); err != nil {
		t.Errorf("the cursor of an earlier version: %v", err)
	}
	text[5] = '!'
	other, _ := tokenize(t, open(t, noCache, write(t, dir+"/old.txt", text)), byteEncoder{}, opt)
	for _, c := range []Cursor{at, named} {
		wantError(t, loader(t, other, options).Seek(c), "tokens")
	}
}

// TestNamedHash checks the hash of a corpus in the format of version 1.
func TestNamedHash(t *testing.T) {
	dir := t.TempDir()
	a := open(t, noCache, write(t, dir+"/a.txt", []byte("one")))
	b := open(t, noCache, write(t, dir+"/b.txt", []byte("one")))
	if a.namedHash() == b.namedHash() || a.Hash() != b.Hash() {
		t.Error("names count in version 1 only")
	}
}

// TestRenamedIsNotRead checks that the index recognizes a renamed large file, so that it is not hashed again, but not a
// copy of it.
func TestRenamedIsNotRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // there are no inodes on Windows
	}
	dir := t.TempDir()
	opt := SourceOptions{CacheDir: dir + "/cache"}
	old := write(t, dir+"/old.txt", []byte(strings.Repeat("x", indexMinSize)))
	age(t, old, time.Hour)
	want := open(t, opt, old).Hash()
	if err := os.Rename(old, dir+"/new.txt"); err != nil {
		t.Fatal(err)
	}
	x := openIndex(opt.CacheDir)
	stat, err := statFile(dir + "/new.txt")
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := x.find(dir+"/new.txt", stat); !ok || c.Bytes != indexMinSize {
		t.Errorf("the renamed file: %+v, %v", c, ok)
	}
	if got := open(t, opt, dir+"/new.txt").Hash(); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	write(t, old, []byte("x")) // the old name exists, as with a link
	if _, ok := openIndex(opt.CacheDir).find(dir+"/third.txt", stat); ok {
		t.Error("took a file for another one that is still there")
	}
}

// TestExpands checks that a file that unpacks to very much more than its size is an error before all of it is read, in
// either format, and that the same text uncompressed is accepted.
func TestExpands(t *testing.T) {
	defer func(n int64) { unpackedAnyway = n }(unpackedAnyway)
	unpackedAnyway = 1 << 20
	dir := t.TempDir()
	text := []byte(strings.Repeat("a", 8<<20))
	for _, path := range []string{write(t, dir+"/bomb.gz", gzipBytes(t, text)),
		write(t, dir+"/bomb.zst", zstdBytes(t, text))} {
		_, err := Open([]string{path}, noCache)
		wantError(t, err, path, "unpack to more than 1.0 MiB", "unpack it")
	}
	open(t, noCache, write(t, dir+"/plain.txt", text))
	open(t, noCache, write(t, dir+"/small.gz", gzipBytes(t, text[:1<<20])))
}

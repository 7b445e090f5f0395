package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cached makes a token file of about 20 KB in dir and sets the time of its last use.
func cached(t *testing.T, dir, name string, limit int64, ago time.Duration) (*Tokens, []string, error) {
	t.Helper()
	text := write(t, filepath.Join(t.TempDir(), name), []byte(strings.Repeat(name[:1], 10_000)))
	c := open(t, noCache, text)
	tok, notes, err := Tokenize(context.Background(), c, byteEncoder{}, TokenOptions{CacheDir: dir, CacheLimit: limit})
	if err != nil {
		return nil, notes, err
	}
	t.Cleanup(func() { tok.Close() })
	used := time.Now().Add(-ago)
	if err := os.Chtimes(aboutPath(tok.store.file.Name()), used, used); err != nil {
		t.Fatal(err)
	}
	return tok, notes, nil
}

// sources lists the sources of the token files in a folder, most recently used first.
func sources(t *testing.T, dir string) string {
	t.Helper()
	list, err := ListCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if e.Tokens != 10_000 || e.Bytes < 20_000 || time.Since(e.Used) < -time.Minute {
			t.Errorf("entry %+v, want 10000 tokens", e)
		}
		names = append(names, filepath.Base(e.Source))
	}
	return strings.Join(names, " ")
}

// TestCacheLimit checks that the least recently used files are evicted first, files in use are not, and that a text
// that would never fit evicts nothing.
func TestCacheLimit(t *testing.T) {
	dir := t.TempDir()
	const room = 3*20_500 + 500
	must := func(name string, ago time.Duration) (*Tokens, string) {
		t.Helper()
		tok, notes, err := cached(t, dir, name, room, ago)
		if err != nil {
			t.Fatal(err)
		}
		return tok, strings.Join(notes, "\n")
	}
	a, _ := must("a.txt", 5*time.Hour)
	b, _ := must("b.txt", 4*time.Hour)
	c, note := must("c.txt", 3*time.Hour)
	if !strings.Contains(note, "may hold") {
		t.Errorf("near the limit: note %q", note)
	}
	if err := errors.Join(b.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	d, note := must("d.txt", time.Hour) // a is older than b, but in use
	if got := sources(t, dir); got != "d.txt c.txt a.txt" || !strings.Contains(note, "removed 1 files") {
		t.Errorf("found %s, note %q; want b.txt to go", got, note)
	}
	if a.At(9999) != 'a' {
		t.Error("tokens in use are gone")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	must("e.txt", 0)
	if got := sources(t, dir); got != "e.txt d.txt c.txt" {
		t.Errorf("found %s, want a.txt to go", got)
	}
	if _, _, err := cached(t, dir, "f.txt", 15_000, 0); err == nil {
		t.Error("20 KB fit into 15")
	} else {
		wantError(t, err, "token cache", "f.txt", "cache_limit", dir)
	}
	if got := sources(t, dir); got != "e.txt d.txt c.txt" {
		t.Errorf("after a text that does not fit: found %s", got)
	}
	if _, _, err := cached(t, dir, "g.txt", 21_000, 0); err == nil || d.At(0) != 'd' {
		t.Errorf("a file in use was evicted: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".tmp-") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

// TestCacheUsed checks that finding a token file again records the time, so that it is not evicted first.
func TestCacheUsed(t *testing.T) {
	dir := t.TempDir()
	text := write(t, filepath.Join(t.TempDir(), "a.txt"), []byte("call me ishmael"))
	c := open(t, noCache, text)
	for range 2 {
		tok, _ := tokenize(t, c, byteEncoder{}, TokenOptions{CacheDir: dir})
		if err := tok.Close(); err != nil {
			t.Fatal(err)
		}
		list, err := ListCache(dir)
		if err != nil || len(list) != 1 || time.Since(list[0].Used) > time.Hour || list[0].Source != text {
			t.Fatalf("list %+v, %v", list, err)
		}
		old := time.Now().Add(-48 * time.Hour)
		if err := os.Chtimes(aboutPath(list[0].Path), old, old); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCleanCache(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a.txt", "b.txt", "c.txt"} {
		tok, _, err := cached(t, dir, name, 0, time.Duration(i*24)*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if name != "c.txt" {
			tok.Close()
		}
	}
	stale := write(t, filepath.Join(dir, "x.tok.tmp-0123456789abcdef"), nil)
	kept := write(t, filepath.Join(dir, "notes.tok"), nil)
	removed, inUse, err := CleanCache(dir, time.Now().Add(-12*time.Hour))
	if err != nil || len(removed) != 1 || len(inUse) != 1 || sources(t, dir) != "a.txt c.txt" {
		t.Errorf("removed %v, in use %v, %v; left %s", removed, inUse, err, sources(t, dir))
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", stale, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("removed what is no token file: %v", err)
	}
	if none, err := ListCache(filepath.Join(dir, "none")); err != nil || len(none) != 0 {
		t.Errorf("a folder that is not there: %v, %v", none, err)
	}
}

// TestDiskFull checks that the error for a full disk says what to do and what happened to the written tokens.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		return // only Linux has a device that is always full
	}
	defer full.Close()
	w := &quotaWriter{full, &cacheQuota{limit: 1 << 20}}
	_, err = w.Write(make([]byte, 100))
	var ours *cacheError
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &ours) {
		t.Fatalf("found %v", err)
	}
	wantError(t, err, "token cache", "removed again", "hippo cache clean")
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "20GB": 20e9, "20 GB": 20e9, "1.5GiB": 3 << 29, "512m": 512e6, "1e9": 1e9,
		"2k": 2000, "0.1": 1, "1TB": 1e12,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{"GB", "-1", "0", "1XB", "1e30", "NaN", "Inf", "12 12",
		fmt.Sprint(strings.Repeat("9", 400))} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q: %d, want an error", bad, got)
		}
	}
}

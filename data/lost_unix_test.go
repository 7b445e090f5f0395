//go:build unix

package data

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// TestCutShort truncates the token file of tokens in use. All functions that read them return an error that names the
// file, the loader's position is unchanged, and the next Tokenize makes the file anew.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	text := write(t, filepath.Join(dir, "a.txt"), []byte(strings.Repeat("call me ishmael ", 1<<14)))
	c := open(t, noCache, text)
	opt := TokenOptions{CacheDir: filepath.Join(dir, "cache")}
	tok, _ := tokenize(t, c, decodingEncoder{}, opt)
	l := loader(t, tok, LoaderOptions{BatchSize: 8, SeqLen: 4096, Seed: 1})
	inputs, targets, _ := next(l)
	at := l.Cursor()
	path := tok.store.file.Name()
	if err := os.Truncate(path, headerSize+10); err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		var lost *LostError
		if !errors.As(err, &lost) || lost.Path != path || !errors.Is(err, disk.ErrFault) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want the loss of %s", what, err, path)
		}
	}
	for range 2 {
		_, err := l.Next(inputs, targets)
		check("Loader.Next", err)
		if l.Cursor() != at {
			t.Errorf("after an error the loader is at %+v, before it at %+v", l.Cursor(), at)
		}
	}
	windows, err := Windows(tok, 4, 4096)
	if err != nil {
		t.Fatal(err)
	}
	err = nil
	for _, err = range windows {
	}
	check("Windows", err)
	_, err = tok.Words(decodingEncoder{})
	check("Words", err)
	_, err = tok.Slice(5, 1<<17).Bytes()
	check("Bytes", err)
	_, err = NGramBaseline(t.Context(), tok, tok, 257)
	check("NGramBaseline", err)
	func() {
		defer func() {
			err, _ := recover().(error)
			check("At", err)
		}()
		tok.At(1 << 17)
	}()

	again, notes := tokenize(t, c, decodingEncoder{}, opt)
	if again.Hash() != tok.Hash() || len(notes) != 1 || !strings.Contains(notes[0], "made anew") {
		t.Errorf("made again: hash %s, want %s; notes %q", again.Hash(), tok.Hash(), notes)
	}
	if err := loader(t, again, LoaderOptions{BatchSize: 8, SeqLen: 4096, Seed: 1}).Seek(at); err != nil {
		t.Errorf("seeking in the file made anew: %v", err)
	}
}

package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// byteEncoder is a tokenizer of bytes, with 256 ids and, if eot is set, an end-of-text id.
type byteEncoder struct {
	eot  bool
	name string
	fail byte // if not 0, a byte that cannot be encoded
}

var errCannot = errors.New("byte has no token")

func (e byteEncoder) Encode(dst []int32, text []byte) ([]int32, error) {
	for _, c := range text {
		if e.fail != 0 && c == e.fail {
			return dst, errCannot
		}
		dst = append(dst, int32(c))
	}
	return dst, nil
}

func (e byteEncoder) Fingerprint() string { return "bytes " + e.name }

func (e byteEncoder) VocabSize() int {
	if e.eot {
		return 257
	}
	return 256
}

func (e byteEncoder) EndOfText() (int32, bool) { return 256, e.eot }

// decodingEncoder is a byteEncoder that is a Decoder.
type decodingEncoder struct{ byteEncoder }

func (decodingEncoder) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if id == 256 {
			dst = append(dst, "<|endoftext|>"...)
		} else {
			dst = append(dst, byte(id))
		}
	}
	return dst
}

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func gzipBytes(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdBytes(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// noCache are options that do not access the user's cache folder.
var noCache = SourceOptions{CacheDir: CacheNone}

func open(t testing.TB, opt SourceOptions, specs ...string) *Corpus {
	t.Helper()
	c, err := Open(specs, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// documents reads all documents of c, each with its name.
func documents(t testing.TB, c *Corpus) (names, texts []string) {
	t.Helper()
	err := c.Each(func(name string, text io.Reader) error {
		b, err := io.ReadAll(text)
		names, texts = append(names, filepath.Base(name)), append(texts, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, texts
}

// wantError checks that the message of err contains all parts.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func allIDs(t *Tokens) []int32 {
	ids := make([]int32, t.Len())
	if _, err := t.Read(ids, 0); err != nil {
		panic(err)
	}
	return ids
}

// bytesOf returns t.Bytes and panics on an error.
func bytesOf(t *Tokens) int64 {
	n, err := t.Bytes()
	if err != nil {
		panic(err)
	}
	return n
}

// wordsOf returns t.Words and panics on an error.
func wordsOf(t *Tokens) int {
	n, err := t.Words(decodingEncoder{})
	if err != nil {
		panic(err)
	}
	return n
}

func fromIDs(t testing.TB, ids []int32, vocab int) *Tokens {
	t.Helper()
	tok, err := FromIDs(ids, vocab)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// count returns the tokens 0, 1, … n−1.
func count(t testing.TB, n int) *Tokens {
	t.Helper()
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	return fromIDs(t, ids, max(n, 1))
}

// englishLike returns n bytes of words, lines, blank lines, CRLF, digits, punctuation and characters of 2 to 4 bytes.
func englishLike(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{"the", "whale", "Ahab", "1851", "don't", "sea—", "“call", "me”",
		"naïve", "🐋", ",", "...", "x", "\t"}
	ends := []string{" ", " ", " ", " ", " ", "  ", "\n", "\r\n", "\n\n", ".\n", " \n "}
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprint(&b, pieces[rng.IntN(len(pieces))], ends[rng.IntN(len(ends))])
	}
	return b.Bytes()[:n]
}

package data

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	text := "one\r\ntwo\r\n" // CRLF is kept
	write(t, dir+"/a.txt", []byte(text))
	write(t, dir+"/b.txt.gz", gzipBytes(t, []byte(text)))
	write(t, dir+"/c.txt.zst", zstdBytes(t, []byte(text)))
	// concatenated gzip files are read as one
	write(t, dir+"/two.gz", append(gzipBytes(t, []byte("one\r\n")), gzipBytes(t, []byte("two\r\n"))...))
	for _, name := range []string{"a.txt", "b.txt.gz", "c.txt.zst", "two.gz"} {
		c := open(t, noCache, filepath.Join(dir, name))
		names, texts := documents(t, c)
		if !slices.Equal(names, []string{name}) || !slices.Equal(texts, []string{text}) {
			t.Errorf("%s: %q %q", name, names, texts)
		}
		if c.Bytes() != int64(len(text)) {
			t.Errorf("%s: %d bytes, want %d", name, c.Bytes(), len(text))
		}
		if _, again := documents(t, c); !slices.Equal(again, texts) {
			t.Errorf("%s: a second reading gave %q", name, again)
		}
	}
}

func TestOpenStdin(t *testing.T) {
	text := "first\nsecond\n"
	line := `{"text": "first\nsecond\n"}`
	for name, tc := range map[string]struct {
		in  []byte
		opt SourceOptions
	}{
		"plain":  {[]byte(text), noCache},
		"gzip":   {gzipBytes(t, []byte(text)), noCache},
		"zstd":   {zstdBytes(t, []byte(text)), noCache},
		"jsonl":  {[]byte(line), SourceOptions{CacheDir: CacheNone, Format: FormatJSONL}},
		"zjsonl": {gzipBytes(t, []byte(line)), SourceOptions{CacheDir: CacheNone, Format: FormatJSONL}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opt.Stdin, tc.opt.TempDir = bytes.NewReader(tc.in), t.TempDir()
			c := open(t, tc.opt, "-")
			for range 2 {
				if _, texts := documents(t, c); !slices.Equal(texts, []string{text}) {
					t.Errorf("%q", texts)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(tc.opt.TempDir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("good.txt"), []byte("good"))
	write(t, path("empty.txt"), nil)
	write(t, path("empty.gz"), nil)
	write(t, path("hollow.gz"), gzipBytes(t, nil))
	write(t, path("binary.txt"), []byte("text\x00more"))
	write(t, path("binary.jsonl"), []byte("{\"text\": \"a\x00b\"}"))
	write(t, path("not.gz"), []byte("plain text"))
	write(t, path("not.zst"), []byte("plain text"))
	write(t, path("images/a.png"), []byte("png"))
	write(t, path("images/.hidden.txt"), []byte("hidden"))
	write(t, path("hollow/a.txt"), nil)
	long := englishLike(1, 100_000)
	write(t, path("cut.gz"), gzipBytes(t, long)[:20_000])
	write(t, path("cut.zst"), zstdBytes(t, long)[:20_000])
	garbage := append(gzipBytes(t, long), "garbage"...)
	write(t, path("garbage.gz"), garbage)
	flipped := gzipBytes(t, long)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	write(t, path("flipped.gz"), flipped)
	if err := os.MkdirAll(path("links"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path("nowhere"), path("links/a.txt")); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		specs []string
		want  []string
	}{
		{[]string{path("missing.txt")}, []string{"missing.txt", "does not exist"}},
		{[]string{path("good.txt") + "/x"}, []string{"good.txt"}},
		{[]string{path("empty.txt")}, []string{"empty.txt", "is empty"}},
		{[]string{path("empty.gz")}, []string{"empty.gz", "is empty"}},
		{[]string{path("hollow.gz")}, []string{"hollow.gz", "is empty"}},
		{[]string{path("binary.txt")}, []string{"binary.txt", "NUL byte at offset 4"}},
		{[]string{path("binary.jsonl")}, []string{"binary.jsonl", "NUL byte at offset 11"}},
		{[]string{path("not.gz")}, []string{"not.gz"}},
		{[]string{path("not.zst")}, []string{"not.zst"}},
		{[]string{path("cut.gz")}, []string{"cut.gz", "truncated"}},
		{[]string{path("cut.zst")}, []string{"cut.zst", "truncated"}},
		{[]string{path("garbage.gz")}, []string{"garbage.gz", "after 100000 bytes"}},
		{[]string{path("flipped.gz")}, []string{"flipped.gz", "checksum"}},
		{[]string{path("images")}, []string{"images", "no text file", ".txt"}},
		{[]string{path("hollow")}, []string{"hollow", "every file is empty"}},
		{[]string{path("links")}, []string{"links"}},
		{[]string{path("links/*")}, []string{"links"}},
		{[]string{path("*.none")}, []string{"*.none", "matches no file"}},
		{[]string{path("nodir/*.txt")}, []string{"matches no file"}},
		{[]string{path("[.txt")}, []string{"[.txt", "syntax error"}},
		{[]string{path("good.txt"), path("*ood.txt")}, []string{"good.txt", "named twice"}},
		{[]string{"-", "-"}, []string{"standard input", "named twice"}},
	} {
		opt := noCache
		opt.Stdin, opt.TempDir = strings.NewReader("some text"), t.TempDir()
		c, err := Open(tc.specs, opt)
		wantError(t, err, tc.want...)
		if c != nil {
			t.Errorf("%v: a corpus with the error", tc.specs)
		}
		if left, err := os.ReadDir(opt.TempDir); err != nil || len(left) > 0 {
			t.Errorf("%v: left behind %v, %v", tc.specs, left, err)
		}
	}

	_, err := Open([]string{path("good.txt")}, SourceOptions{CacheDir: CacheNone, Format: "csv"})
	wantError(t, err, `"csv"`, `"jsonl"`)
	broken := errors.New("pipe broke")
	_, err = Open([]string{"-"}, SourceOptions{CacheDir: CacheNone, Stdin: failingReader{broken}, TempDir: t.TempDir()})
	if !errors.Is(err, broken) {
		t.Errorf("standard input: %v, want %v", err, broken)
	}

	// Root can read files without permission; other users get an error.
	secret := write(t, path("secret.txt"), []byte("secret"))
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	_, want := os.ReadFile(secret)
	if _, err = Open([]string{secret}, noCache); (err == nil) != (want == nil) {
		t.Errorf("file without permission: %v, want %v", err, want)
	} else if err != nil {
		wantError(t, err, "secret.txt")
	}
}

func TestAllowNUL(t *testing.T) {
	p := write(t, t.TempDir()+"/dna.bin", []byte("a\x00b"))
	opt := noCache
	opt.AllowNUL = true
	if _, texts := documents(t, open(t, opt, p)); !slices.Equal(texts, []string{"a\x00b"}) {
		t.Errorf("%q", texts)
	}
}

func TestHashIsOfContent(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		write(t, dir+"/x.txt", []byte("text of x"))
		write(t, dir+"/y.jsonl", []byte(`{"text": "t", "body": "b"}`))
	}
	write(t, b+"/z/x.txt", []byte("text of X"))
	hash := func(opt SourceOptions, specs ...string) string { return open(t, opt, specs...).Hash() }
	x := hash(noCache, a+"/x.txt")
	if x != hash(noCache, b+"/x.txt") || x != hash(noCache, b+"/*.txt") {
		t.Error("the hash depends on the folder or on how the file was named")
	}
	if x == hash(noCache, b+"/z/x.txt") {
		t.Error("the hash does not depend on the text")
	}
	if hash(noCache, a+"/x.txt", a+"/y.jsonl") == hash(noCache, a+"/y.jsonl", a+"/x.txt") {
		t.Error("the hash does not depend on the order")
	}
	body := noCache
	body.TextField = "body"
	if hash(noCache, a+"/y.jsonl") == hash(body, a+"/y.jsonl") {
		t.Error("the hash does not depend on the field")
	}
	if x != hash(body, a+"/x.txt") {
		t.Error("the hash of a text depends on the field for JSONL")
	}
	asText := noCache
	asText.Format = FormatText
	if hash(noCache, a+"/y.jsonl") == hash(asText, a+"/y.jsonl") {
		t.Error("the hash does not depend on the format")
	}
	if got := open(t, noCache, a).Sources(); len(got) != 2 || got[0].Name != "x.txt" || got[0].Bytes != 9 ||
		got[1].Format != FormatJSONL {
		t.Errorf("sources: %+v", got)
	}
}

func TestChangedWhileReading(t *testing.T) {
	p := write(t, t.TempDir()+"/a.txt", []byte("before"))
	c := open(t, noCache, p)
	write(t, p, []byte("after!"))
	err := c.Each(func(string, io.Reader) error { return nil }) // even if the callback does not read the text
	wantError(t, err, "a.txt", "changed after it was opened")
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	wantError(t, c.Each(func(string, io.Reader) error { return nil }), "a.txt")
}

func TestEachEndsWithErrorOfFn(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.txt", []byte("a"))
	write(t, dir+"/b.jsonl", []byte("{\"text\": \"b\"}\n{\"text\": \"c\"}\n"))
	c := open(t, noCache, dir)
	enough := errors.New("enough")
	for stopAt := 1; stopAt <= 3; stopAt++ {
		calls := 0
		err := c.Each(func(string, io.Reader) error {
			if calls++; calls == stopAt {
				return enough
			}
			return nil
		})
		if err != enough || calls != stopAt {
			t.Errorf("stop at %d: %v after %d calls", stopAt, err, calls)
		}
	}
}

func TestEmbedded(t *testing.T) {
	c, err := Open(nil, SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, texts := documents(t, c) // checks size and hash against the constants
	if len(texts) != 1 || len(texts[0]) != mobyDickBytes ||
		!strings.HasPrefix(texts[0], "CHAPTER 1. Loomings.\n\nCall me Ishmael.") {
		t.Errorf("%d documents, %d bytes", len(texts), len(texts[0]))
	}
	if c.Name() != "moby-dick" || c.Bytes() != mobyDickBytes || c.Close() != nil {
		t.Errorf("name %q, %d bytes", c.Name(), c.Bytes())
	}
}

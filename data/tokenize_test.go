package data

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

func tokenize(t testing.TB, c *Corpus, enc Encoder, opt TokenOptions) (*Tokens, []string) {
	t.Helper()
	tok, notes, err := Tokenize(context.Background(), c, enc, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	})
	return tok, notes
}

func tokFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.tok"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTokenizeDocuments(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.txt", []byte("ab"))
	write(t, dir+"/b.jsonl", []byte("{\"text\": \"c\"}\n{\"text\": \"\"}\n{\"text\": \"d\"}\n"))
	const eot = 256
	for _, tc := range []struct {
		enc  Encoder
		opt  TokenOptions
		want []int32
	}{
		{byteEncoder{}, TokenOptions{}, []int32{'a', 'b', 'c', 'd'}},
		{byteEncoder{eot: true}, TokenOptions{}, []int32{'a', 'b', eot, 'c', eot, 'd'}},
		{byteEncoder{eot: true}, TokenOptions{NoEndOfText: true}, []int32{'a', 'b', 'c', 'd'}},
	} {
		var hashes []string
		for _, cache := range []string{CacheNone, t.TempDir()} {
			tc.opt.CacheDir = cache
			tok, notes := tokenize(t, open(t, noCache, dir), tc.enc, tc.opt)
			if got := allIDs(tok); !slices.Equal(got, tc.want) || len(notes) != 0 {
				t.Errorf("cache %s: ids %v, want %v; notes %q", cache, got, tc.want, notes)
			}
			if tok.Documents() != 3 || bytesOf(tok) != 4 || tok.VocabSize() != tc.enc.VocabSize() {
				t.Errorf("cache %s: %d documents, %d bytes, %d ids", cache, tok.Documents(),
					bytesOf(tok), tok.VocabSize())
			}
			hashes = append(hashes, tok.Hash())
		}
		if hashes[0] != hashes[1] {
			t.Error("the hash depends on the cache")
		}
	}
}

// counting counts the bytes it encodes.
type counting struct {
	byteEncoder
	bytes *int
}

func (e counting) Encode(dst []int32, text []byte) ([]int32, error) {
	*e.bytes += len(text)
	return e.byteEncoder.Encode(dst, text)
}

func TestCacheIsUsed(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "new", "cache")
	src := write(t, dir+"/a.txt", []byte("some text"))
	n := 0
	run := func(enc Encoder, opt TokenOptions) {
		t.Helper()
		opt.CacheDir = cache
		tokenize(t, open(t, noCache, src), enc, opt)
	}
	for _, step := range []struct {
		what  string
		enc   Encoder
		opt   TokenOptions
		grows int // number of new files in the cache
	}{
		{"first", counting{byteEncoder{eot: true}, &n}, TokenOptions{}, 1},
		{"another tokenizer", counting{byteEncoder{eot: true, name: "2"}, &n}, TokenOptions{}, 1},
		{"other options", counting{byteEncoder{eot: true}, &n}, TokenOptions{NoEndOfText: true}, 1},
	} {
		before := len(tokFiles(t, cache))
		n = 0
		run(step.enc, step.opt)
		if n != 9 || len(tokFiles(t, cache)) != before+step.grows {
			t.Errorf("%s: %d bytes encoded, %d files", step.what, n, len(tokFiles(t, cache)))
		}
		n = 0
		run(step.enc, step.opt)
		if n != 0 {
			t.Errorf("%s, again: %d bytes encoded, want 0", step.what, n)
		}
	}
	write(t, src, []byte("other text"))
	n = 0
	run(counting{byteEncoder{eot: true}, &n}, TokenOptions{})
	if n != 10 {
		t.Errorf("other content: %d bytes encoded, want 10", n)
	}
}

func TestDamagedCacheIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	src := write(t, dir+"/a.txt", englishLike(4, 3_000))
	cache := filepath.Join(dir, "cache")
	c := open(t, noCache, src)
	enc := byteEncoder{}
	opt := TokenOptions{CacheDir: cache}
	first, _ := tokenize(t, c, enc, opt)
	want := allIDs(first)
	p := tokFiles(t, cache)[0]
	whole, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte { b := bytes.Clone(whole); b[at] ^= 0x10; return b }
	for name, damaged := range map[string][]byte{
		"empty": {}, "half a header": whole[:60], "header only": whole[:headerSize], "half": whole[:len(whole)/2],
		"one byte less": whole[:len(whole)-1],
		"one byte more": append(bytes.Clone(whole), 0), "magic": flip(0), "version": flip(8), "count": flip(16),
		"hash": flip(60), "first token": flip(headerSize),
		"last token": flip(len(whole) - 1),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Remove(p); err != nil { // a new file: the old one may be mapped
				t.Fatal(err)
			}
			write(t, p, damaged)
			tok, notes := tokenize(t, c, enc, opt)
			if !slices.Equal(allIDs(tok), want) {
				t.Error("wrong tokens")
			}
			if len(notes) != 1 || !strings.Contains(notes[0], p) || !strings.Contains(notes[0], "made anew") ||
				!strings.Contains(notes[0], "found") {
				t.Errorf("notes %q", notes)
			}
			if now, err := os.ReadFile(p); err != nil || !bytes.Equal(now, whole) {
				t.Errorf("the file was not made anew: %v", err)
			}
			if _, notes := tokenize(t, c, enc, opt); len(notes) != 0 {
				t.Errorf("then: notes %q", notes)
			}
		})
	}

	// A valid file of other data under this name, as if copied by hand.
	other, _ := tokenize(t, open(t, noCache, write(t, dir+"/b.txt", []byte("other"))), enc, opt)
	defer other.Close()
	for _, q := range tokFiles(t, cache) {
		if q != p {
			if err := os.Rename(q, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	tok, notes := tokenize(t, c, enc, opt)
	if !slices.Equal(allIDs(tok), want) || len(notes) != 1 || !strings.Contains(notes[0], "other data") {
		t.Errorf("file of other data: notes %q", notes)
	}
}

// TestVerifiedOnce checks that a large file that was verified is not verified again as long as its stat is unchanged.
func TestVerifiedOnce(t *testing.T) {
	dir := t.TempDir()
	c := open(t, noCache, write(t, dir+"/a.txt", bytes.Repeat([]byte("a"), indexMinSize)))
	opt := TokenOptions{CacheDir: dir}
	if tok, _ := tokenize(t, c, byteEncoder{}, opt); tok.At(0) != 'a' {
		t.Fatal(tok.At(0))
	}
	p := tokFiles(t, dir)[0]
	at := age(t, p, time.Hour)
	damage := func() {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		b[headerSize] ^= 1
		write(t, p, b)
	}
	tokenize(t, c, byteEncoder{}, opt) // verifies and records
	damage()
	if err := os.Chtimes(p, at, at); err != nil {
		t.Fatal(err)
	}
	if tok, notes := tokenize(t, c, byteEncoder{}, opt); tok.At(0) != 'a'^1 || len(notes) != 0 {
		t.Errorf("same stat: first id %d, notes %q: verified again", tok.At(0), notes)
	}
	damage()
	damage() // the same damage, with another modification time
	if tok, notes := tokenize(t, c, byteEncoder{}, opt); tok.At(0) != 'a' || len(notes) != 1 {
		t.Errorf("other stat: first id %d, notes %q", tok.At(0), notes)
	}
}

func TestTokenizeErrors(t *testing.T) {
	dir := t.TempDir()
	src := write(t, dir+"/a.txt", []byte("good"))
	bad := write(t, dir+"/b.txt", []byte("ba#d"))
	broken := write(t, dir+"/c.jsonl", []byte("{\"text\": \"a\"}\n{\"tex"))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name  string
		ctx   context.Context
		specs []string
		enc   Encoder
		want  []string
	}{
		{"encoder", context.Background(), []string{src, bad}, byteEncoder{fail: '#'},
			[]string{"b.txt", errCannot.Error()}},
		{"jsonl", context.Background(), []string{src, broken}, byteEncoder{}, []string{"c.jsonl:2"}},
		{"ids", context.Background(), []string{src}, narrow{}, []string{"a.txt", "token 0", "id 103", "want 0 to 99"}},
		{"vocabulary", context.Background(), []string{src}, vocabulary{size: 0}, []string{"vocab_size: found 0"}},
		{"end of text", context.Background(), []string{src}, vocabulary{byteEncoder{eot: true}, 256},
			[]string{"end-of-text id: found 256"}},
		{"no ids", context.Background(), []string{src}, silent{}, []string{"found 0 tokens"}},
		{"context", canceled, []string{src}, byteEncoder{}, []string{context.Canceled.Error()}},
	} {
		for _, cache := range []string{CacheNone, filepath.Join(t.TempDir(), "cache")} {
			_, _, err := Tokenize(tc.ctx, open(t, noCache, tc.specs...), tc.enc, TokenOptions{CacheDir: cache})
			if wantError(t, err, tc.want...); strings.Count(err.Error(), "data: ") > 1 {
				t.Errorf("%s: %q says twice where it is from", tc.name, err)
			}
			if left, err := os.ReadDir(cache); cache != CacheNone && (err != nil || len(left) > 0) {
				t.Errorf("%s: left behind %v, %v", tc.name, left, err)
			}
		}
	}
	_, _, err := Tokenize(context.Background(), open(t, noCache, src), byteEncoder{},
		TokenOptions{CacheDir: src + "/cache"})
	wantError(t, err, "token cache", src)
}

type narrow struct{ byteEncoder }

func (narrow) VocabSize() int { return 100 }

type vocabulary struct {
	byteEncoder
	size int
}

func (v vocabulary) VocabSize() int { return v.size }

type silent struct{ byteEncoder }

func (silent) Encode(dst []int32, _ []byte) ([]int32, error) { return dst, nil }

// TestDefaultCacheMayFail checks that tokenizing works without a home folder.
func TestDefaultCacheMayFail(t *testing.T) {
	dir := t.TempDir()
	src := write(t, dir+"/a.txt", []byte("text"))
	for name, home := range map[string]string{"none": "", "not a folder": src} {
		for _, v := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
			t.Setenv(v, home)
		}
		c := open(t, SourceOptions{}, src)
		tok, notes := tokenize(t, c, byteEncoder{}, TokenOptions{})
		if tok.Len() != 4 || len(notes) == 0 || !strings.Contains(notes[len(notes)-1], "kept in memory") {
			t.Errorf("%s: %d tokens, notes %q", name, tok.Len(), notes)
		}
	}
}

func TestLargerThanBuffers(t *testing.T) {
	dir := t.TempDir()
	text := englishLike(5, 3<<20)
	src := write(t, dir+"/a.txt.gz", gzipBytes(t, text))
	c := open(t, noCache, src)
	want := encodeAll(t, byteEncoder{}, bytes.NewReader(text))
	var last, total int64
	calls := 0
	opt := TokenOptions{CacheDir: dir, Progress: func(done, all int64) {
		calls++
		if done < last {
			t.Errorf("progress went from %d to %d", last, done)
		}
		last, total = done, all
	}}
	mapped, _ := tokenize(t, c, byteEncoder{}, opt)
	if last != int64(len(text)) || total != last || calls < 4 {
		t.Errorf("progress: %d calls, %d of %d bytes", calls, last, total)
	}
	held, _ := tokenize(t, c, byteEncoder{}, TokenOptions{CacheDir: CacheNone})
	for _, tok := range []*Tokens{mapped, held} {
		if !slices.Equal(allIDs(tok), want) {
			t.Error("tokens differ from those of the whole text")
		}
	}
}

// slowly is a reader of endless text.
type slowly struct{ started func() }

func (s slowly) Read(p []byte) (int, error) {
	s.started()
	time.Sleep(time.Millisecond)
	return copy(p, "text "), nil
}

// endlessEncoder encodes endless text in place of the document.
type endlessEncoder struct{ byteEncoder }

func (endlessEncoder) EncodeReader(r io.Reader, emit func([]int32) error) error {
	buf := make([]int32, 1<<16)
	src := slowly{started: func() { os.Stdout.WriteString("writing\n") }}
	for {
		if _, err := src.Read(make([]byte, 5)); err != nil {
			return err
		}
		if err := emit(buf); err != nil {
			return err
		}
	}
}

// TestKilled kills a process while it makes a token file. No file that looks like a token file may be left, and the
// next run must work and clean up. Files that a running process writes are kept.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("HIPPO_TEST_KILLED"); dir != "" {
		c := open(t, noCache, filepath.Join(dir, "a.txt"))
		_, _, err := Tokenize(context.Background(), c, endlessEncoder{}, TokenOptions{CacheDir: dir})
		t.Fatal("ended by itself: ", err)
	}
	dir := t.TempDir()
	src := write(t, dir+"/a.txt", []byte("text"))
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "HIPPO_TEST_KILLED="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 80)); err != nil { // after ten writes
		t.Error(err)
	}
	c := open(t, noCache, src)
	tokenize(t, c, byteEncoder{name: "beside"}, TokenOptions{CacheDir: dir})
	if partials, err := filepath.Glob(dir + "/*" + disk.TmpMark + "*"); err != nil || len(partials) != 1 {
		t.Errorf("beside a living process: temporary files %q, %v, want its one", partials, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	partials, err := filepath.Glob(dir + "/*" + disk.TmpMark + "*")
	if err != nil || len(partials) != 1 || len(tokFiles(t, dir)) != 1 {
		t.Fatalf("left behind: %v, %v, %v", partials, tokFiles(t, dir), err)
	}
	if tok, notes := tokenize(t, c, byteEncoder{}, TokenOptions{CacheDir: dir}); tok.Len() != 4 || len(notes) != 0 {
		t.Errorf("next run: %d tokens, notes %q", tok.Len(), notes)
	}
	if _, err := os.Stat(partials[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}

// TestManyMakeOneTokenFile checks that if many callers tokenize the same text at the same time each gets the tokens,
// and that one token file is left.
func TestManyMakeOneTokenFile(t *testing.T) {
	text := write(t, filepath.Join(t.TempDir(), "a.txt"), []byte("call me ishmael"))
	for range 30 {
		dir := t.TempDir()
		var all sync.WaitGroup
		for range 8 {
			c := open(t, noCache, text)
			all.Go(func() {
				tok, _, err := Tokenize(context.Background(), c, byteEncoder{}, TokenOptions{CacheDir: dir})
				if err != nil {
					t.Error(err)
					return
				}
				if tok.Len() != 15 {
					t.Errorf("%d tokens, want 15", tok.Len())
				}
				if err := tok.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if files := tokFiles(t, dir); len(files) != 1 {
			t.Errorf("found %q, want one file", files)
		}
	}
}

package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// jsonlOf writes texts as the lines of a JSONL file.
func jsonlOf(t *testing.T, texts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, text := range texts {
		if err := json.NewEncoder(&b).Encode(map[string]string{"text": text}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "texts.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokensOf(t *testing.T, path string, enc Encoder, opt SourceOptions, cache string) *Tokens {
	t.Helper()
	opt.CacheDir = cache
	c, err := Open([]string{path}, opt)
	if err != nil {
		t.Fatal(err)
	}
	tok, _, err := Tokenize(t.Context(), c, enc, TokenOptions{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tok.Close(); c.Close() })
	return tok
}

// pairsOf returns the inputs and targets of a sequence as text, with / at its borders, | for 256 and a dot for Ignore.
func pairsOf(inputs, targets []int32, borders []int) (in, out string) {
	show := func(ids []int32) string {
		var b strings.Builder
		for i, id := range ids {
			if slices.Contains(borders, i) {
				b.WriteByte('/')
			}
			switch id {
			case Ignore:
				b.WriteByte('.')
			case 256:
				b.WriteByte('|')
			default:
				b.WriteByte(byte(id))
			}
		}
		return b.String()
	}
	return show(inputs), show(targets)
}

// TestDocumentsApart checks that windows report where documents begin. With an id between two documents both of its
// pairs count, each in its own document. Without one, the first token of a document is not a target.
func TestDocumentsApart(t *testing.T) {
	path := jsonlOf(t, "abc", "", "d", "efgh", "i")
	for _, c := range []struct {
		eot     bool
		in, out string
		bytes   int64
	}{
		{true, "abc/|d/|efgh/|", "bc|/d|/efgh|/i", 8},
		{false, "abc/d/efgh", "bc././fgh.", 5},
	} {
		for _, cache := range []string{CacheNone, t.TempDir()} {
			whole := tokensOf(t, path, decodingEncoder{byteEncoder{eot: c.eot}}, SourceOptions{}, cache)
			tok := whole.Apart()
			windows, err := Windows(tok, 1, 100)
			if err != nil {
				t.Fatal(err)
			}
			for w, err := range windows {
				if err != nil {
					t.Fatal(err)
				}
				if in, out := pairsOf(w.Inputs, w.Targets, w.Borders[0]); in != c.in || out != c.out {
					t.Errorf("with an id between %v: %s → %s, want %s → %s", c.eot, in, out, c.in, c.out)
				}
			}
			n, size, err := tok.Targets()
			want := len(strings.NewReplacer("/", "", ".", "").Replace(c.out))
			if n != want || size != c.bytes || err != nil {
				t.Errorf("%d targets of %d bytes, %v; want %d of %d", n, size, err, want, c.bytes)
			}
			if whole.Hash() == tok.Hash() {
				t.Error("tokens of documents apart and joined have the same hash")
			}
			windows, err = Windows(whole, 1, 100)
			if err != nil {
				t.Fatal(err)
			}
			for w := range windows {
				if in, out := pairsOf(w.Inputs, w.Targets, w.Borders[0]); strings.ContainsAny(in+out, "/.") {
					t.Errorf("joined: %s → %s", in, out)
				}
			}
			for i, want := range []string{"abc", "d", "efgh", "i"} {
				lo, hi, err := tok.Document(i)
				ids := make([]int32, hi-lo)
				tok.Read(ids, lo)
				if got, _ := pairsOf(ids, nil, nil); got != want || err != nil {
					t.Errorf("document %d: %q, %v; want %q", i, got, err, want)
				}
			}
		}
	}
}

// TestLoaderBorders checks that, for any sequence length, the tokens between two borders belong to one document, each
// pair within a document comes once an epoch, and no target lies in another document than its input.
func TestLoaderBorders(t *testing.T) {
	texts := []string{"aaaaa", "b", "ccccccccccccc", "dd", "eeeeeee"}
	path := jsonlOf(t, texts...)
	for _, eot := range []bool{false, true} {
		tok := tokensOf(t, path, decodingEncoder{byteEncoder{eot: eot}}, SourceOptions{}, CacheNone).Apart()
		want, _, err := tok.Targets()
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < tok.Len(); n++ {
			if (tok.Len()-1)%n != 0 {
				continue // some pairs are left out of each epoch
			}
			for _, mode := range []Mode{Shuffle, Stream} {
				l, err := NewLoader(tok, LoaderOptions{BatchSize: 1, SeqLen: n, Seed: 3, Mode: mode})
				if err != nil {
					t.Fatal(err)
				}
				count := 0
				inputs, targets := make([]int32, n), make([]int32, n)
				for range (tok.Len() - 1) / n {
					if _, err := l.Next(inputs, targets); err != nil {
						t.Fatal(err)
					}
					in, out := pairsOf(inputs, targets, l.Borders(0))
					all := strings.Split(in, "/")
					for i, part := range strings.Split(out, "/") {
						letters := strings.NewReplacer("|", "", ".", "").Replace(all[i] + part)
						if letters != "" && strings.Trim(letters, letters[:1]) != "" {
							t.Fatalf("eot %v, %d tokens, %s: %s → %s mixes documents", eot, n, mode, in, out)
						}
					}
					count += len(strings.NewReplacer("/", "", ".", "").Replace(out))
				}
				if count != want {
					t.Errorf("eot %v, %d tokens, %s: %d targets in an epoch, want %d", eot, n, mode, count, want)
				}
			}
		}
	}
}

// TestOneDocumentApart checks that tokens of one document have the same batches and hash, apart and joined.
func TestOneDocumentApart(t *testing.T) {
	tok, err := FromIDs([]int32{1, 2, 3, 4, 5, 6, 7, 8, 9}, 10)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := NewLoader(tok, LoaderOptions{BatchSize: 2, SeqLen: 3, Seed: 1})
	b, errB := NewLoader(tok.Apart(), LoaderOptions{BatchSize: 2, SeqLen: 3, Seed: 1})
	if errA != nil || errB != nil || a.Cursor() != b.Cursor() {
		t.Fatalf("%v, %v, %+v and %+v", errA, errB, a.Cursor(), b.Cursor())
	}
	var in, out [2][6]int32
	for range 20 {
		a.Next(in[0][:], out[0][:])
		b.Next(in[1][:], out[1][:])
		if in[0] != in[1] || out[0] != out[1] || len(b.Borders(0)) > 0 || len(b.Borders(1)) > 0 {
			t.Fatalf("%v → %v, apart %v → %v", in[0], out[0], in[1], out[1])
		}
	}
}

// TestSplitBetweenDocuments checks that Split cuts between two documents if one ends near the position, else at the
// position.
func TestSplitBetweenDocuments(t *testing.T) {
	for _, c := range []struct {
		lengths  []int
		fraction float64
		want     int
	}{
		{[]int{70, 35, 95}, 0.5, 105}, {[]int{70, 40, 90}, 0.1, 180}, {[]int{10, 180, 10}, 0.1, 190},
		{[]int{100, 100}, 0.5, 100},
	} {
		var texts []string
		for i, n := range c.lengths {
			texts = append(texts, strings.Repeat(string(rune('a'+i)), n))
		}
		tok := tokensOf(t, jsonlOf(t, texts...), byteEncoder{}, SourceOptions{}, CacheNone)
		train, valid, err := tok.Apart().Split(c.fraction)
		if err != nil || train.Len() != c.want || valid.Len() != tok.Len()-c.want {
			t.Errorf("%v: %d and %d, %v; want a cut at %d", c, train.Len(), valid.Len(), err, c.want)
		}
	}
}

// TestOldTokenFile checks that a token file without document borders, from an earlier version, is made anew, and that
// one of a single document is used.
func TestOldTokenFile(t *testing.T) {
	for _, texts := range [][]string{{"abc", "de"}, {"abcde"}} {
		path, cache := jsonlOf(t, texts...), t.TempDir()
		tokensOf(t, path, byteEncoder{}, SourceOptions{}, cache).Close()
		files, err := filepath.Glob(filepath.Join(cache, "*"+tokenSuffix))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		h, err := parseHeader(b, int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		s := newStore(h, b[headerSize:])
		old := *h
		old.borders = false
		w, _ := newTokenWriter(&header{vocab: h.vocab}, nil)
		w.putBytes(s.ids)
		old.crc = w.header.crc
		if err := os.WriteFile(files[0], append(old.marshal(), s.ids...), 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := Open([]string{path}, SourceOptions{CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		tok, notes, err := Tokenize(t.Context(), c, byteEncoder{}, TokenOptions{CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(notes)
		if anew := strings.Contains(said, "without the borders of its documents; made anew"); anew != (len(texts) > 1) {
			t.Errorf("%d documents: notes %q", len(texts), said)
		}
		if tok.Documents() != int64(len(texts)) {
			t.Errorf("found %d documents, want %d", tok.Documents(), len(texts))
		}
		tok.Close()
	}
}

// questions is a ChatReader of lines with a prompt and a completion.
type questions struct{ name string }

func (r questions) Fingerprint() string { return r.name }

func (r questions) Read(object []byte) ([][]Part, error) {
	var l struct{ Prompt, Completion string }
	if err := json.Unmarshal(object, &l); err != nil {
		return nil, err
	}
	if l.Completion == "?" {
		return nil, fmt.Errorf("no answer")
	}
	return [][]Part{{{Text: l.Prompt, Given: true}, {Text: l.Completion}}}, nil
}

// TestChats checks that given parts are not targets, and that a file of chats is recognized by its first line.
func TestChats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("\ufeff\n" + `{"prompt": "ab", "completion": "CD"}` + "\n\n" + `{"prompt": "", "completion": "E"}` + "\n" +
		`{"completion": "FGH", "prompt": "xyz"}`)
	for _, eot := range []bool{true, false} {
		for _, cache := range []string{CacheNone, t.TempDir()} {
			tok := tokensOf(t, path, decodingEncoder{byteEncoder{eot: eot}}, SourceOptions{Chats: questions{}},
				cache).Apart()
			wantIn, wantOut := "abCD|/E|/xyzFG", ".CD|./|./..FGH"
			if !eot {
				wantIn, wantOut = "abCD/E/xyzFG", ".CD././..FGH"
			}
			windows, err := Windows(tok, 1, 100)
			if err != nil {
				t.Fatal(err)
			}
			for w := range windows {
				if in, out := pairsOf(w.Inputs, w.Targets, w.Borders[0]); in != wantIn || out != wantOut {
					t.Errorf("%s → %s, want %s → %s", in, out, wantIn, wantOut)
				}
			}
			n, size, err := tok.Targets()
			want := len(strings.NewReplacer("/", "", ".", "").Replace(wantOut))
			if n != want || size != 5 || err != nil {
				t.Errorf("%d targets of %d bytes, %v; want %d of 5", n, size, err, want)
			}
			// there is nothing between the first two words
			if words, err := tok.Words(decodingEncoder{}); words != 2 || err != nil {
				t.Errorf("%d words, %v; want 2", words, err)
			}
		}
	}
	if _, err := Open([]string{path}, SourceOptions{CacheDir: CacheNone}); err == nil ||
		!strings.Contains(err.Error(), "holds chats, want text in a field \"text\"") {
		t.Errorf("without a reader: %v", err)
	}
	a, errA := Open([]string{path}, SourceOptions{CacheDir: CacheNone, Chats: questions{"a"}})
	b, errB := Open([]string{path}, SourceOptions{CacheDir: CacheNone, Chats: questions{"b"}})
	if errA != nil || errB != nil || a.Hash() == b.Hash() {
		t.Errorf("%v, %v: two readers give one hash", errA, errB)
	}
	write(`{"prompt": "ab", "completion": "CD"}` + "\n" + `{"prompt": "ab", "completion": "?"}`)
	c, err := Open([]string{path}, SourceOptions{CacheDir: CacheNone, Chats: questions{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = Tokenize(t.Context(), c, byteEncoder{}, TokenOptions{CacheDir: CacheNone}); err == nil ||
		!strings.Contains(err.Error(), "chats.jsonl:2: no answer") {
		t.Errorf("a bad line: %v", err)
	}
}

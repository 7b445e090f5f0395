package trie

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/tokenizer/token"
)

// lines returns a small vocabulary as Python writes it: all bytes, then longer tokens. The last two have the same text.
func lines() string {
	var out strings.Builder
	for b := range 256 {
		switch text := string(rune(b)); {
		case b == '\'':
			text = `"'"`
			fmt.Fprintf(&out, "%d %s 1\n", b+1, text)
		case b < 0x80:
			fmt.Fprintf(&out, "%d '%s' 1\n", b+1, Escape(text))
		default:
			fmt.Fprintf(&out, "%d b'\\x%02x' 1\n", b+1, b)
		}
	}
	for i, line := range []string{`'ab' 2`, `'abcd' 4`, `'bc' 2`, `"it's" 4`, `'é' 2`, `'\n\n' 2`, `' 10' 3`,
		`'\u2028' 3`, `'\U000e0001' 4`, `b'\xe6\x97' 2`, `'日本' 6`, `'\x85' 2`, `'\\"' 2`, `'cd' 2`, `'cd' 2`} {
		fmt.Fprintf(&out, "%d %s\n", 257+i, line)
	}
	return out.String()
}

func parsed(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Parse([]byte(lines()))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestLongest checks that the longest token at each position is taken, whatever follows, and of two tokens with the
// same text the one with the larger id.
func TestLongest(t *testing.T) {
	tok := parsed(t)
	if end, ok := tok.EndOfText(); tok.VocabSize() != 272 || !ok || end != 0 {
		t.Errorf("%d tokens, end of text %d, %v", tok.VocabSize(), end, ok)
	}
	for text, want := range map[string][]int32{
		"":                       {},
		"abcd":                   {258},
		"abc":                    {257, 'c' + 1},
		"xabcabcd":               {'x' + 1, 257, 'c' + 1, 258},
		"bcd":                    {259, 'd' + 1}, // rather than b, cd
		"cd":                     {271},
		"it's é":                 {260, ' ' + 1, 261},
		"\n\n\n":                 {262, '\n' + 1},
		" 10 1":                  {263, ' ' + 1, '1' + 1},
		"\u2028\U000e0001\u0085": {264, 265, 268},
		"日本日":                    {267, 266, 0xa5 + 1},
		`\"`:                     {269},
		"a<|endoftext|>b":        {'a' + 1, 0, 'b' + 1},
	} {
		got, err := tok.Encode(nil, []byte(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: found %v, %v, want %v", text, got, err, want)
		}
		if back := string(tok.Decode(nil, got)); back != text {
			t.Errorf("%q: comes back as %q", text, back)
		}
	}
	plain, _, err := tok.Ordinary().EncodeChunk(nil, []byte(token.EndOfTextToken), true)
	if err != nil || slices.Contains(plain, 0) {
		t.Errorf("the end of a document in a text that is not trusted: %v, %v", plain, err)
	}
}

// TestPieces compares the tokens of a text in pieces with those found by looking up ever shorter prefixes in a map.
func TestPieces(t *testing.T) {
	tok := parsed(t)
	ids := map[string]int32{}
	for id, text := range tok.Tokens {
		ids[text] = int32(id)
	}
	random := rand.New(rand.NewPCG(1, 2))
	units := []string{"a", "b", "c", "d", "ab", "é", "\n", " 1", "0", "日", "本", "\xe6", "it's",
		"<|endoftext|>", "<|end"}
	for range 500 {
		var text []byte
		for range random.IntN(30) {
			text = append(text, units[random.IntN(len(units))]...)
		}
		var want []int32
		for at := 0; at < len(text); {
			if rest, ok := strings.CutPrefix(string(text[at:]), token.EndOfTextToken); ok {
				want, at = append(want, 0), len(text)-len(rest)
				continue
			}
			n := min(6, len(text)-at)
			for ids[string(text[at:at+n])] == 0 {
				n--
			}
			want, at = append(want, ids[string(text[at:at+n])]), at+n
		}
		var got []int32
		s := tok.NewStream()
		for at, hi := 0, 0; ; {
			hi = min(len(text), max(at, hi)+1+random.IntN(7))
			more, n, err := s.EncodeChunk(nil, text[at:hi], hi == len(text))
			if err != nil {
				t.Fatal(err)
			}
			got, at = append(got, more...), at+n
			if hi == len(text) {
				if at != hi {
					t.Fatalf("%q: %d bytes are left", text, hi-at)
				}
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: found %v, want %v", text, got, want)
		}
	}
}

// TestVocabularyFiles checks that tokens are the same after writing, and that errors name the line.
func TestVocabularyFiles(t *testing.T) {
	tok := parsed(t)
	again, err := Parse(New(tok.Tokens).Text())
	if err != nil || again.Fingerprint() != tok.Fingerprint() {
		t.Errorf("written from its tokens: %v", err)
	}
	for file, want := range map[string]string{
		"":                 "found no token",
		"1 'a' 1\n2":       "line 2: found \"2\"",
		"1 'a' 1\n\n":      "line 2: found \"\"",
		"1 'a' 1\n1 'b' 1": "line 2: found id 1 again",
		"x 'a' 1":          `line 1: found the id "x"`,
		"-1 'a' 1":         `line 1: found the id "-1"`,
		"999999999 'a' 1":  `line 1: found the id "999999999"`,
		"1 'a' 2":          "line 1: found 'a' of 1 bytes, want 2",
		"1 '' 0":           "line 1: found '' of 0 bytes",
		"1 a 1":            "line 1: found \"a\", want a text between quotes",
		`1 'a" 1`:          "want a text between quotes",
		"1 b 1":            "want a text between quotes",
		`1 '\x' 1`:         `found "\\x", want 2 digits`,
		`1 '\uzzzz' 1`:     `found "\\uzzzz"`,
		`1 '\ud800' 3`:     `found "\\ud800"`,
		`1 '\' 1`:          `found \ at the end`,
	} {
		if _, err := Parse([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", file, err, want)
		}
	}
	few, err := Parse([]byte("1 'a' 1\n2 'ab' 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := few.Encode(nil, []byte("aabxa")); err == nil ||
		err.Error() != "tokenizer: byte offset 3: no token starts with byte 0x78" {
		t.Errorf("a byte without a token: %v", err)
	}
	named, err := Parse([]byte("0 'a' 1\n"))
	if _, ends := named.EndOfText(); err != nil || ends {
		t.Errorf("a vocabulary with an id 0: %v, %v", ends, err)
	}
}

// FuzzParse checks that an accepted vocabulary is the same after writing and reading, and decodes what it encodes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(lines()), []byte("abc日本 10"))
	f.Add([]byte("1 'a' 1\n2 b'\\xff' 1\n"), []byte("aa\xff"))
	f.Fuzz(func(t *testing.T, file, text []byte) {
		tok, err := Parse(file)
		if err != nil {
			return
		}
		again, err := Parse(New(tok.Tokens).Text())
		if err != nil || again.Fingerprint() != tok.Fingerprint() {
			t.Fatalf("written and read: %v", err)
		}
		if ids, err := tok.Encode(nil, text); err == nil && string(tok.Decode(nil, ids)) != string(text) {
			t.Errorf("%q comes back as %q", text, tok.Decode(nil, ids))
		}
	})
}

// BenchmarkEncode measures encoding with a vocabulary of the release's size.
func BenchmarkEncode(b *testing.B) {
	random := rand.New(rand.NewPCG(3, 4))
	tokens := make([]string, 1, 65530)
	for c := range 256 {
		tokens = append(tokens, string([]byte{byte(c)}))
	}
	for len(tokens) < 65530 {
		text := make([]byte, 2+random.IntN(8))
		for i := range text {
			text[i] = "etaoinshrdlu .,"[min(random.IntN(15), random.IntN(15))]
		}
		tokens = append(tokens, string(text))
	}
	tok := New(tokens)
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = "etaoinshrdlu .,"[min(random.IntN(15), random.IntN(15))]
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Encode(nil, text); err != nil {
			b.Fatal(err)
		}
	}
}

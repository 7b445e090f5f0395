package tokenizer

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hippo-ssm/hippo/tokenizer/sentencepiece"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"pgregory.net/rapid"
)

// collect returns the ids of EncodeReader with an initial buffer of size bytes.
func collect(tok Tokenizer, r io.Reader, size int) ([]int32, error) {
	var ids []int32
	err := encodeReader(tok, r, size, func(more []int32) error {
		ids = append(ids, more...)
		return nil
	})
	return ids, err
}

// TestEncodeReaderIsEncode divides texts into pieces of many sizes. The tokenizers have different added tokens and ways
// to split text into words.
func TestEncodeReaderIsEncode(t *testing.T) {
	alphabet, err := Characters(strings.NewReader("ab 日é<|>"))
	if err != nil {
		t.Fatal(err)
	}
	tokenizers := map[string]Tokenizer{
		"bytes":    Bytes(),
		"chars":    alphabet,
		"dna":      DNA(),
		"gpt2":     GPT2(),
		"neox":     parseTest(t, neoxStyle()),
		"llama3":   parseTest(t, llama3Style()),
		"deepseek": parseTest(t, deepseekStyle(t)),
		"prefix":   parseTest(t, prefixStyle()),
		"rwkv":     longest(t),
	}
	_, files := referenceCases(t)
	for name, c := range files {
		tok, err := parseFile(c.File)
		if err != nil {
			t.Fatal(err)
		}
		tokenizers["reference "+name] = tok
	}
	_, models := spCases(t)
	for name, c := range models {
		tok, err := sentencepiece.Parse(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		tokenizers["model "+name] = tok
	}
	units := rapid.SampledFrom([]string{
		"a", "ab", " a", " ", "  ", "     ", "\n", "\n\n", "12", "1234", "it's", "!!", "日", "é", "\xff",
		"\xe2\x82", "<", "<|", "<|endoftext|>",
		"<|endoftext", "<mask>", "<tool>", "word", "<s>", "\u0301", "a\u0323", "\u1100", "\u1161", "ﷺ", "▁", "\r",
		"[", "[SEP]", "AC", "aaaaaaaaaaaaaaaaaaaa", "                    ",
	})
	for name, tok := range tokenizers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := strings.Join(rapid.SliceOfN(units, 0, 30).Draw(t, "text"), "")
				size := rapid.IntRange(1, 40).Draw(t, "size")
				want, wantErr := tok.Encode(nil, []byte(text))
				got, err := collect(tok, iotest.HalfReader(strings.NewReader(text)), size)
				if wantErr != nil { // text outside the alphabet
					if err == nil || err.Error() != wantErr.Error() {
						t.Fatalf("in pieces %v, at once %v", err, wantErr)
					}
					return
				}
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("%q in pieces is %v (%v), at once %v", text, got, err, want)
				}
			})
		})
	}
}

func TestEncodeReaderLimits(t *testing.T) {
	tok := GPT2()
	long := "one " + strings.Repeat("a", MaxPending+1)
	if _, err := collect(tok, strings.NewReader(long), token.FirstRead); err == nil ||
		!strings.Contains(err.Error(), "byte offset 3: a word of more than 16777216 bytes") {
		t.Errorf("a word that is too long: %v", err)
	}
	// Ordinary text is passed on in batches of bounded size.
	most := 0
	total := 0
	err := EncodeReader(tok, strings.NewReader(strings.Repeat("word ", 3<<20/5)), func(ids []int32) error {
		most = max(most, len(ids))
		total += len(ids)
		return nil
	})
	if err != nil || most > token.FirstRead || total < 600_000 {
		t.Errorf("%d ids, up to %d at once, %v", total, most, err)
	}
}

func TestEncodeReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := collect(GPT2(), iotest.ErrReader(broken), 10); !errors.Is(err, broken) {
		t.Errorf("read error: %v", err)
	}
	err := EncodeReader(Bytes(), strings.NewReader("abc"), func([]int32) error { return broken })
	if err != broken {
		t.Errorf("emit error: %v", err)
	}
	chars, err := Characters(strings.NewReader("ab\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = collect(chars, strings.NewReader(strings.Repeat("ab\n", 100)+"c"), 7)
	var at *EncodeError
	if !errors.As(err, &at) || at.Offset != 300 ||
		!strings.Contains(err.Error(), "'c' (U+0063) is not in the alphabet of 3") {
		t.Errorf("unknown character: %v", err)
	}
}

// outside is a Tokenizer from outside the package.
type outside struct{ Tokenizer }

func TestEncodeReaderOutsider(t *testing.T) {
	ids, err := collect(outside{GPT2()}, strings.NewReader("Hello world"), 3)
	if err != nil || !slices.Equal(ids, []int32{15496, 995}) {
		t.Errorf("%v, %v", ids, err)
	}
}

// TestStreamDecoder checks that all text is returned in whole characters, and as soon as it is certain.
func TestStreamDecoder(t *testing.T) {
	for _, tok := range []Tokenizer{Bytes(), GPT2()} {
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.OneOf(
				rapid.SliceOfN(rapid.Byte(), 0, 20),
				rapid.Map(drawUnicode, func(s string) []byte { return []byte(s) }),
				rapid.Map(
					rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\xe2", "\xe2\x82", "\xe2\x82\xac", "\xf0\x9f\x99",
						"\xf0\x80", "\xed\xa0", "\xc0"}), 0, 10),
					func(s []string) []byte { return []byte(strings.Join(s, "")) }),
			).Draw(t, "text")
			ids, err := tok.Encode(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			d := NewStreamDecoder(tok)
			var got, seen []byte
			for _, id := range ids {
				got = append(got, d.Write(id)...)
				seen = tok.Decode(seen, []int32{id})
				if want := settled(seen); string(got) != want {
					t.Fatalf("after %q: %q, want %q", seen, got, want)
				}
			}
			got = append(got, d.Flush()...)
			if want := string([]rune(string(text))); string(got) != want {
				t.Fatalf("%q gives %q, want %q", text, got, want)
			}
			if rest := d.Flush(); len(rest) != 0 {
				t.Fatalf("a second flush gives %q", rest)
			}
		})
	}
}

// settled returns the text of b that no later byte can change. It omits the longest suffix that could be the start of a
// character, found by trying all continuations.
func settled(b []byte) string {
	for n := min(3, len(b)); n > 0; n-- {
		start := b[len(b)-n:]
		for _, rest := range []string{"\x80", "\xa0", "\x90", "\x80\x80", "\xa0\x80", "\x90\x80", "\x80\x80\x80",
			"\xa0\x80\x80", "\x90\x80\x80"} {
			if runes := []rune(string(start) + rest); len(runes) == 1 && runes[0] != '\ufffd' {
				return string([]rune(string(b[:len(b)-n])))
			}
		}
	}
	return string([]rune(string(b)))
}

func TestBytesAreBytes(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	ids := encode(t, Bytes(), string(all))
	for i, id := range ids {
		if int(id) != i {
			t.Fatalf("byte %d is %d", i, id)
		}
	}
	if back := Bytes().Decode(nil, ids); !bytes.Equal(back, all) {
		t.Error("bytes do not come back")
	}
}

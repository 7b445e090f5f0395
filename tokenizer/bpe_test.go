package tokenizer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	tiktoken "github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

// encode returns the ids of a text that has no error.
func encode(t testing.TB, tok Tokenizer, text string) []int32 {
	t.Helper()
	ids, err := tok.Encode(nil, []byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return ids
}

// oracle returns another implementation of GPT-2's tokenizer. It treats <|endoftext|> as plain characters.
func oracle(t testing.TB) tiktoken.Codec {
	t.Helper()
	codec, err := tiktoken.Get(tiktoken.R50kBase)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// drawUnicode draws text of all kinds: words of several scripts, runs of one kind, arbitrary characters.
var drawUnicode = rapid.Map(rapid.SliceOfN(rapid.OneOf(
	rapid.StringMatching(`[a-zA-Z]{1,8}`),
	rapid.StringMatching(` {1,5}`),
	rapid.StringMatching(`[0-9]{1,5}`),
	rapid.SampledFrom([]string{
		"the", " the", " and", "ing", "'s", "'re", "'LL", "don't", "\n", "\n\n", "\r\n", "\t", ".", ", ", "...",
		"--", "日本語", "한국어", "Ελληνικά",
		" Русский", "العربية", "e\u0301", "\u00a0", "\u2003", "\u3000", "²", "٣", "🙂", "👩‍💻", "\x00", "\u0085",
		"\ufffd", "aaaaaaaa", "========", " a a a",
	}),
	rapid.StringN(0, 6, -1),
), 0, 12), func(s []string) string { return strings.Join(s, "") })

func TestGPT2IsOracle(t *testing.T) {
	codec := oracle(t)
	tok := GPT2()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(drawUnicode.Draw(t, "text"), "\x7f", "") // the oracle loses it
		if !utf8.ValidString(text) {
			t.Fatalf("drew %q, which is not UTF-8", text)
		}
		got, err := EncodeOrdinary(tok, nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		ids, _, err := codec.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]int32, len(ids))
		for i, id := range ids {
			want[i] = int32(id)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q is %v, want %v", text, got, want)
		}
	})
}

func TestGPT2VocabularyIsOracle(t *testing.T) {
	codec := oracle(t)
	tok := GPT2()
	if n := tok.VocabSize(); n != 50257 {
		t.Fatalf("vocabulary of %d", n)
	}
	for id := range 50256 {
		want, err := codec.Decode([]uint{uint(id)})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(tok.Decode(nil, []int32{int32(id)})); got != want {
			t.Fatalf("token %d is %q, want %q", id, got, want)
		}
	}
}

func TestGPT2EndOfText(t *testing.T) {
	tok := GPT2()
	if id, ok := tok.EndOfText(); id != 50256 || !ok {
		t.Errorf("end of text is %d, %v", id, ok)
	}
	// White space before the token is at the end of its stretch of text.
	text := "a  <|endoftext|><|endoftext|> b<|endoftext"
	want := []int32{64, 220, 220, 50256, 50256, 275, 27, 91, 437, 1659, 5239}
	if got := encode(t, tok, text); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if back := string(tok.Decode(nil, want)); back != text {
		t.Errorf("decodes to %q", back)
	}
	ordinary, err := EncodeOrdinary(tok, []int32{7}, []byte("<|endoftext|>"))
	if want := []int32{7, 27, 91, 437, 1659, 5239, 91, 29}; err != nil || !slices.Equal(ordinary, want) {
		t.Errorf("as ordinary text it is %v, %v, want %v", ordinary, err, want)
	}
}

func TestDecodeSkipsUnknownIDs(t *testing.T) {
	chars, err := Characters(strings.NewReader("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range []Tokenizer{Bytes(), chars, GPT2()} {
		ids := slices.Concat([]int32{-1}, encode(t, tok, "Hi"), []int32{int32(tok.VocabSize()), 1 << 30, -1 << 31})
		if got := string(tok.Decode([]byte("> "), ids)); got != "> Hi" {
			t.Errorf("%s: %v decodes to %q", tok.Kind(), ids, got)
		}
	}
}

func TestConcurrentEncode(t *testing.T) {
	tok := GPT2()
	rng := rand.New(rand.NewPCG(1, 2))
	var texts []string
	var want [][]int32
	for range 50 {
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = "etaoin shrdlu\n.,'"[rng.IntN(17)]
		}
		texts = append(texts, string(b))
		want = append(want, encode(t, tok, string(b)))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i, text := range texts {
				ids, err := tok.Encode(nil, []byte(text))
				if err != nil || !slices.Equal(ids, want[i]) {
					t.Errorf("%q is %v (%v), want %v", text, ids, err, want[i])
				}
			}
		})
	}
	group.Wait()
}

// TestLongRuns encodes a megabyte without the end of a word. Quadratic time would take hours.
func TestLongRuns(t *testing.T) {
	tok := GPT2()
	rng := rand.New(rand.NewPCG(3, 4))
	letters := make([]byte, 1<<18)
	for i := range letters {
		letters[i] = byte('a' + rng.IntN(26))
	}
	for _, text := range [][]byte{
		bytes.Repeat([]byte("a"), 1<<18), bytes.Repeat([]byte(" "), 1<<18),
		bytes.Repeat([]byte("\xff"), 1<<18), letters,
	} {
		ids, err := tok.Encode(nil, text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(tok.Decode(nil, ids), text) {
			t.Errorf("%.8q… does not come back", text)
		}
	}
}

func TestEncodeKeepsPrefix(t *testing.T) {
	for _, tok := range []Tokenizer{Bytes(), GPT2()} {
		got, err := tok.Encode([]int32{5, 6}, []byte("a"))
		if err != nil || !slices.Equal(got[:2], []int32{5, 6}) || len(got) != 3 {
			t.Errorf("%s: %v, %v", tok.Kind(), got, err)
		}
	}
	chars, err := Characters(strings.NewReader("ab"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := chars.Encode([]int32{5, 6}, []byte("abc"))
	var at *EncodeError
	if !errors.As(err, &at) || at.Offset != 2 || !slices.Equal(got, []int32{5, 6}) {
		t.Errorf("chars: %v, %v, want the prefix alone and an error at 2", got, err)
	}
}

func FuzzEncodeDecode(f *testing.F) {
	f.Add([]byte("Hello world, it's <|endoftext|> 12  \n\n x"), 3)
	f.Add([]byte("\xff\xfe<|endof\xe6\x97 \xe2\x82\xac"), 1)
	f.Add(bytes.Repeat([]byte("ab"), 100), 7)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		for _, tok := range []Tokenizer{Bytes(), GPT2()} {
			ids, err := tok.Encode(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			if back := tok.Decode(nil, ids); !bytes.Equal(back, text) {
				t.Fatalf("%s: %q comes back as %q", tok.Kind(), text, back)
			}
			var streamed []int32
			err = encodeReader(tok, bytes.NewReader(text), size&63+1, func(ids []int32) error {
				streamed = append(streamed, ids...)
				return nil
			})
			if err != nil || !slices.Equal(streamed, ids) {
				t.Fatalf("%s: %q in pieces is %v (%v), want %v", tok.Kind(), text, streamed, err, ids)
			}
		}
	})
}

package data

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tiktoken-go/tokenizer"
)

func drain(_ string, text io.Reader) error {
	_, err := io.Copy(io.Discard, text)
	return err
}

func encodeAll(t testing.TB, enc Encoder, r io.Reader) []int32 {
	t.Helper()
	var all []int32
	err := encodeDocument(enc, r, func(ids []int32) error {
		all = append(all, ids...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func setEncodeBuffer(t *testing.T, n int) {
	old := encodeBuffer
	encodeBuffer = n
	t.Cleanup(func() { encodeBuffer = old })
}

func TestEncodeInPieces(t *testing.T) {
	text := englishLike(2, 5_000)
	want := encodeAll(t, byteEncoder{}, bytes.NewReader(text))
	for _, n := range []int{4, 5, 16, 100, 4_999, 5_000, 5_001} {
		setEncodeBuffer(t, n)
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(text), "one": iotest.OneByteReader(bytes.NewReader(text)),
			"eof": iotest.DataErrReader(bytes.NewReader(text)),
		} {
			if got := encodeAll(t, byteEncoder{}, r); !slices.Equal(got, want) {
				t.Errorf("buffer %d, reader %s: %d ids, want %d", n, name, len(got), len(want))
			}
		}
	}
}

// gpt2 is a tokenizer of another project for which cut is exact: R50kBase is GPT-2's, Cl100kBase GPT-4's.
type gpt2 struct {
	byteEncoder
	codec tokenizer.Codec
}

func (e gpt2) Encode(dst []int32, text []byte) ([]int32, error) {
	ids, _, err := e.codec.Encode(string(text))
	for _, id := range ids {
		dst = append(dst, int32(id))
	}
	return dst, err
}

func TestEncodeInPiecesIsExactForBPE(t *testing.T) {
	words := bytes.ReplaceAll(englishLike(3, 20_000), []byte("🐋"), []byte("whale"))
	words = append(words, strings.ReplaceAll("lines that end in a word\nor {\n  brackets }\n\n", "\n", "\r\n")...)
	punctuation := regexp.MustCompile(`(\w)(\s)`).ReplaceAll(words, []byte("$1,$2"))
	for _, tc := range []struct {
		tokenizer tokenizer.Encoding
		text      []byte
	}{
		{tokenizer.R50kBase, words}, {tokenizer.R50kBase, punctuation}, {tokenizer.Cl100kBase, words},
	} {
		codec, err := tokenizer.Get(tc.tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		enc := gpt2{codec: codec}
		want := encodeAll(t, enc, bytes.NewReader(tc.text))
		for _, n := range []int{300, 1_000} {
			setEncodeBuffer(t, n)
			if got := encodeAll(t, enc, bytes.NewReader(tc.text)); !slices.Equal(got, want) {
				t.Errorf("%s with a buffer of %d: %d ids, want %d", tc.tokenizer, n, len(got), len(want))
			}
		}
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct{ head, tail string }{
		{"one two\nthree", "\nfour!"},      // a line end after a letter
		{"one", "\r\ntwo}\n\n"},            // preferred to later line ends after other characters
		{"one}\ntwo three)", "\n four"},    // else a line end not after a space
		{"one two,", " three"},             // else a space
		{"onetwothree", ""},                // else everything
		{"onetwo", "\xf0\x9f\x90"},         // except the start of a character
		{"onetwo🐋", ""},                    // but a complete character is included
		{"\n", "\xf0"},                     // at least one byte
		{"\n\x80\x80\x80\x80\x80\x80", ""}, // also without valid UTF-8
		{"\xf0\x9f\x90", ""},               // one broken character
		{" ", ""},                          // no cut at a space at the start
		{"a\tb", "  \n  "},                 // a run of white space stays whole
	} {
		if got := cut([]byte(tc.head + tc.tail)); got != len(tc.head) {
			t.Errorf("%q: cut at %d, want %d", tc.head+tc.tail, got, len(tc.head))
		}
	}
}

// streaming counts calls of EncodeReader.
type streaming struct {
	byteEncoder
	calls *int
}

func (s streaming) EncodeReader(r io.Reader, emit func([]int32) error) error {
	*s.calls++
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("in EncodeReader: %w", err)
	}
	for _, c := range text {
		if err := emit([]int32{int32(c)}); err != nil {
			return err
		}
	}
	return nil
}

func TestStreamEncoderIsPreferred(t *testing.T) {
	calls := 0
	if got := encodeAll(t, streaming{calls: &calls}, strings.NewReader("abc")); !slices.Equal(got,
		[]int32{'a', 'b', 'c'}) || calls != 1 {
		t.Errorf("ids %v, %d calls", got, calls)
	}
}

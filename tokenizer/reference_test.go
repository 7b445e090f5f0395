package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// referenceCase is a tokenizer.json and the results of Hugging Face's library for the texts, see gen/reference.js.
type referenceCase struct {
	File    json.RawMessage
	Affixed []int32 // of "hello"
	IDs     [][]int32
	Decoded []string
}

func referenceCases(t testing.TB) (texts []string, cases map[string]referenceCase) {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Texts []string
		Cases map[string]referenceCase
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Texts) < 40 || len(file.Cases) < 20 {
		t.Fatalf("%d texts and %d cases", len(file.Texts), len(file.Cases))
	}
	return file.Texts, file.Cases
}

// TestReference compares ids and decoded texts with those of Hugging Face's library.
func TestReference(t *testing.T) {
	texts, cases := referenceCases(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tok, err := parseFile(c.File)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				ids, err := tok.Encode(nil, []byte(text))
				if err != nil || !slices.Equal(ids, c.IDs[i]) {
					t.Errorf("%q is %v (%v), want %v", text, ids, err, c.IDs[i])
				}
				if got := strings.ToValidUTF8(string(DecodeText(tok, nil, c.IDs[i])), "\ufffd"); got != c.Decoded[i] {
					t.Errorf("%v decodes to %q, want %q", c.IDs[i], got, c.Decoded[i])
				}
			}
			if ids, err := EncodeAffixed(tok, nil, []byte("hello")); err != nil || !slices.Equal(ids, c.Affixed) {
				t.Errorf("with affixes %v (%v), want %v", ids, err, c.Affixed)
			}
		})
	}
}

// TestReferenceInPieces encodes the same texts in pieces of every small size.
func TestReferenceInPieces(t *testing.T) {
	texts, cases := referenceCases(t)
	all := strings.Join(texts, "")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tok, err := parseFile(c.File)
			if err != nil {
				t.Fatal(err)
			}
			want := encode(t, tok, all)
			for size := 1; size < 40; size++ {
				got, err := collect(tok, iotest.HalfReader(strings.NewReader(all)), size)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("in pieces of %d bytes the ids are others (%v)", size, err)
				}
			}
		})
	}
}

// TestByteFallback checks that a byte that is not UTF-8 has its own token and is restored by decoding, of all ids or
// one at a time.
func TestByteFallback(t *testing.T) {
	tok := parseTest(t, fallback())
	text := "ab\xff é\xe2\x82 日ab"
	ids := encode(t, tok, text)
	id := func(b byte) int32 { return 3 + int32(b) }
	want := []int32{263, id(0xff), 259, id(0xc3), id(0xa9), id(0xe2), id(0x82), 259, id(0xe6), id(0x97), id(0xa5), 262}
	if !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if got := string(DecodeText(tok, nil, ids)); got != text {
		t.Errorf("comes back as %q", got)
	}
	d := NewStreamDecoder(tok)
	var shown []string
	for _, id := range ids {
		shown = append(shown, string(d.Write(id)))
	}
	shown = append(shown, string(d.Flush()))
	characters := []string{" ab", "\ufffd", " ", "", "é", "", "", "\ufffd\ufffd ", "", "", "日", "ab", ""}
	if !slices.Equal(shown, characters) {
		t.Errorf("shown as %q, want %q", shown, characters)
	}
}

// TestOrdinary checks that added tokens in untrusted text are plain characters.
func TestOrdinary(t *testing.T) {
	tok := parseTest(t, fallback())
	ids, err := EncodeOrdinary(tok, nil, []byte("ab</s>"))
	if err != nil || slices.Contains(ids, 2) || string(DecodeText(tok, nil, ids)) != "ab</s>" {
		t.Errorf("found %v, %v", ids, err)
	}
	if ids := encode(t, tok, "ab</s>"); !slices.Equal(ids, []int32{263, 2}) {
		t.Errorf("found %v", ids)
	}
}

// Package chars contains the tokenizers without merges: bytes, the characters of an alphabet, the nucleotides of
// HyenaDNA, and ids written as numbers.
package chars

import (
	"bufio"
	"errors"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"io"
	"maps"
	"slices"
	"unicode/utf8"
)

// CharTokenizer has one token for each character of an alphabet. The id is the character's index in it.
type CharTokenizer struct {
	Alphabet []rune // strictly ascending
	id       map[rune]int32
	ascii    [utf8.RuneSelf]int32 // id of characters below U+0080; -1 if not in the alphabet
}

// Characters returns the tokenizer whose tokens are the characters that occur in the corpus, sorted. It has no
// end-of-text token. Encode returns an error for the first character that is not among them. The corpus must be UTF-8
// and not empty. It is read once, and only the alphabet is kept.
func Characters(corpus io.Reader) (token.Tokenizer, error) {
	in := bufio.NewReaderSize(corpus, 1<<16)
	seen := map[rune]bool{}
	for offset := int64(0); ; {
		r, size, err := in.ReadRune()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: collecting the alphabet at byte offset %d: %w", offset, err)
		}
		if r == utf8.RuneError && size == 1 {
			return nil, fmt.Errorf(
				"tokenizer: collecting the alphabet at byte offset %d: not UTF-8; use bytes instead of chars", offset)
		}
		seen[r] = true
		offset += int64(size)
	}
	t, err := FromAlphabet(string(slices.Sorted(maps.Keys(seen))))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

// FromAlphabet returns the tokenizer of an alphabet, after checking it.
func FromAlphabet(alphabet string) (token.Tokenizer, error) {
	if alphabet == "" {
		return nil, errors.New("the alphabet is empty, want at least one character")
	}
	if !utf8.ValidString(alphabet) {
		return nil, errors.New("the alphabet is not UTF-8")
	}
	t := &CharTokenizer{Alphabet: []rune(alphabet), id: map[rune]int32{}}
	for i := range t.ascii {
		t.ascii[i] = -1
	}
	for i, r := range t.Alphabet {
		if i > 0 && r <= t.Alphabet[i-1] {
			return nil, fmt.Errorf("the alphabet has %q after %q, want ascending order without repeats",
				r, t.Alphabet[i-1])
		}
		t.id[r] = int32(i)
		if r < utf8.RuneSelf {
			t.ascii[r] = int32(i)
		}
	}
	return t, nil
}

func (t *CharTokenizer) Kind() string             { return "chars" }
func (t *CharTokenizer) VocabSize() int           { return len(t.Alphabet) }
func (t *CharTokenizer) EndOfText() (int32, bool) { return 0, false }
func (t *CharTokenizer) NewStream() token.Stream  { return t }

func (t *CharTokenizer) Fingerprint() string {
	f := token.NewFingerprint("chars")
	f.Text(string(t.Alphabet))
	return f.Sum()
}

func (t *CharTokenizer) Save(dir string) error { return token.Save(dir, t) }

func (t *CharTokenizer) Marshal() ([]byte, error) {
	return token.MarshalSection(token.Section{Kind: "chars", Alphabet: string(t.Alphabet)})
}

func (t *CharTokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	dst, _, err := t.EncodeChunk(dst, text, true)
	return dst, err
}

func (t *CharTokenizer) EncodeChunk(dst []int32, text []byte, last bool) ([]int32, int, error) {
	old := len(dst)
	for i := 0; i < len(text); {
		if b := text[i]; b < utf8.RuneSelf && t.ascii[b] >= 0 {
			dst = append(dst, t.ascii[b])
			i++
			continue
		}
		if !last && !utf8.FullRune(text[i:]) {
			return dst, i, nil
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return dst[:old], 0, &token.EncodeError{Offset: int64(i), What: fmt.Sprintf("byte 0x%02x is not UTF-8",
				text[i])}
		}
		id, ok := t.id[r]
		if !ok {
			return dst[:old], 0, &token.EncodeError{Offset: int64(i),
				What: fmt.Sprintf("character %q (%U) is not in the alphabet of %d characters", r, r, len(t.Alphabet))}
		}
		dst = append(dst, id)
		i += size
	}
	return dst, len(text), nil
}

func (t *CharTokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && int(id) < len(t.Alphabet) {
			dst = utf8.AppendRune(dst, t.Alphabet[id])
		}
	}
	return dst
}

package chars

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"strconv"
)

// idTokenizer represents text as the ids themselves, written as numbers. Its value is the size of the vocabulary.
type idTokenizer int

// IDs returns a tokenizer that replaces a missing one with vocab tokens. Text is the ids in decimal, separated by
// spaces or commas, as in "17 4 98". It cannot be saved.
func IDs(vocab int) token.Tokenizer { return idTokenizer(vocab) }

func (idTokenizer) Kind() string             { return "ids" }
func (t idTokenizer) VocabSize() int         { return int(t) }
func (idTokenizer) EndOfText() (int32, bool) { return 0, false }
func (t idTokenizer) Fingerprint() string {
	return token.NewFingerprint(fmt.Sprintf("ids %d", int(t))).Sum()
}

func (idTokenizer) Save(string) error {
	return errors.New("tokenizer: found ids in place of a tokenizer, want one that can be saved")
}

func (t idTokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	out := dst
	for at := 0; at < len(text); {
		n := bytes.IndexAny(text[at:], " ,\t\r\n")
		if n < 0 {
			n = len(text) - at
		}
		if word := string(text[at : at+n]); word != "" {
			id, err := strconv.ParseInt(word, 10, 32)
			if err != nil || id < 0 || id >= int64(t) {
				return dst, &token.EncodeError{Offset: int64(at),
					What: fmt.Sprintf("found %.40q, want an id from 0 to %d", word, int(t)-1)}
			}
			out = append(out, int32(id))
		}
		at += n + 1
	}
	return out, nil
}

// Decode writes a space before each id.
func (t idTokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		dst = strconv.AppendInt(append(dst, ' '), int64(id), 10)
	}
	return dst
}

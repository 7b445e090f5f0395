package chars

import "github.com/hippo-ssm/hippo/tokenizer/token"

// ByteTokenizer has one token for each byte: id and byte are the same number.
type ByteTokenizer struct{}

// Bytes returns the tokenizer whose 256 tokens are the bytes. It has no end-of-text token.
func Bytes() token.Tokenizer { return ByteTokenizer{} }

func (ByteTokenizer) Kind() string             { return "bytes" }
func (ByteTokenizer) VocabSize() int           { return 256 }
func (ByteTokenizer) EndOfText() (int32, bool) { return 0, false }
func (ByteTokenizer) Fingerprint() string      { return token.NewFingerprint("bytes").Sum() }
func (t ByteTokenizer) Save(dir string) error  { return token.Save(dir, t) }
func (ByteTokenizer) Marshal() ([]byte, error) {
	return token.MarshalSection(token.Section{Kind: "bytes"})
}
func (t ByteTokenizer) NewStream() token.Stream { return t }

func (t ByteTokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	dst, _, err := t.EncodeChunk(dst, text, true)
	return dst, err
}

func (ByteTokenizer) EncodeChunk(dst []int32, text []byte, last bool) ([]int32, int, error) {
	for _, b := range text {
		dst = append(dst, int32(b))
	}
	return dst, len(text), nil
}

func (ByteTokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && id < 256 {
			dst = append(dst, byte(id))
		}
	}
	return dst
}

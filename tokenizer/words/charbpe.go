package words

import (
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CharBPE is BPE whose words start as characters instead of bytes.
type CharBPE struct {
	ascii   [utf8.RuneSelf]int32 // token of each ASCII character, -1 for none
	char    map[rune]int32       // tokens of the other characters
	ByteID  [256]int32           // token <0x..> of each byte, -1 for none
	Unknown int32                // -1 for none
	Fuse    bool                 // several unknown characters in a row are one unknown token
	Words   map[string]int32     // words that become one token without merging; nil for none
	Table   bpe.MergeTable
}

// NewCharBPE returns the model of a vocabulary. The byte tokens are used if fallback is true.
func NewCharBPE(vocab map[string]int32, unknown int32, fallback bool) *CharBPE {
	m := &CharBPE{char: map[rune]int32{}, Unknown: unknown, ByteID: ByteTokenIDs(vocab, fallback)}
	for i := range m.ascii {
		m.ascii[i] = -1
	}
	for token, id := range vocab {
		r, size := utf8.DecodeRuneInString(token)
		switch {
		case size != len(token) || r == utf8.RuneError && size < 2:
		case r < utf8.RuneSelf:
			m.ascii[r] = id
		default:
			m.char[r] = id
		}
	}
	return m
}

// byteTokenName returns the name of a byte's token in vocabularies with byte_fallback.
func byteTokenName(b byte) string {
	const digits = "0123456789ABCDEF"
	return "<0x" + string([]byte{digits[b>>4], digits[b&15]}) + ">"
}

// ByteOfToken returns the byte of a token such as <0x0A>.
func ByteOfToken(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}

// ByteTokenIDs returns the ids of the bytes' tokens. An id is -1 if there is no such token or if fallback is false.
func ByteTokenIDs(vocab map[string]int32, fallback bool) (ids [256]int32) {
	for b := range ids {
		id, ok := vocab[byteTokenName(byte(b))]
		if !ok || !fallback {
			id = -1
		}
		ids[b] = id
	}
	return ids
}

// appendBytes appends the tokens of the bytes of a character if all bytes have one.
func appendBytes(dst []int32, ids *[256]int32, char []byte) ([]int32, bool) {
	for _, b := range char {
		if ids[b] < 0 {
			return dst, false
		}
	}
	for _, b := range char {
		dst = append(dst, ids[b])
	}
	return dst, true
}

func (m *CharBPE) Encode(w *Worker, dst []int32, word []byte, whole bool) (ids []int32, bad int) {
	if whole && m.Words != nil {
		if id, ok := m.Words[string(word)]; ok {
			return append(dst, id), -1
		}
	}
	var place *bpe.CachedWord
	if len(word) <= bpe.MaxCachedWord && !w.unknown {
		if w.cache == nil {
			w.cache = &bpe.WordCache{}
		}
		key := bpe.KeyOf(word, 0, len(word))
		place = w.cache.Place(key)
		if place.Key == key {
			return append(dst, place.IDs[:place.N]...), -1
		}
	}
	start := len(dst)
	unknowns := false
	for i := 0; i < len(word); {
		id, size := int32(-1), 1
		if b := word[i]; b < utf8.RuneSelf {
			id = m.ascii[b]
		} else {
			var r rune
			r, size = utf8.DecodeRune(word[i:])
			if known, ok := m.char[r]; ok && !(r == utf8.RuneError && size < 2) {
				id = known
			}
		}
		if id >= 0 {
			dst = append(dst, id)
			w.unknown = false
			i += size
			continue
		}
		var ok bool
		if dst, ok = appendBytes(dst, &m.ByteID, word[i:i+size]); ok {
			w.unknown = false
		} else if m.Unknown < 0 {
			return dst[:start], i
		} else if !w.unknown || !m.Fuse {
			dst = append(dst, m.Unknown)
			w.unknown, unknowns = true, true
		}
		i += size
	}
	dst = dst[:start+len(w.Merge(&m.Table, dst[start:]))]
	if ids := dst[start:]; place != nil && !unknowns && len(ids) <= len(place.IDs) {
		place.Key = bpe.KeyOf(word, 0, len(word))
		place.N = int32(copy(place.IDs[:], ids))
	}
	return dst, -1
}

package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// charBPE is BPE whose words begin as characters, and not as bytes.
type charBPE struct {
	ascii   [utf8.RuneSelf]int32 // the token of each character, -1 for none
	char    map[rune]int32       // and of the others
	byteID  [256]int32           // the token <0x..> of each byte, -1 for none
	unknown int32                // -1 for none
	fuse    bool                 // one unknown for several in a row
	words   map[string]int32     // words that become this token without merging; nil for none
	table   mergeTable
}

// newCharBPE makes the model of a vocabulary. The byte tokens are used if fallback is true.
func newCharBPE(vocab map[string]int32, unknown int32, fallback bool) *charBPE {
	m := &charBPE{char: map[rune]int32{}, unknown: unknown, byteID: byteTokenIDs(vocab, fallback)}
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

// byteTokenName is how vocabularies with byte_fallback write a byte.
func byteTokenName(b byte) string {
	const digits = "0123456789ABCDEF"
	return "<0x" + string([]byte{digits[b>>4], digits[b&15]}) + ">"
}

// byteOfToken is the byte of a token such as <0x0A>.
func byteOfToken(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}

// byteTokenIDs are the ids of the bytes' tokens, -1 for those that are not there or, without fallback, for all.
func byteTokenIDs(vocab map[string]int32, fallback bool) (ids [256]int32) {
	for b := range ids {
		id, ok := vocab[byteTokenName(byte(b))]
		if !ok || !fallback {
			id = -1
		}
		ids[b] = id
	}
	return ids
}

// appendBytes appends the tokens of the bytes of a character, if all have one.
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

func (m *charBPE) encode(w *wordWorker, dst []int32, word []byte, whole bool) (ids []int32, bad int) {
	if whole && m.words != nil {
		if id, ok := m.words[string(word)]; ok {
			return append(dst, id), -1
		}
	}
	var place *cachedWord
	if len(word) <= maxCachedWord && !w.unknown {
		if w.cache == nil {
			w.cache = &wordCache{}
		}
		key := keyOf(word, 0, len(word))
		place = w.cache.place(key)
		if place.key == key {
			return append(dst, place.ids[:place.n]...), -1
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
		if dst, ok = appendBytes(dst, &m.byteID, word[i:i+size]); ok {
			w.unknown = false
		} else if m.unknown < 0 {
			return dst[:start], i
		} else if !w.unknown || !m.fuse {
			dst = append(dst, m.unknown)
			w.unknown, unknowns = true, true
		}
		i += size
	}
	dst = dst[:start+len(w.merge(&m.table, dst[start:]))]
	if ids := dst[start:]; place != nil && !unknowns && len(ids) <= len(place.ids) {
		place.key = keyOf(word, 0, len(word))
		place.n = int32(copy(place.ids[:], ids))
	}
	return dst, -1
}

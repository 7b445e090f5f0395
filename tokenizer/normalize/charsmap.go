package normalize

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// charsmap is SentencePiece's precompiled_charsmap (src/normalizer.cc): strings and their replacements, such as ﬁ and
// fi. The longest string at the start of the remaining text is replaced, again and again. Other characters stay.
//
// The strings form a double-array trie (Aoe 1989) in the layout of the library Darts-clone, with a unit of 32 bits for
// each node. Bits 0 to 7 are the label that leads to the node, bit 8 is set if a string ends there, bits 10 to 30 are
// the offset of its children (times 256 if bit 9 is set). The children of node i are at i ^ offset ^ label. The child
// with label 0 is the value of the string: the offset of its replacement, which ends with a zero byte.
type charsmap struct {
	units   []uint32
	texts   []byte
	Longest int // bytes of the longest replacement
}

// maxCharsmap limits the size in the file; the largest published one has about 300 KB. maxKey limits the length of
// strings, so that the time is linear in the text.
const (
	maxCharsmap = 16 << 20
	maxKey      = 64
	maxReplaced = 256 // bytes of a replacement
)

// NewCharsmap parses the binary form: the size of the trie in bytes, the trie, the replacements.
func NewCharsmap(data []byte) (*charsmap, error) {
	if len(data) > maxCharsmap {
		return nil, fmt.Errorf("precompiled_charsmap: %d bytes, want at most %d", len(data), maxCharsmap)
	}
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap: it ends before its size")
	}
	size := int64(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if size%4 != 0 || size > int64(len(data)) {
		return nil, fmt.Errorf("precompiled_charsmap: a trie of %d bytes in %d, want a multiple of 4 that fits", size,
			len(data))
	}
	m := &charsmap{texts: data[size:]}
	for i := int64(0); i < size; i += 4 {
		m.units = append(m.units, binary.LittleEndian.Uint32(data[i:]))
	}
	if len(m.units) == 0 {
		return nil, errors.New("precompiled_charsmap: the trie is empty")
	}
	if len(m.texts) > 0 && m.texts[len(m.texts)-1] != 0 {
		return nil, errors.New("precompiled_charsmap: the last replacement does not end with a zero")
	}
	for part := range bytes.SplitSeq(m.texts, []byte{0}) {
		m.Longest = max(m.Longest, len(part))
	}
	if m.Longest > maxReplaced {
		return nil, fmt.Errorf("precompiled_charsmap: a replacement of %d bytes, want at most %d", m.Longest,
			maxReplaced)
	}
	return m, nil
}

// offset returns the offset of a node's children, to be combined by ^ with the node's index and their labels.
func offset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// find returns the replacement and the length of the longest string at the start of text; n is 0 if there is none. open
// reports whether a longer string is possible if more text follows.
func (m *charsmap) find(text []byte) (with []byte, n int, open bool) {
	at := offset(m.units[0])
	for i, b := range text {
		if i == maxKey || b == 0 {
			return with, n, false
		}
		at ^= uint32(b)
		if int(at) >= len(m.units) {
			return with, n, false
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(b) {
			return with, n, false
		}
		at ^= offset(unit)
		if unit>>8&1 == 0 || int(at) >= len(m.units) {
			continue
		}
		if value := int(m.units[at] &^ (1 << 31)); value < len(m.texts) {
			end := bytes.IndexByte(m.texts[value:], 0)
			with, n = m.texts[value:value+end], i+1
		}
	}
	return with, n, len(text) < maxKey
}

func (m *charsmap) Apply(dst, src []byte, _, final bool) ([]byte, int) {
	for i := 0; i < len(src); {
		with, n, open := m.find(src[i:])
		if open && !final {
			return dst, i
		}
		if n > 0 {
			dst = append(dst, with...)
			i += n
			continue
		}
		_, size := utf8.DecodeRune(src[i:])
		dst = append(dst, src[i:i+size]...)
		i += size
	}
	return dst, len(src)
}

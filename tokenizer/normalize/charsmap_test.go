package normalize

import (
	"encoding/binary"
	"strings"
	"testing"
)

// TestHostileCharsmap checks that the search ends in a trie whose nodes lead to themselves, because every step consumes
// a byte of a key with bounded length, and that offsets outside the file are not replacements.
func TestHostileCharsmap(t *testing.T) {
	units := make([]byte, 4+4*256)
	binary.LittleEndian.PutUint32(units, 4*256)
	for b := range 256 {
		// Byte b leads to node b. Its children are at 0 ^ label again, and a string ends in it.
		binary.LittleEndian.PutUint32(units[4+4*b:], uint32(b)<<10|1<<8|uint32(b))
	}
	m, err := NewCharsmap(append(units, "x\x00"...))
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("abcdefgh", 1<<14))
	out, used := m.Apply(nil, text, true, true)
	if used != len(text) || len(out) > 256*len(text) {
		t.Errorf("%d of %d bytes used, %d bytes out", used, len(text), len(out))
	}
	if _, n, open := m.find([]byte(strings.Repeat("a", 1000))); n > maxKey || open {
		t.Errorf("a key of %d bytes, open: %v", n, open)
	}
}

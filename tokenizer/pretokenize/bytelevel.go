package pretokenize

import (
	"cmp"
	"slices"
	"strings"
)

// Byte-level BPE files write a token, which is a string of bytes, as a string of visible characters, one for each byte
// (bytes_to_unicode in GPT-2's src/encoder.py). A byte that is a visible character of Latin-1 stands for itself. The
// other 68 bytes are U+0100, U+0101, … in order. So a space is Ġ (U+0120).

// ByteChar maps bytes to characters.
var ByteChar = func() (chars [256]rune) {
	next := rune(0x100)
	for b := range chars {
		if '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || 0xae <= b {
			chars[b] = rune(b)
		} else {
			chars[b] = next
			next++
		}
	}
	return chars
}()

// charByte maps characters to bytes. It is -1 for other characters.
var charByte = func() (bytes [0x100 + 68]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, c := range ByteChar {
		bytes[c] = int16(b)
	}
	return bytes
}()

// ByteOrder lists the bytes in the order of their characters, which is their order in GPT-2 and in trained
// vocabularies.
var ByteOrder = func() (order [256]byte) {
	for i := range order {
		order[i] = byte(i)
	}
	slices.SortFunc(order[:], func(a, b byte) int { return cmp.Compare(ByteChar[a], ByteChar[b]) })
	return order
}()

// ToChars returns the bytes of a token as characters.
func ToChars(token string) string {
	var b strings.Builder
	for i := range len(token) {
		b.WriteRune(ByteChar[token[i]])
	}
	return b.String()
}

// FromChars is the inverse of ToChars. ok is false if a character stands for no byte.
func FromChars(chars string) (token string, ok bool) {
	b := make([]byte, 0, len(chars))
	for _, c := range chars {
		if int(c) >= len(charByte) || charByte[c] < 0 {
			return "", false
		}
		b = append(b, byte(charByte[c]))
	}
	return string(b), true
}

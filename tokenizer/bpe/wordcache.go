package bpe

import "encoding/binary"

// WordCache caches the ids of words, since most words of a text have occurred before. It stores words of at most 15
// bytes and at most 3 tokens, which is nearly all of them. Each word has one possible slot, which holds the latest
// word. Size and time are fixed.
type WordCache [1 << wordCacheBits]CachedWord

const (
	wordCacheBits = 15
	MaxCachedWord = 15
)

// wordKey holds a word of up to 15 bytes and, in the highest byte of hi, its length.
type wordKey struct{ lo, hi uint64 }

// CachedWord takes 32 bytes, half a cache line.
type CachedWord struct {
	Key wordKey
	IDs [3]int32
	N   int32
}

// KeyOf returns the key of the word text[lo:hi], which must have 1 to 15 bytes.
func KeyOf(text []byte, lo, hi int) wordKey {
	n := hi - lo
	var k wordKey
	if lo+16 <= len(text) {
		k = wordKey{binary.LittleEndian.Uint64(text[lo:]), binary.LittleEndian.Uint64(text[lo+8:])}
	} else {
		var buf [16]byte
		copy(buf[:], text[lo:hi])
		k = wordKey{binary.LittleEndian.Uint64(buf[:]), binary.LittleEndian.Uint64(buf[8:])}
	}
	if n < 8 {
		k.lo &= 1<<(8*n) - 1
		k.hi = 0
	} else {
		k.hi &= 1<<(8*(n-8)) - 1
	}
	k.hi |= uint64(n) << 56
	return k
}

// Place returns the slot of a word.
func (c *WordCache) Place(k wordKey) *CachedWord {
	h := (k.lo ^ k.hi*0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15
	return &c[h>>(64-wordCacheBits)]
}

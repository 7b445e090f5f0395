package constrain

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// char writes states that accept one character in ranges.
func (b *builder) char(ranges []rune, spelled spelling, next int32) int32 {
	key := fmt.Appendf(nil, "%t", spelled)
	for _, r := range ranges {
		key = utf8.AppendRune(key, r)
	}
	entry, ok := b.classes[string(key)]
	if !ok {
		entry = b.class(ranges, spelled)
		b.classes[string(key)] = entry
	}
	return b.callShort(entry, next)
}

// class writes states that accept one character in ranges and return. In JSON a character that must be escaped has only
// its shortest spelling. If ranges is the set of all characters, each may also be written by its number.
func (b *builder) class(ranges []rune, spelled spelling) int32 {
	var plain [][]byteRange
	escaped := []int32{}
	for i := 0; i < len(ranges); i += 2 {
		low, high := ranges[i], ranges[i+1]
		if spelled == rawText {
			plain = appendUTF8(plain, low, high)
			continue
		}
		from := low
		for _, r := range mustEscape {
			if r >= low && r <= high {
				escaped = append(escaped, b.text(escape(r)[1:], final))
				if from < r {
					plain = appendUTF8(plain, from, r-1)
				}
				from = r + 1
			}
		}
		plain = appendUTF8(plain, from, high)
	}
	if spelled == jsonText && slices.Equal(ranges, anyRune) {
		escaped = append(escaped, b.bytes('/', '/', final), b.bytes('u', 'u', b.numbered()))
	}
	var ways []int32
	if len(escaped) > 0 {
		ways = append(ways, b.bytes('\\', '\\', b.either(escaped...)))
	}
	if len(plain) > 0 {
		ways = append(ways, b.sequences(plain))
	}
	return b.either(ways...)
}

// numbered writes states that accept the four hexadecimal digits of a character, or those of both surrogates of one.
func (b *builder) numbered() int32 {
	digit := func(ranges string, next int32) int32 {
		var ways []int32
		for i := 0; i < len(ranges); i += 2 {
			ways = append(ways, b.bytes(ranges[i], ranges[i+1], next))
		}
		return b.either(ways...)
	}
	const all = "09AFaf"
	last := digit(all, digit(all, final))
	second := b.text("\\u", digit("DDdd", digit("CFcf", last)))
	first := digit("89ABab", digit(all, digit(all, second)))
	return b.either(digit("09ACEFacef", digit(all, last)), digit("DDdd", b.either(digit("07", last), first)))
}

// byteRange is the range of bytes from low to high.
type byteRange struct{ low, high byte }

// sequences writes states that accept one of several sequences of bytes and return. The sequences must be sorted. Those
// with the same prefix share states.
func (b *builder) sequences(all [][]byteRange) int32 {
	if len(all[0]) == 0 {
		return final
	}
	var ways []int32
	for len(all) > 0 {
		first, n := all[0][0], 1
		for n < len(all) && all[n][0] == first {
			n++
		}
		rests := make([][]byteRange, n)
		for i := range rests {
			rests[i] = all[i][1:]
		}
		ways = append(ways, b.bytes(first.low, first.high, b.sequences(rests)))
		all = all[n:]
	}
	return b.either(ways...)
}

// appendUTF8 appends the byte sequences that encode the characters from low to high in UTF-8.
func appendUTF8(to [][]byteRange, low, high rune) [][]byteRange {
	const surrogates, behind = 0xD800, 0xE000
	split := func(at rune) [][]byteRange { return appendUTF8(appendUTF8(to, low, at), at+1, high) }
	switch {
	case low > high:
		return to
	case low < behind && high >= surrogates:
		return appendUTF8(appendUTF8(to, low, min(high, surrogates-1)), max(low, behind), high)
	case low < utf8.RuneSelf && high >= utf8.RuneSelf:
		return split(utf8.RuneSelf - 1)
	case low <= 0x7FF && high > 0x7FF:
		return split(0x7FF)
	case low <= 0xFFFF && high > 0xFFFF:
		return split(0xFFFF)
	}
	for i := 6; i < 6*utf8.RuneLen(low); i += 6 { // if the bits before differ, the last i bits must take all values
		mask := rune(1)<<i - 1
		if low&^mask == high&^mask {
			continue
		}
		if low&mask != 0 {
			return split(low | mask)
		}
		if high&mask != mask {
			return split(high&^mask - 1)
		}
	}
	l, h := string(low), string(high)
	one := make([]byteRange, len(l))
	for i := range one {
		one[i] = byteRange{l[i], h[i]}
	}
	return append(to, one)
}

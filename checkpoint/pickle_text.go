package checkpoint

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Literals of the pickle format: decimal numbers, Python's notation of strings and long integers.

// maxIntDigits bounds integers written in decimal, whose conversion takes time that grows faster than their length.
const maxIntDigits = 100

// parseInt reads the argument of INT or LONG: decimal digits, for LONG with an L at the end. In INT, 00 and 01 stand
// for false and true.
func parseInt(s string) (any, error) {
	switch s {
	case "00":
		return false, nil
	case "01":
		return true, nil
	}
	digits := strings.TrimSuffix(s, "L")
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, nil
	}
	if len(digits) <= maxIntDigits {
		if n, ok := new(big.Int).SetString(digits, 10); ok {
			return n, nil
		}
	}
	return nil, fmt.Errorf("found %.20q, want an integer of at most %d digits", s, maxIntDigits)
}

func parseFloat(s string) (any, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("found %.20q, want a number", s)
	}
	return x, nil
}

// longFromBytes reads a little-endian two's complement integer of any length.
func longFromBytes(b []byte) any {
	if len(b) <= 8 {
		n := uint64(0)
		for i, c := range b {
			n |= uint64(c) << (8 * i)
		}
		shift := 64 - 8*len(b)
		return int64(n<<shift) >> shift
	}
	be := slices.Clone(b)
	slices.Reverse(be)
	n := new(big.Int).SetBytes(be)
	if be[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(be))))
	}
	return n
}

// parseRepr reads a string in quotes with the escapes that Python's repr writes for a byte string.
func parseRepr(s string) (any, error) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return nil, fmt.Errorf("found %.20q, want a string in quotes", s)
	}
	s = s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case i < len(s) && strings.IndexByte(`\'"`, s[i]) >= 0:
			b.WriteByte(s[i])
		case i < len(s) && strings.IndexByte("ntr", s[i]) >= 0:
			b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'r': '\r'}[s[i]])
		case i+2 < len(s) && s[i] == 'x' && isHex(s[i+1:i+3]):
			n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
			b.WriteByte(byte(n))
			i += 2
		default:
			return nil, fmt.Errorf("found an unknown escape in %.20q", s)
		}
	}
	return b.String(), nil
}

// parseRawUnicode reads Python's raw-unicode-escape: \uXXXX and \UXXXXXXXX are code points, other bytes are Latin-1.
func parseRawUnicode(s string) (any, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		width := 0
		if s[i] == '\\' && i+1 < len(s) {
			width = map[byte]int{'u': 4, 'U': 8}[s[i+1]]
		}
		if width == 0 {
			b.WriteRune(rune(s[i]))
			continue
		}
		if i+2+width > len(s) || !isHex(s[i+2:i+2+width]) {
			return nil, fmt.Errorf("found a broken escape in %.20q", s)
		}
		n, _ := strconv.ParseUint(s[i+2:i+2+width], 16, 32)
		b.WriteRune(rune(n))
		i += 1 + width
	}
	return b.String(), nil
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

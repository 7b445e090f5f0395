package table

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parseNumber parses a finite decimal number with a decimal point or, if comma is set, a decimal comma. It ignores
// digit group separators: 1,234.5 or 1.234,5, and spaces or apostrophes.
func parseNumber(text string, comma bool) (float64, bool) {
	if len(text) == 0 || len(text) > 64 {
		return 0, false
	}
	point, group := byte('.'), ','
	if comma {
		point, group = ',', '.'
	}
	if x, ok := shortNumber(text, point); ok {
		return x, true
	}
	text, ok := ungrouped(text, point, group)
	if !ok {
		return 0, false
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false // inf, nan, hexadecimal
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(x, 0) || math.IsInf(x, 0) {
		return 0, false
	}
	return x, true
}

// tens are powers of ten, which a float64 holds exactly.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// mostDigits is the number of digits up to which a whole number is certainly below 2^53.
const mostDigits = 15

// shortNumber parses most numbers of a table: an optional sign, at most mostDigits digits, an optional point. The whole
// number and the power of ten are exact, so one division gives the nearest float64 (Clinger, "How to read floating
// point numbers accurately", 1990).
func shortNumber(text string, point byte) (float64, bool) {
	i := 0
	if text[0] == '-' || text[0] == '+' {
		i++
	}
	x, digits, places := int64(0), 0, -1
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			x = 10*x + int64(c-'0')
			if digits++; digits > mostDigits {
				return 0, false
			}
		case c == point && places < 0:
			places = digits
		default:
			return 0, false
		}
	}
	if digits == 0 {
		return 0, false
	}
	y := float64(x)
	if places >= 0 {
		y /= tens[digits-places]
	}
	if text[0] == '-' {
		y = -y
	}
	return y, true
}

// ungrouped returns a number with a decimal point and without digit group separators: group, spaces or apostrophes, but
// only one of these. Groups have three digits, or two as in India except for the last one.
func ungrouped(text string, point byte, group rune) (string, bool) {
	whole, fraction, has := strings.Cut(text, string(point))
	split := func(r rune) bool { return r == group || r == '\'' || r == '’' || unicode.IsSpace(r) }
	at := strings.IndexFunc(whole, split)
	if strings.IndexFunc(fraction, split) >= 0 || has && strings.IndexByte(fraction, point) >= 0 {
		return "", false
	}
	if at >= 0 {
		sign, _ := utf8.DecodeRuneInString(whole[at:])
		parts := strings.Split(whole, string(sign))
		first := strings.TrimLeft(parts[0], "+-")
		size := len(parts[1])
		if first == "" || first[0] == '0' || len(first) > size || size != 3 && (size != 2 || sign != ',') ||
			len(parts[len(parts)-1]) != 3 {
			return "", false
		}
		for _, part := range parts[1 : len(parts)-1] {
			if len(part) != size {
				return "", false
			}
		}
		whole = strings.Join(parts, "")
	}
	if has {
		whole += "." + fraction
	}
	return whole, true
}

// categoryText returns a number as a category, so that an id such as 1234567 does not become 1.234567e+06.
func categoryText(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < mostWhole {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

package table

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber parses a finite decimal number with a decimal point or, if comma is set, a decimal comma. Signs that
// group digits by three (1,234.5 or 1.234,5, and spaces) are ignored.
func parseNumber(text string, comma bool) (float64, bool) {
	if len(text) == 0 || len(text) > 64 {
		return 0, false
	}
	point, group := byte('.'), byte(',')
	if comma {
		point, group = group, point
	}
	if x, ok := shortNumber(text, point); ok {
		return x, true
	}
	if comma || strings.IndexByte(text, group) >= 0 {
		var ok bool
		if text, ok = ungrouped(text, point, group); !ok {
			return 0, false
		}
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

// mostDigits is how many digits make a whole number below 2^53 for certain.
const mostDigits = 15

// shortNumber parses most numbers of a table: an optional sign, at most mostDigits digits, an optional point. The whole
// number and the power of ten are exact, so that one division returns the nearest float64 (Clinger, "How to read
// floating point numbers accurately", 1990).
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

// ungrouped returns a number with a decimal point and without signs that group digits by three.
func ungrouped(text string, point, group byte) (string, bool) {
	whole, fraction, has := strings.Cut(text, string(point))
	parts := strings.Split(whole, string(group))
	if len(parts) > 1 && strings.HasPrefix(strings.TrimLeft(parts[0], "+-"), "0") {
		return "", false
	}
	for i, part := range parts {
		if i > 0 && len(part) != 3 || i == 0 && len(parts) > 1 && (part == "" || len(strings.TrimLeft(part,
			"+-")) > 3) {
			return "", false
		}
	}
	if strings.IndexByte(fraction, group) >= 0 || has && strings.IndexByte(fraction, point) >= 0 {
		return "", false
	}
	text = strings.Join(parts, "")
	if has {
		text += "." + fraction
	}
	return text, true
}

// looksComma reports whether a text is a number only with a decimal comma.
func looksComma(text string) bool {
	return strings.IndexByte(text, ',') >= 0 && onlyWith(true, text)
}

// looksPoint reports whether a text is a number only with a decimal point.
func looksPoint(text string) bool {
	return strings.IndexByte(text, '.') >= 0 && onlyWith(false, text)
}

func onlyWith(comma bool, text string) bool {
	_, with := parseNumber(text, comma)
	_, without := parseNumber(text, !comma)
	return with && !without
}

// categoryText returns a number as a category: an id such as 1234567 does not become 1.234567e+06.
func categoryText(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < mostWhole {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

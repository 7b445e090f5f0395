package table

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber reads a finite decimal number, with a point or, where comma is set, a comma before its fraction. Signs
// that group digits (1,234.5 or 1.234,5, and spaces) are left out where they stand before each three digits.
func parseNumber(text string, comma bool) (float64, bool) {
	if len(text) == 0 || len(text) > 64 {
		return 0, false
	}
	point, group := byte('.'), byte(',')
	if comma {
		point, group = group, point
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

// ungrouped is a number with a point for the sign point and without the signs group, which stand before three digits.
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

// looksComma reports whether a text is a number only with a comma before its fraction.
func looksComma(text string) bool {
	_, with := parseNumber(text, true)
	if !with || strings.IndexByte(text, ',') < 0 {
		return false
	}
	_, without := parseNumber(text, false)
	return !without
}

// looksPoint reports whether a text is a number only with a point before its fraction.
func looksPoint(text string) bool {
	_, with := parseNumber(text, false)
	if !with || strings.IndexByte(text, '.') < 0 {
		return false
	}
	_, without := parseNumber(text, true)
	return !without
}

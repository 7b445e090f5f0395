package table

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// percent is the mark of numbers that are percentages.
const percent = "%"

// currencies lists currency marks that are not currency signs of Unicode. Those that consist of letters need a space.
var currencies = []string{"US$", "A$", "C$", "R$", "kr.", "kr", "zł", "Kč", "Fr.", "CHF", "EUR", "USD", "GBP", "JPY",
	"CNY", "INR", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "CAD", "AUD", "NZD", "BRL", "ZAR", "MXN", "KRW"}

// unmarked splits a number such as "(€ 1,062.50)" or "-12 %" into its digits, with a minus for parentheses, and its
// mark: a currency, percent, or "".
func unmarked(text string) (digits, mark string) {
	if bare := strings.TrimLeft(text, "+-."); bare == "" || isDigit(bare[0]) && isDigit(bare[len(bare)-1]) {
		return text, "" // most numbers
	}
	minus := ""
	if inner, ok := strings.CutPrefix(text, "("); ok && strings.HasSuffix(inner, ")") {
		minus, text = "-", inner[:len(inner)-1]
	}
	for range 2 { // the minus may be before or after the currency
		text = strings.TrimSpace(text)
		for _, sign := range []string{"-", "−"} {
			if rest, ok := strings.CutPrefix(text, sign); ok && minus == "" {
				minus, text = "-", strings.TrimSpace(rest)
			}
		}
		if mark == "" {
			text, mark = cutMark(text)
		}
	}
	return minus + text, mark
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// cutMark removes a currency or percent sign from the start or the end of a text.
func cutMark(text string) (rest, mark string) {
	for _, m := range currencies {
		space := func(r rune) bool { return unicode.IsSpace(r) || strings.HasSuffix(m, "$") }
		if rest, ok := strings.CutPrefix(text, m); ok && strings.IndexFunc(rest, space) == 0 {
			return strings.TrimSpace(rest), m
		}
		if rest, ok := strings.CutSuffix(text, m); ok && strings.TrimSpace(rest) != rest {
			return strings.TrimSpace(rest), m
		}
	}
	first, n := utf8.DecodeRuneInString(text)
	last, k := utf8.DecodeLastRuneInString(text)
	isMark := func(r rune) bool { return r == '%' || unicode.Is(unicode.Sc, r) }
	switch {
	case isMark(last):
		return strings.TrimSpace(text[:len(text)-k]), text[len(text)-k:]
	case isMark(first):
		return strings.TrimSpace(text[n:]), text[:n]
	}
	return text, ""
}

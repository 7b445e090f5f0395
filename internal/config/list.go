package config

import (
	"errors"
	"strings"
)

// splitList splits a list at the commas outside of parentheses, so that an item may be a mixer with options. An item
// that starts with a quote ends at the next single quote; a doubled quote in it means one quote, as in CSV (RFC 4180).
// So any item can be written. "" is the empty list and `""` the list of one empty item.
func splitList(text string) ([]string, error) {
	items := []string{}
	if text == "" {
		return items, nil
	}
	for {
		var item string
		if strings.HasPrefix(text, `"`) {
			n, ok := quotedLength(text)
			if !ok {
				return nil, errors.New(`want a closing " before the next comma or the end`)
			}
			item, text = strings.ReplaceAll(text[1:n-1], `""`, `"`), text[n:]
		} else {
			n, _ := plainLength(text)
			item, text = text[:n], text[n:]
		}
		items = append(items, item)
		if text == "" {
			return items, nil
		}
		text = text[1:] // the comma
	}
}

// plainLength returns the length of the item without quotes that text starts with: to the first comma outside of
// parentheses. If a parenthesis is not closed, closed is false, and the item ends at the first comma.
func plainLength(text string) (n int, closed bool) {
	depth, first := 0, len(text)
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth = max(depth-1, 0)
		case ',':
			if depth == 0 {
				return i, true
			}
			first = min(first, i)
		}
	}
	if depth > 0 {
		return first, false
	}
	return len(text), true
}

// quotedLength returns the length of the quoted item that text starts with. Its closing quote must be at the end of the
// text or before a comma.
func quotedLength(text string) (n int, ok bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] != '"':
		case strings.HasPrefix(text[i:], `""`):
			i++
		default:
			return i + 1, i+1 == len(text) || text[i+1] == ','
		}
	}
	return 0, false
}

// joinList writes a list so that splitList reads the same items.
func joinList(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		// A single empty item needs its quotes; quoting all empty items is simpler, and as clear.
		if _, closed := plainLength(item); item == "" || !closed || strings.ContainsAny(item, `",`) {
			item = `"` + strings.ReplaceAll(item, `"`, `""`) + `"`
		}
		quoted[i] = item
	}
	return strings.Join(quoted, ",")
}

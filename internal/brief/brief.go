// Package brief shortens and sanitizes the text of errors. Names and values in messages come from files, and a file can
// contain a name of megabytes, or one with terminal commands.
package brief

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxError is the maximum length in bytes of a message of Error, before each invisible byte is escaped as up to
	// six.
	MaxError = 16 << 10
	// MaxLine is the same for Line.
	MaxLine = 1 << 10
	// MaxItems is the maximum number of items that List names.
	MaxItems = 100
)

// Error bounds the message of err and makes control characters in it visible. errors.Is and errors.As still find the
// same errors. Error(nil) is nil. It should be called where errors about a file leave the package that reads it, and
// where they are printed.
func Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	bounded := visible(cut(text, MaxError))
	if bounded == text {
		return err
	}
	return &short{bounded, err}
}

// short is an error with another message.
type short struct {
	text string
	err  error
}

func (e *short) Error() string { return e.text }
func (e *short) Unwrap() error { return e.err }

// Line bounds a line of a message, for example a name and its error.
func Line(s string) string { return visible(cut(s, MaxLine)) }

// List joins the first MaxItems items by sep and appends the number of the others.
func List(items []string, sep string) string {
	if more := len(items) - MaxItems; more > 0 {
		return strings.Join(items[:MaxItems], sep) + sep + fmt.Sprintf("and %d more", more)
	}
	return strings.Join(items, sep)
}

// cut keeps the first and the last part of a long text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := most*3/4, len(s)-most/4
	for range utf8.UTFMax - 1 { // do not cut within a character
		if !utf8.RuneStart(s[head]) {
			head--
		}
		if !utf8.RuneStart(s[tail]) {
			tail++
		}
	}
	return fmt.Sprintf("%s … (%d bytes left out) … %s", s[:head], tail-head, s[tail:])
}

// visible escapes control characters, except newlines and tabs, and bytes that are not UTF-8, as in a Go string.
func visible(s string) string {
	if strings.IndexFunc(s, invisible) < 0 && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if invisible(r) || r == utf8.RuneError && n == 1 {
			quoted := strconv.Quote(s[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}

func invisible(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

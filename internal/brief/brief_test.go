package brief

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestError checks that a short message stays the same error, and that a long one keeps its ends, its causes and its
// encoding.
func TestError(t *testing.T) {
	plain := errors.New("x.json: found 3, want 4\n\tand ä")
	if Error(plain) != plain || Error(nil) != nil {
		t.Error("an error that needs no change was changed")
	}
	for _, fill := range []string{"x", "ä", "€", "\xff", "\x80"} {
		long := Error(fmt.Errorf("start %s end: %w", strings.Repeat(fill, 10<<20), fs.ErrNotExist))
		text := long.Error()
		if len(text) > 6*MaxError || !strings.HasPrefix(text, "start ") || !strings.HasSuffix(text,
			" end: file does not exist") {
			t.Errorf("%d bytes: %.40q … %q", len(text), text, text[len(text)-40:])
		}
		if !errors.Is(long, fs.ErrNotExist) || !utf8.ValidString(text) || !strings.Contains(text, "bytes left out") {
			t.Errorf("of %q: %.40q", fill, text)
		}
	}
}

// TestControlCharactersAreSeen checks that no name in a file can move the cursor or ring the bell.
func TestControlCharactersAreSeen(t *testing.T) {
	got := Error(errors.New("name \x1b[2J\a\r ends\n\u0085 \xff")).Error()
	if want := `name \x1b[2J\a\r ends` + "\n" + `\u0085 \xff`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestList checks that a short list is complete, and that a long one ends with the number of items left out.
func TestList(t *testing.T) {
	if got := List([]string{"a", "b"}, ", "); got != "a, b" {
		t.Errorf("got %q", got)
	}
	got := List(slices.Repeat([]string{"a"}, 1000), ", ")
	if want := strings.Repeat("a, ", MaxItems) + "and 900 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

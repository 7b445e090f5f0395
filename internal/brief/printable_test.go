package brief

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n",
		"Größe 日本 👩‍👩‍👧 \u00a0":        "Größe 日本 👩‍👩‍👧 \u00a0",
		"\x1b[31m\a\r\b\x00":           `\x1b[31m\x07\x0d\x08\x00`,
		"\x7f\u009b2J":                 `\u007f\u009b2J`,
		"half \xc3 and \x9b":           `half \xc3 and \x9b`,
		"what a decoder gives: \ufffd": "what a decoder gives: \ufffd",
		"":                             "",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

package explain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// tokenText is a token as it is shown: what cannot be seen is written by a sign, bytes that are no text as \xff. A
// token without text has its number.
func tokenText(tok tokenizer.Tokenizer, id int32) string {
	text := string(tok.Decode(nil, []int32{id}))
	if text == "" {
		return fmt.Sprintf("<%d>", id)
	}
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch size = n; {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n':
			b.WriteRune('↵')
		case r == '\t':
			b.WriteRune('⇥')
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// tokenTexts are tokens as they are shown.
func tokenTexts(tok tokenizer.Tokenizer, ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = tokenText(tok, id)
	}
	return out
}

// quoted is a token in a sentence, where its spaces must be seen.
func quoted(tok tokenizer.Tokenizer, id int32) string { return "“" + tokenText(tok, id) + "”" }

// likelyText lists tokens and their probabilities.
func likelyText(tok tokenizer.Tokenizer, all []Likely) string {
	var b strings.Builder
	for i, x := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", quoted(tok, x.ID), percent(x.P))
	}
	return b.String()
}

// percent is a probability as text.
func percent(p float64) string { return fmt.Sprintf("%.3g %%", 100*p) }

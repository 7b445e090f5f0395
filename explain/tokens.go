package explain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TokenText returns a token in readable form: invisible characters are replaced by signs, and bytes that are not text
// by escapes such as \xff. For a token without text it returns the number.
func TokenText(tok tokenizer.Tokenizer, id int32) string {
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

// TokenTexts returns tokens in readable form.
func TokenTexts(tok tokenizer.Tokenizer, ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = TokenText(tok, id)
	}
	return out
}

// Quoted returns a token in quotes, for use in a sentence, so that its spaces are visible.
func Quoted(tok tokenizer.Tokenizer, id int32) string { return "“" + TokenText(tok, id) + "”" }

// LikelyText lists tokens and their probabilities.
func LikelyText(tok tokenizer.Tokenizer, all []Likely) string {
	var b strings.Builder
	for i, x := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", Quoted(tok, x.ID), Percent(x.P))
	}
	return b.String()
}

// Percent formats a probability.
func Percent(p float64) string { return fmt.Sprintf("%.3g %%", 100*p) }

// Papers returns the papers of the mixers that a layer's kind names.
func Papers(kind string) string {
	var papers []string
	for _, info := range model.Mixers() {
		if slices.Contains(strings.FieldsFunc(kind, func(r rune) bool { return r == '+' || r == '>' }), info.Name) {
			papers = append(papers, info.Paper)
		}
	}
	return strings.Join(papers, "; ")
}

// TokenNames returns the texts of tokens, with invisible characters made visible.
func TokenNames(tok tokenizer.Tokenizer, ids []int32) []string {
	names := make([]string, len(ids))
	for i := range ids {
		text := strings.ToValidUTF8(string(tok.Decode(nil, ids[i:i+1])), "\uFFFD")
		text = strings.NewReplacer("\n", "⏎", "\t", "⇥", "\r", "␍").Replace(text)
		names[i] = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return '\uFFFD'
			}
			return r
		}, text)
	}
	return names
}

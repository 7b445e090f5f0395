package explain

import (
	"strings"
	"unicode"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// TokenNames are the texts of tokens, with what has no picture made visible.
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

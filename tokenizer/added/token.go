// Package added finds added tokens, such as <|endoftext|>, in text. The time is linear in the text, independent of the
// number and length of the tokens (Aho and Corasick 1975, doi 10.1145/360825.360855).
package added

import "github.com/hippo-ssm/hippo/tokenizer/token"

// Token is an added token, as in a tokenizer.json. It is found in a text before any other token. Content must not be
// empty.
type Token struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// HasFlags reports whether what is next to the token affects or belongs to it.
func (a Token) HasFlags() bool { return a.SingleWord || a.LStrip || a.RStrip }

// endNames lists the names of tokens that end a document, in order of preference: that of GPT-2 and GPT-NeoX, that of
// Llama 3, and older ones.
var endNames = []string{token.EndOfTextToken, "<|end_of_text|>", "</s>", "<eos>"}

// EndOfText returns the first token of endNames that is among the added ones. If there is none, it returns end, which
// is nil for none.
func EndOfText(added []Token, end *int32) (int32, bool) {
	for _, name := range endNames {
		for _, a := range added {
			if a.Content == name {
				return a.ID, true
			}
		}
	}
	if end == nil {
		return 0, false
	}
	return *end, true
}

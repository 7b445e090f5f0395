// Package added finds added tokens, such as <|endoftext|>, in text, in time linear in the text however long and many
// they
// are (Aho and Corasick 1975, doi 10.1145/360825.360855).
package added

import "github.com/hippo-ssm/hippo/tokenizer/token"

// Token is an added token, as a tokenizer.json describes it: a text that is found before anything else. It is not
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

// hasFlags reports whether the token takes or needs something beside it.
func (a Token) HasFlags() bool { return a.SingleWord || a.LStrip || a.RStrip }

// endNames are the names of the token that ends a document, in order of preference: GPT-2's and GPT-NeoX's, Llama
// 3's, and older ones.
var endNames = []string{token.EndOfTextToken, "<|end_of_text|>", "</s>", "<eos>"}

// EndOfText is the token of one of endNames or, where none is among the added ones, end, nil for none.
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

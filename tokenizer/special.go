package tokenizer

import (
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"slices"
)

// WithoutSpecial returns a tokenizer, for decoding only, that decodes special tokens, such as those that end a message,
// to nothing, except for the texts in keep. So the text that a model writes is what users should read.
func WithoutSpecial(tok Tokenizer, keep ...string) Tokenizer {
	special := map[int32]bool{}
	if t, ok := tok.(interface{ AddedTokens() []added.Token }); ok {
		for _, a := range t.AddedTokens() {
			if a.Special && !slices.Contains(keep, a.Content) {
				special[a.ID] = true
			}
		}
	}
	if len(special) == 0 {
		return tok
	}
	return readable{tok, special}
}

// readable is the tokenizer that WithoutSpecial returns.
type readable struct {
	Tokenizer
	special map[int32]bool
}

func (t readable) Decode(dst []byte, ids []int32) []byte {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return t.special[id] })
	return t.Tokenizer.Decode(dst, ids)
}

package tokenizer

import (
	"slices"
)

// EncodeAffixed is like tok.Encode, and also adds the ids of Affixes before and after the text.
func EncodeAffixed(tok Tokenizer, dst []int32, text []byte) ([]int32, error) {
	before, after := Affixes(tok)
	ids, err := tok.Encode(append(slices.Clip(dst), before...), text)
	if err != nil {
		return dst, err
	}
	return append(ids, after...), nil
}

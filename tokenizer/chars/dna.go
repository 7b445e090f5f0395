package chars

import (
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/token"
	"unicode/utf8"
)

// dnaTokens lists the tokens of HyenaDNA in the order of their ids: special tokens, then nucleotides. N stands for any
// nucleotide.
var dnaTokens = []string{"[CLS]", "[SEP]", "[BOS]", "[MASK]", "[PAD]", "[RESERVED]", "[UNK]", "A", "C", "G", "T", "N"}

const (
	dnaSep = 1
	dnaUnk = 6
)

// dnaTokenizer has one token for each nucleotide.
type dnaTokenizer struct {
	ids  [utf8.RuneSelf]int32
	find *added.Set // for the special tokens
}

var dna = newDNA()

func newDNA() *dnaTokenizer {
	t := &dnaTokenizer{}
	for i := range t.ids {
		t.ids[i] = dnaUnk
	}
	var special []added.Token
	for id, text := range dnaTokens {
		if len(text) == 1 {
			t.ids[text[0]] = int32(id)
		} else {
			special = append(special, added.Token{Content: text, ID: int32(id)})
		}
	}
	t.find = added.NewSet(special)
	return t
}

// DNA returns the character tokenizer of HyenaDNA (arXiv:2306.15794). A, C, G, T and N have the ids 7 to 11. Ids 0 to 6
// are special tokens such as [MASK], which are recognized in the text and decoded to the same text. [SEP] ends a
// document. As in the release, every other character, including lower case, and every byte that is not UTF-8 becomes
// [UNK]. So decoding does not restore every text.
func DNA() token.Tokenizer { return dna }

func (t *dnaTokenizer) Kind() string             { return "dna" }
func (t *dnaTokenizer) VocabSize() int           { return len(dnaTokens) }
func (t *dnaTokenizer) EndOfText() (int32, bool) { return dnaSep, true }
func (t *dnaTokenizer) Fingerprint() string      { return token.NewFingerprint("dna").Sum() }
func (t *dnaTokenizer) Save(dir string) error    { return token.Save(dir, t) }
func (t *dnaTokenizer) Marshal() ([]byte, error) {
	return token.MarshalSection(token.Section{Kind: "dna"})
}
func (t *dnaTokenizer) NewStream() token.Stream { return dnaStream{t, t.find} }
func (t *dnaTokenizer) Ordinary() token.Stream  { return dnaStream{t, &added.Set{}} }

func (t *dnaTokenizer) Encode(dst []int32, text []byte) ([]int32, error) {
	dst, _, err := dnaStream{t, t.find}.EncodeChunk(dst, text, true)
	return dst, err
}

func (t *dnaTokenizer) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		if 0 <= id && int(id) < len(dnaTokens) {
			dst = append(dst, dnaTokens[id]...)
		}
	}
	return dst
}

// dnaStream encodes one text. find finds its special tokens.
type dnaStream struct {
	t    *dnaTokenizer
	find *added.Set
}

func (s dnaStream) EncodeChunk(dst []int32, text []byte, last bool) ([]int32, int, error) {
	tokens := s.find.Scan(text, last)
	for at := 0; ; {
		lo, hi, id := tokens.Next(at)
		for at < lo {
			if b := text[at]; b < utf8.RuneSelf {
				dst = append(dst, s.t.ids[b])
				at++
				continue
			}
			if !last && !utf8.FullRune(text[at:]) {
				return dst, at, nil
			}
			_, size := utf8.DecodeRune(text[at:])
			dst = append(dst, dnaUnk)
			at += size
		}
		if id < 0 {
			return dst, at, nil
		}
		dst, at = append(dst, id), hi
	}
}

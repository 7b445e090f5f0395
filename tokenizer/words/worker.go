// Package words contains the models that convert words to ids: BPE over characters, and Unigram (Kudo,
// arXiv:1804.10959).
package words

import "github.com/hippo-ssm/hippo/tokenizer/bpe"

// Model converts words to ids.
type Model interface {
	// Encode appends the ids of a word, or of a part of one if whole is false. bad is the offset of the first character
	// without a token, or -1.
	Encode(w *Worker, dst []int32, word []byte, whole bool) (ids []int32, bad int)
}

// Worker is the working memory for one text.
type Worker struct {
	Carry
	bpe.Merger
	cache *bpe.WordCache // created on first use
	best  []pathStep
	ends  []int
}

// Carry is the state of a model between two parts of a word.
type Carry struct {
	unknown bool    // the part ended with an unknown character
	score   float64 // score of the best path
}

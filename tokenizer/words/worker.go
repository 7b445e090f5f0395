// Package words has the models that turn words into ids: BPE over characters, and Unigram (Kudo, arXiv:1804.10959).
package words

import "github.com/hippo-ssm/hippo/tokenizer/bpe"

// Model turns words into ids.
type Model interface {
	// encode appends the ids of a word, or of a part of one if whole is false. bad is the place of the first character
	// without a token, or -1.
	Encode(w *Worker, dst []int32, word []byte, whole bool) (ids []int32, bad int)
}

// Worker is the working memory of one text.
type Worker struct {
	Carry
	bpe.Merger
	cache *bpe.WordCache // made when it is used
	best  []pathStep
	ends  []int
}

// Carry is what a model keeps from a part of a word to the next.
type Carry struct {
	unknown bool    // it ended with an unknown character
	score   float64 // of the best path
}

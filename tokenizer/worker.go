package tokenizer

// wordModel turns words into ids.
type wordModel interface {
	// encode appends the ids of a word, or of a part of one if whole is false. bad is the place of the first character
	// without a token, or -1.
	encode(w *wordWorker, dst []int32, word []byte, whole bool) (ids []int32, bad int)
}

// wordWorker is the working memory of one text.
type wordWorker struct {
	wordCarry
	merger
	cache *wordCache // made when it is used
	best  []pathStep
	ends  []int
}

// wordCarry is what a model keeps from a part of a word to the next.
type wordCarry struct {
	unknown bool    // it ended with an unknown character
	score   float64 // of the best path
}

package data

import (
	"fmt"
	"iter"
)

// Batch is a number of windows of equal length.
type Batch struct {
	Start   int // position of the first input; the rows are consecutive in the text
	Rows    int
	Len     int
	Inputs  []int32 // (Rows, Len); reused for the next batch
	Targets []int32 // the tokens after the inputs, or Ignore (see Part and Tokens.Apart); reused, too
	// Borders holds the positions in each row at which another document begins, ascending, if the tokens are Apart. The
	// first of a row may be 0. The slices are reused, too.
	Borders [][]int
}

// Windows returns an iterator that goes once through tok, for evaluation. It yields batches of batchSize consecutive
// windows of seqLen tokens. The last batch of full windows may have fewer rows. A shorter window at the end is a batch
// of its own. Every token but the first is a target exactly once, in the order of the text, unless it is to be ignored.
// With batchSize 1 each batch continues where the previous one ended, so that a model's state may be carried over;
// otherwise each row starts anew. The iterator ends after an error, which is a *LostError.
func Windows(tok *Tokens, batchSize, seqLen int) (iter.Seq2[Batch, error], error) {
	if batchSize < 1 || seqLen < 1 {
		return nil, fmt.Errorf("data: found batch_size %d and seq_len %d, want at least 1 each", batchSize, seqLen)
	}
	if err := checkLength(tok, 1); err != nil {
		return nil, err
	}
	return func(yield func(Batch, error) bool) {
		pairs := tok.Len() - 1
		room := min(batchSize, max(1, pairs/seqLen)) * min(seqLen, pairs)
		inputs, targets, borders := make([]int32, room), make([]int32, room), make([][]int, batchSize)
		for start := 0; start < pairs; {
			b := Batch{Start: start, Rows: min(batchSize, (pairs-start)/seqLen), Len: seqLen}
			if b.Rows == 0 {
				b.Rows, b.Len = 1, pairs-start
			}
			n := b.Rows * b.Len
			b.Inputs, b.Targets, b.Borders = inputs[:n], targets[:n], borders[:b.Rows]
			var err error
			for i := 0; i < b.Rows && err == nil; i++ {
				lo := i * b.Len
				borders[i], err = tok.pairs(inputs[lo:][:b.Len], targets[lo:][:b.Len], start+lo, borders[i][:0])
			}
			if !yield(b, err) || err != nil {
				return
			}
			start += n
		}
	}, nil
}

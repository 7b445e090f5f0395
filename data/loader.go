package data

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Mode is the order in which a Loader reads the tokens.
type Mode string

const (
	// Shuffle returns sequences of SeqLen in a new random order every epoch. Each sequence starts from a zero state.
	Shuffle Mode = "shuffle"
	// Stream splits the tokens into BatchSize rows and reads each row from start to end, so that a batch continues
	// where the previous one ended and a state can be carried over (truncated back-propagation through time).
	Stream Mode = "stream"
)

// LoaderOptions define the batches of a Loader.
type LoaderOptions struct {
	BatchSize int
	SeqLen    int
	Seed      uint64
	Mode      Mode // "" means Shuffle
}

// Loader returns batches of (input, target) pairs without end, epoch after epoch. A target is the token after its
// input, so n tokens hold n−1 pairs. Pairs are numbered by the position of the input.
//
// Shuffle: the pairs form a circle that is cut into ⌊(n−1)/SeqLen⌋ sequences, from a new start in every epoch, and the
// sequences are permuted. Every pair is seen once an epoch, except the (n−1) mod SeqLen pairs before the start, which
// differ by epoch. One sequence may continue from the end of the text at its beginning, just as others cross the border
// of two documents; all its pairs are real pairs. Batches may cross the end of an epoch.
//
// Stream: row i holds the m = ⌊(n−1)/BatchSize⌋ pairs from i·m on, which are read in ⌊m/SeqLen⌋ batches. In each epoch
// all rows skip the same random number of pairs at the start, so few that all batches fit.
//
// If the tokens are Apart, Borders returns where in a sequence another document begins. The end of the text and its
// beginning then count as two documents.
//
// A Loader needs little memory. It must not be used by several goroutines at once.
type Loader struct {
	tok   *Tokens
	opt   LoaderOptions
	hash  string
	named string // the hash of the tokens in earlier versions
	pairs int    // n−1
	total int    // units in an epoch: sequences (Shuffle) or batches (Stream)

	epoch    int64
	position int // units of this epoch already returned

	// Chosen for each epoch from Seed and the epoch's number.
	offset int
	order  permutation // Shuffle

	borders [][]int // document borders in the sequences of the last batch
}

// NewLoader returns a Loader of tok. There must be enough tokens for one sequence (Shuffle) or one batch (Stream).
func NewLoader(tok *Tokens, opt LoaderOptions) (*Loader, error) {
	if opt.Mode == "" {
		opt.Mode = Shuffle
	}
	if opt.Mode != Shuffle && opt.Mode != Stream {
		return nil, fmt.Errorf("data: mode: found %q, want %q or %q", opt.Mode, Shuffle, Stream)
	}
	if opt.BatchSize < 1 || opt.SeqLen < 1 {
		return nil, fmt.Errorf("data: found batch_size %d and seq_len %d, want at least 1 each",
			opt.BatchSize, opt.SeqLen)
	}
	l := &Loader{tok: tok, opt: opt, hash: tok.Hash(), named: tok.namedHash(), pairs: tok.Len() - 1,
		borders: make([][]int, opt.BatchSize)}
	if err := checkLength(tok, opt.SeqLen); err != nil {
		return nil, err
	}
	l.total = l.pairs / opt.SeqLen
	if opt.Mode == Stream {
		row := l.pairs / opt.BatchSize
		if l.total = row / opt.SeqLen; l.total == 0 {
			return nil, fmt.Errorf("data: found %d tokens, that is %d for each of %d rows, want %d for seq_len %d: "+
				"use a smaller batch_size or seq_len", tok.Len(), row, opt.BatchSize, opt.SeqLen, opt.SeqLen)
		}
	}
	l.startEpoch(0)
	return l, nil
}

// checkLength returns an error if tok does not hold one sequence of seqLen pairs.
func checkLength(tok *Tokens, seqLen int) error {
	switch n := tok.Len(); {
	case n < 2:
		return fmt.Errorf("data: found %d tokens, want at least 2 (an input and its target): more text is needed", n)
	case n <= seqLen:
		return fmt.Errorf("data: found %d tokens, want at least %d for seq_len %d: use a seq_len of at most %d, "+
			"or more text", n, seqLen+1, seqLen, n-1)
	}
	return nil
}

func (l *Loader) startEpoch(epoch int64) {
	l.epoch, l.position = epoch, 0
	rng := rand.New(rand.NewPCG(l.opt.Seed, uint64(epoch)))
	if l.opt.Mode == Stream {
		l.offset = rng.IntN(l.pairs/l.opt.BatchSize%l.opt.SeqLen + 1)
		return
	}
	l.offset = rng.IntN(l.pairs)
	l.order = newPermutation(uint64(l.total), rng)
}

// Next fills inputs and targets, each (batch_size, seq_len) in row-major order. reset is true if the rows do not
// continue the previous batch, so that a carried state must be zeroed: always with Shuffle, at the start of an epoch
// with Stream. A target may be Ignore, see Part and Tokens.Apart. The error is a *LostError; the position of l is then
// unchanged.
func (l *Loader) Next(inputs, targets []int32) (reset bool, err error) {
	was := *l
	if reset, err = l.next(inputs, targets); err != nil {
		*l = was
	}
	return reset, err
}

func (l *Loader) next(inputs, targets []int32) (reset bool, err error) {
	b, n := l.opt.BatchSize, l.opt.SeqLen
	if len(inputs) != b*n || len(targets) != b*n {
		panic(fmt.Sprintf("data: Loader.Next: %d inputs and %d targets, want %d×%d each",
			len(inputs), len(targets), b, n))
	}
	if l.opt.Mode == Stream {
		if l.position == l.total {
			l.startEpoch(l.epoch + 1)
		}
		reset = l.position == 0
		row := l.pairs / b
		for i := range b {
			if err := l.fill(i, inputs[i*n:][:n], targets[i*n:][:n], i*row+l.offset+l.position*n); err != nil {
				return reset, err
			}
		}
		l.position++
		return reset, nil
	}
	for i := range b {
		if l.position == l.total {
			l.startEpoch(l.epoch + 1)
		}
		sequence := int(l.order.at(uint64(l.position)))
		start := l.offset - l.pairs + sequence*n // offset + sequence·n mod pairs, without overflow
		if start < 0 {
			start += l.pairs
		}
		if err := l.fill(i, inputs[i*n:][:n], targets[i*n:][:n], start); err != nil {
			return true, err
		}
		l.position++
	}
	return true, nil
}

// fill copies the pairs of sequence i from number start on, around the circle.
func (l *Loader) fill(i int, inputs, targets []int32, start int) error {
	borders, from := l.borders[i][:0], 0
	for from < len(inputs) {
		n := min(len(inputs)-from, l.pairs-start)
		if from > 0 && l.tok.apart {
			borders = append(borders, from)
		}
		before := len(borders)
		var err error
		if borders, err = l.tok.pairs(inputs[from:][:n], targets[from:][:n], start, borders); err != nil {
			return err
		}
		for k := before; k < len(borders); k++ {
			borders[k] += from
		}
		from, start = from+n, 0
	}
	l.borders[i] = slices.Compact(borders)
	return nil
}

// pairs fills inputs and targets with the pairs from number start on, and appends to borders the positions at which
// inputs of another document begin.
func (t *Tokens) pairs(inputs, targets []int32, start int, borders []int) ([]int, error) {
	if _, err := t.Read(inputs, start); err != nil {
		return borders, err
	}
	if _, err := t.Read(targets, start+1); err != nil {
		return borders, err
	}
	if err := t.mask(targets, start+1); err != nil {
		return borders, err
	}
	return t.borders(borders, start, len(inputs))
}

// Borders returns the positions in sequence i of the last batch at which another document begins, ascending, if the
// tokens are Apart. The first may be 0. The slice is valid until the next call of Next.
func (l *Loader) Borders(i int) []int { return l.borders[i] }

// TokensPerEpoch returns the number of pairs in an epoch.
func (l *Loader) TokensPerEpoch() int {
	if l.opt.Mode == Stream {
		return l.total * l.opt.BatchSize * l.opt.SeqLen
	}
	return l.total * l.opt.SeqLen
}

// Epoch returns the number of passes over the data, including the fraction of the current one.
func (l *Loader) Epoch() float64 { return float64(l.epoch) + float64(l.position)/float64(l.total) }

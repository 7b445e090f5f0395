package engine

import (
	"slices"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/tensor"
)

// BucketOptions are the options of BucketAttention.
type BucketOptions struct {
	Heads       int
	Bucket      int     // positions of a bucket
	Top         int     // buckets that a bucket picks
	Temperature float32 // of the softmax that picks
	Ahead       bool    // see and pick what comes later, for encoders
	// KeysAsValues takes the keys of picked buckets for their values too, which is what the official code does where it
	// looks ahead, by a slip.
	KeysAsValues bool
}

// BucketParams are what BucketAttention learns.
//
// Sort (heads, 2·head_dim, buckets) is a linear map that scores buckets by their summaries. It is nil where summaries
// of queries and of keys are compared. NullK and NullV (heads, head_dim) are the key and the value at all positions of
// an empty bucket. Top empty buckets stand before the first one, unless the attention looks ahead: then both are nil.
type BucketParams struct{ Sort, NullK, NullV *tensor.Tensor }

// BucketCache is the queries (d), and the keys and values (2d), of the positions of one sequence so far.
type BucketCache struct {
	Q, KV *RowCache
	Sums  *BucketSums // of these rows
}

// BucketSums are summaries of buckets that an engine has computed, so as not to compute them again. The zero value
// has none: the engine computes them from the rows.
type BucketSums struct{ Private any }

// MaxTop is the most buckets that one can pick.
const MaxTop = 7

// Heaviest returns the first index of the largest p, the weights of the candidates of a bucket. Where all are equal, as
// after a ReLU that is 0 everywhere, it is the middle one, which the official code finds among four. All engines pick
// by it.
func Heaviest[F float32 | float64](p []F) (c int) {
	same := true
	for j, v := range p {
		same = same && v == p[0]
		if v > p[c] {
			c = j
		}
	}
	if same {
		return len(p) / 2
	}
	return c
}

// BalanceOptions are the options of SinkhornBalance.
type BalanceOptions struct {
	Heads  int
	Rounds int // of dividing rows and columns
	// Causal: block u has weights of the blocks before it only, and divides by sums over blocks up to u.
	Causal bool
}

// SpAttenOptions are the options of SpAtten.
type SpAttenOptions struct {
	Heads     int
	Rotary    Rotary // position embedding of queries and keys; the zero value has none
	Block     int    // positions after which tokens and a head are pruned
	Keep      int    // tokens that are left then
	KeepHeads int    // heads that are left in the end
	// Values, unless 0, is how many values a query reads: those of its largest weights. The others count as zero, and
	// the weights are not made larger for them (local value pruning, §III-C).
	Values int
	// Progressive, unless 0, quantises keys to 8 bits while the tape does not record. Scores are made of the upper four
	// bits. Where no weight of the softmax comes to more than Progressive, they are made again with the lower four: a
	// flat softmax needs them, a peaked one does not (§III-D).
	Progressive float32
	// Counts, unless nil, takes what is read on an engine that counts.
	Counts *SpAttenCounts
	// Cascade makes layers pass on what they prune. Above is that of the layer before, one for each row, nil for the
	// first layer; Below takes that of this one.
	Cascade      bool
	Above, Below []SpAttenRow
}

// ValuesOf is how many of n values a query reads.
func (o *SpAttenOptions) ValuesOf(n int) int {
	if o.Values == 0 {
		return n
	}
	return min(n, o.Values)
}

// Reads reports which values a query of these weights reads: those of the largest weights, of equal ones the earlier.
// The engines choose by it, but for the reference, which has its own definition. What is NaN is read.
func (o *SpAttenOptions) Reads(weights []float32) []bool {
	left := o.ValuesOf(len(weights))
	order := slices.Clone(weights)
	slices.Sort(order)
	least := order[len(order)-left]
	for _, x := range weights {
		if x > least {
			left--
		}
	}
	reads := make([]bool, len(weights))
	for i, x := range weights { // left: of those that equal the least
		if reads[i] = !(x < least); x == least {
			reads[i] = left > 0
			left--
		}
	}
	return reads
}

// SpAttenCounts are rows of heads that SpAtten has read: keys, those of them of which the upper bits alone are read at
// first, those of which the lower bits are read then, and values; and how many keys, and as many values, attention to
// all earlier positions in all heads reads.
type SpAttenCounts struct{ Keys, High, Low, Values, All atomic.Int64 }

// Rows returns the largest number of tokens: those kept and those of a block.
func (o *SpAttenOptions) Rows() int { return o.Keep + o.Block }

// Left returns how many tokens are left after n positions. Those of a block that is not complete are all left.
func (o *SpAttenOptions) Left(n int) int { return min(o.Keep, n/o.Block*o.Block) + n%o.Block }

// SpAttenState is what SpAtten carries of one sequence. Its size is fixed; a new one is all zeros. While the tape
// records SpAtten puts new tensors into it, otherwise it updates those there.
type SpAttenState struct {
	K, V       *tensor.Tensor // (heads, Rows, head_dim) rotated keys, and values, of the tokens that are left, in order
	Importance *tensor.Tensor // (Rows) of these tokens
	Heads      *tensor.Tensor // (heads) their importance, -1 for those pruned
	Position   *tensor.Tensor // (2) positions so far, in units of 2^20 and the rest
	Low        *tensor.Tensor // with Progressive the lower bits of the keys, of which K has the upper ones; else nil
	Places     *tensor.Tensor // with Cascade (Rows) 1 + each token's place in the layer before, 0 for none; else nil
}

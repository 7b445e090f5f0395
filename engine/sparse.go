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
	Temperature float32 // of the softmax that picks buckets
	Ahead       bool    // see and pick later positions, for encoders
	// KeysAsValues also uses the keys of picked buckets as their values. The official code does this by mistake if it
	// looks ahead.
	KeysAsValues bool
}

// BucketParams holds the parameters that BucketAttention learns.
//
// Sort (heads, 2·head_dim, buckets) is a linear map that scores buckets by their summaries. If it is nil, summaries of
// queries are compared with those of keys. NullK and NullV (heads, head_dim) are the key and the value at all positions
// of an empty bucket. Top empty buckets precede the first one, unless the attention looks ahead: then both are nil.
type BucketParams struct{ Sort, NullK, NullV *tensor.Tensor }

// BucketCache holds the queries (d), and the keys and values (2d), of the positions of one sequence so far.
type BucketCache struct {
	Q, KV *RowCache
	Sums  *BucketSums // of these rows
}

// BucketSums holds summaries of buckets that an engine caches. The zero value has none: the engine computes them from
// the rows.
type BucketSums struct{ Private any }

// MaxTop is the largest number of buckets that a bucket can pick.
const MaxTop = 7

// Heaviest returns the index of the first largest weight in p, the weights of the candidates of a bucket. If all are
// equal, as after a ReLU that is 0 everywhere, it returns the middle index, which is what the official code finds for
// four candidates. All engines use it to pick.
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
	Rounds int // number of divisions of rows and columns
	// Causal is set if block u has weights only for the blocks before it, and divides by sums over blocks up to u.
	Causal bool
}

// SpAttenOptions are the options of SpAtten.
type SpAttenOptions struct {
	Heads     int
	Rotary    Rotary // position embedding of queries and keys; the zero value has none
	Block     int    // positions after which tokens and a head are pruned
	Keep      int    // tokens that are left then
	KeepHeads int    // heads that are left in the end
	// Values, unless 0, is the number of values that a query reads: those with its largest weights. The others count as
	// zero, and the remaining weights are not rescaled (local value pruning, §III-C).
	Values int
	// Progressive, unless 0, quantises keys to 8 bits while the tape does not record. Scores are first computed from
	// the upper four bits. If no weight of the softmax exceeds Progressive, they are computed again with the lower four
	// bits: a flat softmax needs them, a peaked one does not (§III-D).
	Progressive float32
	// Counts, unless nil, receives the number of reads, on an engine that counts.
	Counts *SpAttenCounts
	// Cascade makes layers pass on what they prune. Above holds what the previous layer pruned, one element for each
	// row; it is nil for the first layer. Below receives what this layer prunes.
	Cascade      bool
	Above, Below []SpAttenRow
}

// ValuesOf returns how many of n values a query reads.
func (o *SpAttenOptions) ValuesOf(n int) int {
	if o.Values == 0 {
		return n
	}
	return min(n, o.Values)
}

// Reads reports which values a query with these weights reads: those with the largest weights; of equal ones the first.
// Values with NaN weights are read. All engines use it, except the reference, which has its own definition.
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
	for i, x := range weights { // left counts those that equal the least
		if reads[i] = !(x < least); x == least {
			reads[i] = left > 0
			left--
		}
	}
	return reads
}

// SpAttenCounts counts the rows of heads that SpAtten has read. Keys counts keys, High those of which only the upper
// bits are read at first, Low those of which the lower bits are then read, too, and Values values. All is the number of
// keys, and also of values, that attention to all earlier positions in all heads would read.
type SpAttenCounts struct{ Keys, High, Low, Values, All atomic.Int64 }

// Rows returns the largest number of tokens: those that are kept plus those of a block.
func (o *SpAttenOptions) Rows() int { return o.Keep + o.Block }

// Left returns how many tokens are left after n positions. All tokens of an incomplete block are left.
func (o *SpAttenOptions) Left(n int) int { return min(o.Keep, n/o.Block*o.Block) + n%o.Block }

// SpAttenState is the state of SpAtten for one sequence. Its size is fixed; a new one is all zeros. While the tape
// records, SpAtten replaces its tensors by new ones; otherwise it updates them in place.
type SpAttenState struct {
	K, V       *tensor.Tensor // (heads, Rows, head_dim) rotated keys, and values, of the remaining tokens, in order
	Importance *tensor.Tensor // (Rows) of these tokens
	Heads      *tensor.Tensor // (heads) importance of heads, -1 for pruned ones
	Position   *tensor.Tensor // (2) number of positions so far: in units of 2^20, and the rest
	Low        *tensor.Tensor // with Progressive the lower bits of the keys, whose upper bits are in K; else nil
	Places     *tensor.Tensor // with Cascade (Rows) 1 + each token's index in the previous layer, 0 for none; else nil
}

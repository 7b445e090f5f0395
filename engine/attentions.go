package engine

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/hippo-ssm/hippo/tensor"
)

// Attentions are the operations that compare every position with others.
type Attentions interface {
	// Attention returns y = softmax(scale·Q Kᵀ + mask) V over qkv (n, (heads + 2·kv_heads)·head_dim), which holds
	// queries, keys and values. A row also sees the positions in its cache, which come before its own. Its own are
	// added to the cache; a nil cache stores nothing. Head h of the queries sees head h/(heads/kv_heads) of the keys
	// and values. With KeysAsValues V is K, and qkv has no values. drop is the number of the dropout of weights.
	Attention(qkv *tensor.Tensor, r *Rows, caches []*KVCache, o AttentionOptions, drop uint64) *tensor.Tensor
	// CrossAttention returns y = softmax(Q Kᵀ/√head_dim) V in each row: q (n, d) of rows rq, kv (m, 2·d) = (key, value)
	// of rows rkv.
	CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *Rows) *tensor.Tensor
	// Rotate returns x (n, d) with each head rotated by the angles of its position in the sequence.
	Rotate(x *tensor.Tensor, heads int, rot Rotary, r *Rows) *tensor.Tensor
	// LinearAttention returns y_t = Σ_{s≤t} (φ(q_t)·φ(k_s)) v_s / (Σ_{s≤t} φ(q_t)·φ(k_s) + eps); q, k (n, heads·e), v
	// (n, heads·m); slots S (heads, e, m), the sum of φ(k) vᵀ, and Z (heads, e), the sum of φ(k).
	LinearAttention(q, k, v *tensor.Tensor, o LinearOptions, r *Rows, s, z Slots) *tensor.Tensor
	// SquaredReLUAttention returns y[i] = Σ_{j≤i} relu(q[i]·k[j]/√s + bias[min(i-j, m-1)])² v[j]/(i+1), where i and j
	// count from the first position in the row's caches. The row's keys and values are added to its caches, which may
	// be nil.
	SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *Rows, keys, values []*RowCache) *tensor.Tensor
	// SpatialMix returns y[i] = Σ_{j≤i} W[i, j]·x[j] + bias[i]. i and j are positions of a sequence; j starts with the
	// first position in the row's cache. The row's positions are added to its cache, which may be nil.
	SpatialMix(x, w, bias *tensor.Tensor, r *Rows, caches []*RowCache) *tensor.Tensor
	// BucketAttention returns the attention of each bucket of positions to itself and to buckets that a sort net picks;
	// see autograd. The row's positions are added to its cache, which may be nil.
	BucketAttention(q, kv *tensor.Tensor, p BucketParams, o BucketOptions, r *Rows,
		caches []*BucketCache) *tensor.Tensor
	// SinkhornBalance balances the scores x (b, heads·n) of b blocks by b blocks, n ≥ b: it divides rows and columns of
	// e^x by their sums in turn, on logarithms. y (b, heads·b). See autograd.
	SinkhornBalance(x *tensor.Tensor, o BalanceOptions) *tensor.Tensor
	// MixBlocks returns mixtures of the blocks of x (n, d), where n is a multiple of block. Block u of head h of y is
	// Σ_v w[u, h·k+v]·(block v of head h of x); w (m, heads·k), k at least the number of blocks; y (m·block, d).
	MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor
	// SpAtten returns attention that prunes tokens and heads along the sequence; see autograd. The state of each row,
	// which may be nil, is carried through the row.
	SpAtten(qkv *tensor.Tensor, o SpAttenOptions, r *Rows, states []*SpAttenState) *tensor.Tensor
}

// AttentionOptions are the options of Attention.
type AttentionOptions struct {
	Heads   int     // number of heads of queries
	KVHeads int     // of keys and values, a divisor of Heads (arXiv:2305.13245); 0 for Heads
	Scale   float64 // factor of the products of queries and keys; 0 for 1/√head_dim
	Rotary  Rotary  // position embedding of queries and keys; the zero value has none
	ALiBi   bool    // scores decrease with the distance, see ALiBiSlope
	Dropout float64 // of the attention weights, in training
	Window  int     // number of positions that a query sees, including its own; 0 for all
	Blocks  *Blocks // block-sparse attention instead of a window, unless nil
	Ahead   bool    // see later positions, for encoders
	// KeysAsValues uses the keys as values, so that there are no other values in projections and caches
	// (arXiv:2405.04434, §2.1.2).
	KeysAsValues bool
}

// Valid reports whether the options can be combined, with a cache or without.
func (o *AttentionOptions) Valid(cached bool) bool {
	ahead := o.Ahead
	if o.KeysAsValues && o.Rotary.Dim > 0 { // values are not rotated
		return false
	}
	if o.Blocks != nil {
		if o.Window > 0 || o.Ahead {
			return false
		}
		ahead = o.Blocks.Ahead
	}
	return !ahead || !cached && !o.ALiBi && o.Window == 0
}

// KeyHeads returns the number of heads of keys and values.
func (o *AttentionOptions) KeyHeads() int {
	if o.KVHeads == 0 {
		return o.Heads
	}
	return o.KVHeads
}

// Kinds returns 2 for keys and values, or 1 if the keys are the values.
func (o *AttentionOptions) Kinds() int { return kindsOf(o.KeysAsValues) }

// kindsOf returns how many kinds of rows attention reads.
func kindsOf(keysAsValues bool) int {
	if keysAsValues {
		return 1
	}
	return 2
}

// Packed returns the number of heads of queries, keys and values together.
func (o *AttentionOptions) Packed() int { return o.Heads + o.Kinds()*o.KeyHeads() }

// KeyHead returns the head of keys and values that head h of the queries sees.
func (o *AttentionOptions) KeyHead(h int) int { return h / (o.Heads / o.KeyHeads()) }

// Fits reports whether projections of a width divide evenly into these heads, and whether a head has enough components
// to rotate.
func (o *AttentionOptions) Fits(width int) bool {
	if o.Heads < 1 || o.KVHeads < 0 || o.Heads%o.KeyHeads() != 0 || width%o.Packed() != 0 {
		return false
	}
	return o.Rotary.Dim <= width/o.Packed() && o.Rotary.Dim%2 == 0
}

// ScaleOf returns the factor of the products of queries and keys with hd components.
func (o *AttentionOptions) ScaleOf(hd int) float64 {
	if o.Scale == 0 {
		return 1 / math.Sqrt(float64(hd))
	}
	return o.Scale
}

// Remembered returns how many of n positions later queries can still see.
func (o *AttentionOptions) Remembered(n int) int {
	if o.Window > 0 {
		return min(n, o.Window-1)
	}
	return n
}

// LinearOptions are the options of LinearAttention.
type LinearOptions struct {
	Heads int
	Phi   FeatureMap
	Eps   float32 // added to the denominators
}

// FeatureMap is the pointwise function φ ≥ 0 of queries and keys in LinearAttention.
type FeatureMap int

// The feature maps.
const (
	ELU1        FeatureMap = iota // elu(x)+1: x+1 for x > 0, otherwise e^x (arXiv:2006.16236)
	ReLU                          // max(x, 0) (cosFormer, arXiv:2202.08791)
	ReLU2                         // max(x, 0)²
	PhiSoftplus                   // log(1+e^x)
)

var featureMapNames = [...]string{ELU1: "elu1", ReLU: "relu", ReLU2: "relu2", PhiSoftplus: "softplus"}

// String returns the name of f in configurations.
func (f FeatureMap) String() string { return featureMapNames[f] }

// ParseFeatureMap returns the feature map of that name.
func ParseFeatureMap(name string) (FeatureMap, error) {
	for f, n := range featureMapNames {
		if n == name {
			return FeatureMap(f), nil
		}
	}
	return ELU1, fmt.Errorf("found %q, want one of %s", name, strings.Join(featureMapNames[:], ", "))
}

// ALiBiSlope returns the slope m of head h in "Train Short, Test Long: Attention with Linear Biases"
// (arXiv:2108.12409): the head adds -m·(i-j) to the score of query i and key j. If the number of heads n is a power of
// two, the slopes are 2^(-8k/n) for k = 1..n. For other numbers they are the slopes for the next lower power of two n,
// and then every second slope for 2n, from the first on, as in the official code.
func ALiBiSlope(h, heads int) float64 {
	n := 1 << (bits.Len(uint(heads)) - 1)
	k := float64(h + 1)
	if h >= n {
		k = float64(h-n) + 0.5 // 2(h-n)+1 of 2n
	}
	return math.Exp2(-8 * k / float64(n))
}

package engine

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/hippo-ssm/hippo/tensor"
)

// Attentions compare every position with others.
type Attentions interface {
	// Attention: y = softmax(scale·Q Kᵀ + mask) V over qkv (n, (heads + 2·kv_heads)·head_dim), queries, keys and
	// values, with the positions in each row's cache, nil for none, before its own, which are added to it. Head h of
	// the queries sees head h/(heads/kv_heads) of the keys and values. With KeysAsValues V is K, and qkv has no values.
	// drop is the number of the dropout of weights.
	Attention(qkv *tensor.Tensor, r *Rows, caches []*KVCache, o AttentionOptions, drop uint64) *tensor.Tensor
	// CrossAttention: y = softmax(Q Kᵀ/√head_dim) V in each row, q (n, d) of rows rq, kv (m, 2·d), (key, value), of
	// rows rkv.
	CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *Rows) *tensor.Tensor
	// Rotate: each head of position t of x (n, d) turned by the rotation of that position of its sequence.
	Rotate(x *tensor.Tensor, heads int, rot Rotary, r *Rows) *tensor.Tensor
	// LinearAttention: y_t = Σ_{s≤t} (φ(q_t)·φ(k_s)) v_s / (Σ_{s≤t} φ(q_t)·φ(k_s) + eps); q, k (n, heads·e), v (n,
	// heads·m); slots S (heads, e, m), the sum of φ(k) vᵀ, and Z (heads, e), that of φ(k).
	LinearAttention(q, k, v *tensor.Tensor, o LinearOptions, r *Rows, s, z Slots) *tensor.Tensor
	// SquaredReLUAttention: y[i] = Σ_{j≤i} relu(q[i]·k[j]/√s + bias[min(i-j, m-1)])² v[j]/(i+1), where i and j count
	// from the first position in the row's caches. The row's keys and values are added to its caches, nil for none.
	SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *Rows, keys, values []*RowCache) *tensor.Tensor
	// SpatialMix: y[i] = Σ_{j≤i} W[i, j]·x[j] + bias[i], i and j positions of a sequence, j from the first one in the
	// row's cache. The row's positions are added to its cache, nil for none.
	SpatialMix(x, w, bias *tensor.Tensor, r *Rows, caches []*RowCache) *tensor.Tensor
	// BucketAttention: attention of each bucket of positions to itself and to buckets that a sort net picks; see
	// autograd. The row's positions are added to its cache, nil for none.
	BucketAttention(q, kv *tensor.Tensor, p BucketParams, o BucketOptions, r *Rows,
		caches []*BucketCache) *tensor.Tensor
	// SinkhornBalance: the scores x (b, heads·n) of b blocks by b blocks, n ≥ b, balanced: rows and columns of e^x are
	// divided by their sums in turn, on logarithms. y (b, heads·b). See autograd.
	SinkhornBalance(x *tensor.Tensor, o BalanceOptions) *tensor.Tensor
	// MixBlocks: block u of head h of y is Σ_v w[u, h·k+v]·(block v of head h of x) over the blocks of x (n, d), n a
	// multiple of block; w (m, heads·k), k at least their number; y (m·block, d).
	MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor
	// SpAtten: attention that prunes tokens and heads along the sequence; see autograd. The state of each row, nil for
	// none, is carried through the row.
	SpAtten(qkv *tensor.Tensor, o SpAttenOptions, r *Rows, states []*SpAttenState) *tensor.Tensor
}

// AttentionOptions are the options of Attention.
type AttentionOptions struct {
	Heads   int     // of the queries
	KVHeads int     // of the keys and values, a divisor of Heads (arXiv:2305.13245); 0 for as many
	Scale   float64 // of the products of queries and keys; 0 for 1/√head_dim
	Rotary  Rotary  // position embedding of queries and keys; the zero value has none
	ALiBi   bool    // scores fall with the distance, see ALiBiSlope
	Dropout float64 // of the attention weights, while the tape trains
	Window  int     // number of positions that a query sees, its own included; 0 for all
	Blocks  *Blocks // block-sparse attention, instead of a window; nil for none
	Ahead   bool    // see what comes later, for encoders
	// KeysAsValues: the values are the keys, so that projections and caches have no others (arXiv:2405.04434, §2.1.2).
	KeysAsValues bool
}

// Valid reports whether the options can be combined, with a cache or without.
func (o *AttentionOptions) Valid(cached bool) bool {
	ahead := o.Ahead
	if o.KeysAsValues && o.Rotary.Dim > 0 { // of which values have none
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

// Kinds is 2 for keys and values, 1 for keys that are the values, too.
func (o *AttentionOptions) Kinds() int { return kindsOf(o.KeysAsValues) }

// kindsOf is how many kinds of rows attention reads.
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

// Fits reports whether projections of a width divide into these heads, and these into components to rotate.
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

// String is the name of f in configurations.
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

package engine

import "github.com/hippo-ssm/hippo/tensor"

// Convolutions are the operations that filter along the sequence. The kernels k of h long convolutions are either rows
// (l, h), or in the layout in which the engine's systems generate them (DiagKernel, DPLRKernel). KernelRows converts
// them to rows.
type Convolutions interface {
	// CausalConv returns y[t] = a(bias + Σ_{i<k} w[k-1-i]·x[t-i]), x (n, d), w (d, 1, k), bias (d) or nil; slots (k-1,
	// d) hold the inputs before a row, oldest first.
	CausalConv(x, w, bias *tensor.Tensor, a Activation, r *Rows, slots Slots) *tensor.Tensor
	// GatedLongConv returns y = q ⊙ (k∗u + D u), u = g.K ⊙ g.V, D (d) or nil; g.Q and g.K may be nil.
	GatedLongConv(g Gates, k, skip *tensor.Tensor, r *Rows) *tensor.Tensor
	// CachedLongConv returns y = k∗u + D u, where u continues the inputs in each row's cache. u is added to the cache,
	// which may be nil.
	CachedLongConv(u, k, skip *tensor.Tensor, r *Rows, caches []*ConvCache) *tensor.Tensor
	// Ahead returns how many more taps than inputs k should have so that CachedLongConv decodes fast.
	Ahead() int
	// BothWays returns y[t] = Σ_{j≤t} k[j]·u[t-j] + Σ_j ahead[j]·u[t+1+j] + D u[t].
	BothWays(u, k, ahead, skip *tensor.Tensor, r *Rows) *tensor.Tensor
	// KernelRows returns h kernels as rows (l, h).
	KernelRows(k *tensor.Tensor, h int) *tensor.Tensor
	// KernelTaps returns the length of h kernels, or 0 if k does not have the shape of h kernels.
	KernelTaps(k *tensor.Tensor, h int) int
}

// LongestAtOnce is the longest row that is convolved at once. In longer ones, carrying a state between pieces costs
// less than the cache misses of a longer transform.
const LongestAtOnce = 1 << 16

// HeadOrder determines how the output of H3 flattens its two axes when head_dim > 1. The two official code paths
// disagree.
type HeadOrder int

// The two orders.
const (
	DimMajor  HeadOrder = iota // (d h): the PyTorch path, channel d2·h + head
	HeadMajor                  // (h d): the fused CUDA path and its reference, channel head·head_dim + d2
)

// Gates are the three inputs of H3's inner part, (n, d) each, channel head·HeadDim + i. With Q and K nil (and HeadDim
// 1) the system runs on V alone, without gates.
type Gates struct {
	Q, K, V *tensor.Tensor
	HeadDim int
	Order   HeadOrder
}

// OutChannel returns the channel of y for output j of head h.
func (g *Gates) OutChannel(h, j, heads int) int {
	if g.Order == HeadMajor {
		return h*g.HeadDim + j
	}
	return j*heads + h
}

// ConvCache holds the inputs of a long convolution of one sequence that its kernel still reaches: U (capacity, d) has
// Len positions. Only the last Window-1 of them are used. While a tape records, CachedLongConv replaces U by a new
// tensor, so that gradients can flow into the past. Otherwise it appends in place.
type ConvCache struct {
	U      *tensor.Tensor
	Len    int
	Window int // length of the longest kernel

	Sums Forkable // sums that an engine has computed ahead of time, and can compute again; may be nil
}

// Forkable is data that an engine stores with a state and copies with it.
type Forkable interface{ Fork() Forkable }

// Past returns the number of inputs that the next position sees.
func (c *ConvCache) Past() int { return min(c.Len, c.Window-1) }

// Clone returns an independent copy, without gradients and without spare capacity.
func (c *ConvCache) Clone() ConvCache {
	out := c.last(c.Past())
	if c.Sums != nil {
		out.Sums = c.Sums.Fork()
	}
	return out
}

// Keep drops all but the last n inputs, and gradients. Later positions see zeros in place of the dropped inputs.
func (c *ConvCache) Keep(n int) {
	if n < c.Past() {
		*c = c.last(n)
	}
}

// last returns a copy with the last n inputs.
func (c *ConvCache) last(n int) ConvCache {
	out := ConvCache{Window: c.Window, Len: n}
	if n > 0 {
		out.U = tensor.NewBeside(c.U, n, c.U.Dim(1))
		tensor.CopyRows(out.U, 0, c.U, c.Len-n, n)
	}
	return out
}

package autograd

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// CausalConv filters each channel of x (n, d) by its own taps, row by row, as Mamba does before its scan:
//
//	y[t] = a(bias + Σ_{i<k} w[k-1-i]·x[t-i])
//
// with w (d, 1, k), the tap of the newest input last, as in PyTorch's Conv1d; bias (d) or nil. A slot (k-1, d) holds
// the inputs before a row, oldest first.
func (t *Tape) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := x.Dim(-1)
	k := w.Len() / d
	checkRows("CausalConv", r, x)
	if k < 1 || w.Len() != k*d || bias != nil && bias.Len() != d {
		shapePanic("CausalConv", x, w, bias)
	}
	checkSlots("CausalConv", r, slots, (k-1)*d)
	return t.engine.CausalConv(x, w, bias, a, r, slots)
}

// LongConv computes the causal convolution of each channel of u (n, d) with its own kernel, row by row, plus a skip:
//
//	y[t, c] = Σ_{j≤t} k[j, c]·u[t-j, c] + D[c]·u[t, c]
//
// with kernels k (l_k, d), or as DiagKernel returns them. A row of l positions uses the first l taps. D is (d), or nil
// for zero.
func (t *Tape) LongConv(u, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return t.GatedLongConv(engine.Gates{V: u}, k, skip, r)
}

// GatedLongConv computes LongConv between two gates: y = g.Q ⊙ (k∗u + D u), u = g.K ⊙ g.V. A nil gate is 1. HeadDim
// must be 1.
func (t *Tape) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	d := g.V.Dim(-1)
	g.HeadDim = max(1, g.HeadDim)
	checkRows("LongConv", r, g.V)
	if t.engine.KernelTaps(k, d) == 0 || skip != nil && skip.Len() != d || g.HeadDim != 1 ||
		g.Q != nil && !g.Q.SameShape(g.V) || g.K != nil && !g.K.SameShape(g.V) {
		shapePanic("LongConv", g.Q, g.K, g.V, k, skip)
	}
	return t.engine.GatedLongConv(g, k, skip, r)
}

// CachedLongConv computes LongConv for rows u (n, d) that continue the inputs in their caches. It adds u to the caches.
// With u[-1], u[-2], … the inputs in the cache,
//
//	y[t] = Σ_{j<l_k} k[j]·u[t-j] + D u[t]
//
// k (l_k, d) must have as many taps as the cache's Window, or as there are inputs now. If it has Ahead more, steps of
// one position are fast. A row whose cache is nil has no inputs before it and stores none.
func (t *Tape) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows, caches []*engine.ConvCache) *tensor.Tensor {
	d := u.Dim(-1)
	checkRows("CachedLongConv", r, u)
	if len(caches) != r.Count() || k.Dims() != 2 || k.Dim(1) != d {
		shapePanic("CachedLongConv", u, k, skip)
	}
	for i, c := range caches {
		need := r.Len(i)
		if c != nil {
			need = min(c.Window, c.Past()+need)
		}
		if k.Dim(0) < need {
			shapePanic("CachedLongConv", u, k, skip)
		}
	}
	return t.engine.CachedLongConv(u, k, skip, r, caches)
}

// BothWays computes LongConv with a second kernel that looks ahead:
//
//	y[t, c] = Σ_{j≤t} k[j, c]·u[t-j, c] + Σ_j ahead[j, c]·u[t+1+j, c] + D[c]·u[t, c]
//
// with rows u (n, d) of at most LongestAtOnce positions, and kernels k and ahead in the form that LongConv takes. A row
// of l positions uses the first l taps of k and l-1 of ahead. D is (d), or nil for zero.
func (t *Tape) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	d := u.Dim(-1)
	checkRows("BothWays", r, u)
	if r.Longest() > engine.LongestAtOnce || t.engine.KernelTaps(k, d) == 0 || t.engine.KernelTaps(ahead, d) == 0 ||
		skip != nil && skip.Len() != d {
		shapePanic("BothWays", u, k, ahead, skip)
	}
	return t.engine.BothWays(u, k, ahead, skip, r)
}

// KernelRows returns the h kernels k as rows (l, h).
func (t *Tape) KernelRows(k *tensor.Tensor, h int) *tensor.Tensor {
	if t.engine.KernelTaps(k, h) == 0 {
		shapePanic("KernelRows", k)
	}
	return t.engine.KernelRows(k, h)
}

// Ahead returns how many more taps than inputs a kernel should have for fast steps of CachedLongConv.
func (t *Tape) Ahead() int { return t.engine.Ahead() }

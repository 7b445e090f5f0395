package autograd

import "github.com/hippo-ssm/hippo/tensor"

// KVCache holds the (rotated) keys and the values of the positions seen so far: (b, heads, cap, head_dim) each, of which
// Len positions are filled. While a tape records, Attention replaces K and V by new tensors of exactly the filled length,
// so that gradients can flow into the past; otherwise it appends in place and grows them by doubling.
type KVCache struct {
	K, V  *tensor.Tensor
	Len   int
	Start int  // positions before the first of these, which have been dropped
	own   bool // K and V are no results of a tape: nothing else needs them
}

// Remembered is how many of n positions the queries that follow can still see.
func (o *AttentionOptions) Remembered(n int) int {
	if o.Window > 0 {
		return min(n, o.Window-1)
	}
	return n
}

// reserve makes room for l more positions. With a window it forgets those that are out of sight, from time to time.
func (c *KVCache) reserve(batch, heads, l, hd int, o AttentionOptions) {
	if c.K != nil && c.K.Dim(2) >= c.Len+l {
		return
	}
	drop := c.Len - o.Remembered(c.Len)
	n := c.Len - drop
	room := max(n+l, 64)
	switch {
	case o.Window > 0:
		room = max(room, 2*o.Window)
	case c.K != nil:
		room = max(room, 2*c.K.Dim(2))
	}
	var both [][]float32 // side by side, as a token reads them
	if !c.own || c.K.Dim(2) < room {
		size := batch * heads * room * hd
		both = tensor.Together(size, size)
	}
	for i, x := range [2]**tensor.Tensor{&c.K, &c.V} {
		to := *x
		if both != nil {
			to = tensor.FromSlice(both[i], batch, heads, room, hd)
		}
		if n > 0 {
			copyRows(to, *x, drop, n)
		}
		*x = to
	}
	c.Len, c.Start, c.own = n, c.Start+drop, true
}

// replace takes over keys and values that begin at position start, all but those that are out of sight.
func (c *KVCache) replace(k, v *tensor.Tensor, start int, o AttentionOptions) {
	n := o.Remembered(k.Dim(2))
	drop := k.Dim(2) - n
	*c = KVCache{Start: start + drop}
	c.reserve(k.Dim(0), k.Dim(1), n, k.Dim(3), o)
	copyRows(c.K, k, drop, n)
	copyRows(c.V, v, drop, n)
	c.Len = n
}

// copyRows copies n rows from the given one on of every matrix in src (…, room, d) to the front of that in dst, whose room may
// differ. It may be src itself.
func copyRows(dst, src *tensor.Tensor, from, n int) {
	hd := src.Dim(-1)
	a, b := src.Dim(-2)*hd, dst.Dim(-2)*hd
	for i := range src.Len() / a {
		copy(dst.Data()[i*b:][:n*hd], src.Data()[i*a+from*hd:])
	}
}

// Clone returns an independent copy of the last n positions, or of all if there are fewer, without gradients and with no room to
// spare.
func (c *KVCache) Clone(n int) KVCache {
	n = min(n, c.Len)
	out := KVCache{Len: n, Start: c.Start + c.Len - n, own: true}
	if n == 0 {
		return out
	}
	for i, x := range [2]*tensor.Tensor{c.K, c.V} {
		y := tensor.New(x.Dim(0), x.Dim(1), n, x.Dim(3))
		copyRows(y, x, c.Len-n, n)
		if i == 0 {
			out.K = y
		} else {
			out.V = y
		}
	}
	return out
}

// Keep drops all but the last n positions, without gradients. Those that follow keep their places.
func (c *KVCache) Keep(n int) {
	if n < c.Len {
		*c = c.Clone(n)
	}
}

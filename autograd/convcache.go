package autograd

import (
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// ConvCache holds the inputs of a long convolution that its kernel still reaches: U (b, cap, d), of which Len rows of each sequence
// are filled, and the last Window-1 count. While a tape records, CachedLongConv replaces U by a new tensor, so that gradients can
// flow into the past; otherwise it appends in place.
type ConvCache struct {
	U      *tensor.Tensor
	Len    int
	Window int // the longest kernel

	ahead aheadBlock
}

// Past is the number of inputs that the next position sees.
func (c *ConvCache) Past() int { return min(c.Len, c.Window-1) }

// CachedLongConv is LongConv over a chunk u (b, n, d) behind the inputs in c, to which u is added: with the inputs u[-1], u[-2] and
// so on before the chunk,
//
//	y[t] = Σ_{j<l_k} k[j]·u[t-j] + D u[t]
//
// k (l_k, d) must have c.Window rows, or as many as there are inputs now; with Ahead more, steps of one position are fast. A few positions are
// summed directly, each in time linear in the inputs it sees; more are convolved together with what is in c.
func (t *Tape) CachedLongConv(u, k, skip *tensor.Tensor, c *ConvCache) *tensor.Tensor {
	b, n, d := u.Dim(0), u.Dim(1), u.Dim(2)
	past := c.Past()
	if k.Dim(0) < min(c.Window, past+n) || k.Dims() != 2 || k.Dim(1) != d || past > 0 && (c.U.Dim(0) != b || c.U.Dim(2) != d) {
		shapePanic("CachedLongConv", u, k, skip, c.U)
	}
	if t.recording {
		return t.Positions(t.LongConv(t.appendPast(u, c), k, skip), past, n)
	}
	c.append(u)
	if n == 1 && past >= aheadFrom && k.Dim(0) >= min(c.Window, past+Ahead()) {
		return t.convolveAhead(c, past, k, skip)
	}
	c.ahead.k = nil
	switch {
	case n <= directUpTo:
		return t.convolveLast(c, n, past, k, skip)
	case past == 0:
		return t.LongConv(u, k, skip)
	}
	all := t.New(b, past+n, d)
	copyPositions(all, 0, c.U, c.Len-past-n, past+n)
	return t.Positions(t.LongConv(all, k, skip), past, n)
}

// convolveLast computes y of the last n positions in c, directly; the first of them sees past inputs.
func (t *Tape) convolveLast(c *ConvCache, n, past int, k, skip *tensor.Tensor) *tensor.Tensor {
	b, d, room := c.U.Dim(0), c.U.Dim(2), c.U.Dim(1)
	y := t.New(b, n, d)
	through, m := t.throughOf(skip, d), k.Dim(0)
	overPositions(b, n, max(firRows, rowGrain(d*min(m, past+n))), func(i, lo, hi int) {
		x := c.U.Data()[(i*room+c.Len-n-past)*d:]
		kernel.FIRAfter(y.Data()[(i*n+lo)*d:], x, k.Data(), through, d, m, past+lo, hi-lo)
	})
	return y
}

// copyPositions copies n positions of every sequence of x (b, ·, d) from at on to the positions of y (b, ·, d) from to on.
func copyPositions(y *tensor.Tensor, to int, x *tensor.Tensor, at, n int) {
	d, ly, lx := x.Dim(2), y.Dim(1), x.Dim(1)
	for i := range x.Dim(0) {
		copy(y.Data()[(i*ly+to)*d:][:n*d], x.Data()[(i*lx+at)*d:])
	}
}

// append adds the positions of u in place, first making room, with Ahead rows to spare: it forgets what no kernel reaches, and grows
// by doubling.
func (c *ConvCache) append(u *tensor.Tensor) {
	b, n, d, past, room := u.Dim(0), u.Dim(1), u.Dim(2), c.Past(), 0
	if c.U != nil {
		room = c.U.Dim(1) - Ahead()
	}
	if c.Len+n > room {
		old, from := c.U, c.Len-past
		if 2*(past+n) > room {
			c.U = tensor.New(b, max(64, past+n, min(2*room, 2*c.Window))+Ahead(), d)
		}
		if past > 0 {
			copyPositions(c.U, 0, old, from, past) // to the front of the same memory if it has room
		}
		c.Len = past
	}
	copyPositions(c.U, c.Len, u, 0, n)
	c.Len += n
}

// Clone returns an independent copy, without gradients and with no room to spare.
func (c *ConvCache) Clone() ConvCache {
	out := c.last(c.Past())
	if c.ahead.k != nil {
		out.ahead = c.ahead
		out.ahead.sums = slices.Clone(c.ahead.sums)
	}
	return out
}

// Keep forgets all but the last n inputs, without gradients: for positions that follow, what came before them is zero.
func (c *ConvCache) Keep(n int) {
	if n < c.Past() {
		*c = c.last(n)
	}
}

// last is a copy with the last n inputs.
func (c *ConvCache) last(n int) ConvCache {
	out := ConvCache{Window: c.Window, Len: n}
	if n > 0 {
		out.U = tensor.New(c.U.Dim(0), n, c.U.Dim(2))
		copyPositions(out.U, 0, c.U, c.Len-n, n)
	}
	return out
}

// appendPast makes c.U a new tensor of the inputs that c counts and those of u (b, n, d).
func (t *Tape) appendPast(u *tensor.Tensor, c *ConvCache) *tensor.Tensor {
	past, n := c.Past(), u.Dim(1)
	o := appendPastOp{u: u, past: c.U, from: c.Len - past, kept: past, all: t.New(u.Dim(0), past+n, u.Dim(2))}
	if past > 0 {
		copyPositions(o.all, 0, c.U, o.from, past)
	}
	copyPositions(o.all, past, u, 0, n)
	if t.wants(u, c.U) {
		op := take[appendPastOp](t)
		*op = o
		t.push(op)
	}
	c.U, c.Len, c.ahead.k = o.all, past+n, nil
	return o.all
}

type appendPastOp struct {
	u, past, all *tensor.Tensor
	from, kept   int // the rows of past that it took
}

func (o *appendPastOp) Name() string                   { return "AppendPast" }
func (o *appendPastOp) Outputs(f func(*tensor.Tensor)) { f(o.all) }
func (o *appendPastOp) Backward(t *Tape) {
	g := o.all.Grad()
	if g == nil {
		return
	}
	add := func(x *tensor.Tensor, at, from, n int) {
		if dx := t.gradOf(x); dx != nil {
			d, l, all := x.Dim(2), x.Dim(1), o.all.Dim(1)
			for i := range x.Dim(0) {
				kernel.Add(dx[(i*l+at)*d:][:n*d], g[(i*all+from)*d:])
			}
		}
	}
	add(o.u, 0, o.kept, o.u.Dim(1))
	if o.kept > 0 {
		add(o.past, o.from, 0, o.kept)
	}
}

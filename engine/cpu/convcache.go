package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// CachedLongConv is LongConv over a chunk u (b, n, d) behind the inputs in c, to which u is added: with the inputs u[-1], u[-2] and
// so on before the chunk,
//
//	y[t] = Σ_{j<l_k} k[j]·u[t-j] + D u[t]
//
// k (l_k, d) must have c.Window rows, or as many as there are inputs now; with Ahead more, steps of one position are fast. A few positions are
// summed directly, each in time linear in the inputs it sees; more are convolved together with what is in c.
func (eng *Engine) oldCachedLongConv(u, k, skip *tensor.Tensor, c *engine.ConvCache) *tensor.Tensor {
	b, n, d := u.Dim(0), u.Dim(1), u.Dim(2)
	past := c.Past()
	if eng.Recording {
		return eng.oldPositions(eng.longConv(eng.appendPast(u, c), k, skip), past, n)
	}
	appendInputs(c, u)
	if n == 1 && past >= aheadFrom && k.Dim(0) >= min(c.Window, past+ahead()) {
		return eng.convolveAhead(c, past, k, skip)
	}
	c.Sums = nil
	switch {
	case n <= directUpTo:
		return eng.convolveLast(c, n, past, k, skip)
	case past == 0:
		return eng.longConv(u, k, skip)
	}
	all := eng.New(b, past+n, d)
	copyPositions(all, 0, c.U, c.Len-past-n, past+n)
	return eng.oldPositions(eng.longConv(all, k, skip), past, n)
}

// convolveLast computes y of the last n positions in c, directly; the first of them sees past inputs.
func (eng *Engine) convolveLast(c *engine.ConvCache, n, past int, k, skip *tensor.Tensor) *tensor.Tensor {
	b, d, room := c.U.Dim(0), c.U.Dim(2), c.U.Dim(1)
	y := eng.New(b, n, d)
	through, m := eng.throughOf(skip, d), k.Dim(0)
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

// appendInputs adds the positions of u in place, first making room, with Ahead rows to spare: it forgets what no kernel reaches, and grows
// by doubling.
func appendInputs(c *engine.ConvCache, u *tensor.Tensor) {
	b, n, d, past, room := u.Dim(0), u.Dim(1), u.Dim(2), c.Past(), 0
	if c.U != nil {
		room = c.U.Dim(1) - ahead()
	}
	if c.Len+n > room {
		old, from := c.U, c.Len-past
		if 2*(past+n) > room {
			c.U = tensor.New(b, max(64, past+n, min(2*room, 2*c.Window))+ahead(), d)
		}
		if past > 0 {
			copyPositions(c.U, 0, old, from, past) // to the front of the same memory if it has room
		}
		c.Len = past
	}
	copyPositions(c.U, c.Len, u, 0, n)
	c.Len += n
}

// appendPast makes c.U a new tensor of the inputs that c counts and those of u (b, n, d).
func (eng *Engine) appendPast(u *tensor.Tensor, c *engine.ConvCache) *tensor.Tensor {
	past, n := c.Past(), u.Dim(1)
	o := appendPastOp{u: u, past: c.U, from: c.Len - past, kept: past, all: eng.New(u.Dim(0), past+n, u.Dim(2))}
	if past > 0 {
		copyPositions(o.all, 0, c.U, o.from, past)
	}
	copyPositions(o.all, past, u, 0, n)
	if eng.wants(u, c.U) {
		op := take[appendPastOp](eng)
		*op = o
		eng.push(op)
	}
	c.U, c.Len, c.Sums = o.all, past+n, nil
	return o.all
}

type appendPastOp struct {
	u, past, all *tensor.Tensor
	from, kept   int // the rows of past that it took
}

func (o *appendPastOp) Name() string                   { return "AppendPast" }
func (o *appendPastOp) Outputs(f func(*tensor.Tensor)) { f(o.all) }
func (o *appendPastOp) Backward(eng *Engine) {
	g := o.all.Grad()
	if g == nil {
		return
	}
	add := func(x *tensor.Tensor, at, from, n int) {
		if dx := eng.gradOf(x); dx != nil {
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

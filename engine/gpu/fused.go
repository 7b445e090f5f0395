//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
)

// core computes these parts of composed operations in one launch each.
var (
	_ compose.Activator  = (*core)(nil)
	_ compose.Losser     = (*core)(nil)
	_ compose.Correlator = (*core)(nil)
)

// adding returns the bit of an operation that adds to its result, if add is set.
func adding(add bool) int {
	if add {
		return 1 << 16
	}
	return 0
}

// Activate sets to = a(x).
func (c *core) Activate(a engine.Activation, to, x engine.View) {
	c.pointwise(opActivate|int(a)<<8, 0, 0, to, x)
}

// ActivateGrad sets to = dy·a'(x), or adds it if add is set.
func (c *core) ActivateGrad(a engine.Activation, to, dy, x engine.View, add bool) {
	c.pointwise(opActivateGrad|int(a)<<8|adding(add), 0, 0, to, dy, x)
}

// Losses computes the losses of all rows in one launch, with a workgroup for each row.
func (c *core) Losses(to, all, x engine.View, targets []int32) {
	c.losses(at(to), 1, all, x, 0, targets, 0)
}

// LossesGrad computes their gradients in one launch, with a workgroup for each row.
func (c *core) LossesGrad(to, dy, all, x engine.View, targets []int32, add bool) {
	back := uint32(1)
	if add {
		back = 2
	}
	c.losses(at(dy), dy.Stride[0], all, x, at(to), targets, back)
}

func (c *core) losses(y uint64, stride int, all, x engine.View, dx uint64, targets []int32, back uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	places, done := c.ids(targets)
	defer done()
	rows, v := x.Shape[0], x.Shape[1]
	c.launch("loss", new(args).address(y, at(all), at(x), dx, places[0]).int(rows, v, stride).
		work(4*rows*v*int(1+back), 20*rows*v), rows, back)
}

// Correlate runs one launch with a thread for each tap.
func (c *core) Correlate(to, b, k engine.View) { c.taps(at(to), b, k, 0, 0, 0) }

// CorrelateGrad runs one launch with a thread for each element of b and of k.
func (c *core) CorrelateGrad(dy, b, k, db, dk engine.View) {
	c.taps(at(dy), b, k, at(db), at(dk), 1)
}

func (c *core) taps(y uint64, b, k engine.View, db, dk uint64, back uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, n := b.Shape[0], b.Shape[1]
	c.launch("taps", new(args).address(y, at(b), at(k), db, dk).int(d, n).
		work(4*d*n*int(3+4*back), d*n*n*int(1+back)), blocks(n*d, 256), back)
}

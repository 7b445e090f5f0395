//go:build gpu

package gpu

import (
	"cmp"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
)

var _ compose.Turner = (*core)(nil)

// The operation codes of pointwise.comp and reduce.comp.
const (
	opFill       = 0
	opCount      = 1
	opKeep       = 2
	opAffine     = 3
	opFunction   = 8  // plus an engine.Function
	opOperator   = 32 // plus an engine.Operator
	opSelect     = 36
	opActivate   = 37
	opAddBias    = 38
	opGate       = 39
	opScaleShift = 40
	opNegExp     = 41
	opTurn       = 42

	opActivateGrad = 43
	opGather       = 64

	opSum     = 0
	opDot     = 1
	opMax     = 2
	opDotBF16 = 3
)

// pointwise launches y = f(a, b, c) on up to four views of one shape, the result first.
func (c *core) pointwise(op int, s, t float64, views ...engine.View) {
	a, empty := axesOf(views...)
	if empty {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from := make([]uint64, len(views))
	for i, v := range views {
		from[i] = at(v)
	}
	c.elements(op, s, t, a, from)
}

func (c *core) elements(op int, s, t float64, a axes, from []uint64) {
	const most = 4
	if len(a.shape) > most {
		a.without(a.shortest(), func(rest axes, add []uint64) { c.elements(op, s, t, rest, plus(from, add)) })
		return
	}
	n, all := a.len(), slices.Grow(slices.Clone(from), most)[:most]
	p := new(args).address(all...).int(n, op).float(s, t).int(padded(most, 1, a.shape)...)
	for k := range most {
		if k < len(a.stride) {
			p.int(padded(most, 0, a.stride[k])...)
		} else {
			p.int(0, 0, 0, 0)
		}
	}
	moved := 0
	for k := range a.stride {
		moved += 4 * a.extent(k)
	}
	c.launch("pointwise", p.work(moved, n), blocks(n, 256))
}

// Fill sets to = v.
func (c *core) Fill(to engine.View, v float64) { c.pointwise(opFill, v, 0, to) }

// Count sets to[i] = i.
func (c *core) Count(to engine.View) {
	c.one(opCount, to, 0, 0)
}

// Keep sets to[i] = 1 where counter.Keep(seed, i, threshold) is true, else 0.
func (c *core) Keep(to engine.View, seed uint64, threshold uint32) {
	c.one(opKeep, to, seed, uint64(threshold))
}

// one launches an operation on the indices of a view of one axis, with two numbers as arguments.
func (c *core) one(op int, to engine.View, numbers ...uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := to.Shape[0]
	p := new(args).address(at(to), 0).address(numbers...).int(n, op).float(0, 0)
	p.int(1, 1, 1, n, 0, 0, 0, to.Stride[0])
	p.int(make([]int, 12)...)
	c.launch("pointwise", p.work(4*n, n), blocks(n, 256))
}

// Affine sets to = scale·x + shift.
func (c *core) Affine(to, x engine.View, scale, shift float64) {
	c.pointwise(opAffine, scale, shift, to, x)
}

// Map sets to = f(x).
func (c *core) Map(f engine.Function, to, x engine.View) { c.pointwise(opFunction+int(f), 0, 0, to, x) }

// Zip sets to = x f y.
func (c *core) Zip(f engine.Operator, to, x, y engine.View) {
	c.pointwise(opOperator+int(f), 0, 0, to, x, y)
}

// Select sets to = x where the condition is not 0, else y.
func (c *core) Select(to, condition, x, y engine.View) {
	c.pointwise(opSelect, 0, 0, to, x, y, condition)
}

// Turn sets to = scale·x·e^(u+v) modulo 2π. Factors whose view has no memory are left out.
func (c *core) Turn(to, x, u, v engine.View, scale float64) {
	c.pointwise(opTurn, scale, 0, to, x, u, v)
}

// Sum, Dot and DotBF16 add to the elements of to; Max takes their maximum with those of x.
func (c *core) Sum(to, x engine.View)    { c.reduce(opSum, to, x, x) }
func (c *core) Max(to, x engine.View)    { c.reduce(opMax, to, x, x) }
func (c *core) Dot(to, x, y engine.View) { c.reduce(opDot, to, x, y) }

// DotBF16 implements compose.Rounder.
func (c *core) DotBF16(to, x, y engine.View) { c.reduce(opDotBF16, to, x, y) }

func (c *core) reduce(op int, to, x, y engine.View) {
	all, empty := axesOf(to, x, y)
	if empty {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := all.pick(func(i int) bool { return all.stride[0][i] != 0 })
	over := all.pick(func(i int) bool { return all.stride[0][i] == 0 })
	c.sums(op, kept, over, []uint64{at(to), at(x), at(y)})
}

// sums launches a reduction. If there are too many axes, or a launch would write a result twice, it goes along an axis
// with one launch for each index.
func (c *core) sums(op int, kept, over axes, from []uint64) {
	const most = 3
	if axis := kept.doubled(); axis >= 0 || len(kept.shape) > most {
		if axis < 0 {
			axis = kept.shortest()
		}
		kept.without(axis, func(rest axes, add []uint64) { c.sums(op, rest, over, plus(from, add)) })
		return
	}
	if len(over.shape) > most {
		over.without(over.shortest(), func(rest axes, add []uint64) { c.sums(op, kept, rest, plus(from, add)) })
		return
	}
	n, flops := kept.len(), 2*kept.len()*over.len()
	moved := 4 * kept.extent(0) // the result is read, too
	for k := range kept.stride {
		moved += 4 * kept.extent(k) * over.extent(k)
	}
	if (op == opDot || op == opDotBF16) && c.product(op, kept, over, from, moved) {
		return
	}
	p := new(args).address(from...).int(n, op).int(padded(most, 1, kept.shape)...)
	for _, s := range kept.stride {
		p.int(padded(most, 0, s)...)
	}
	p.int(padded(most, 1, over.shape)...)
	for _, s := range over.stride[1:] {
		p.int(padded(most, 0, s)...)
	}
	if p.int(segment(over.len())).work(moved, flops); n < fewSums && over.len() >= longSum {
		c.launch("reduce", p, n, 64)
		return
	}
	c.launch("reduce", p, blocks(n, 64), 1)
}

// A sum gets a workgroup if there are fewer than fewSums sums of at least longSum terms, else a thread.
const (
	fewSums = 1 << 16
	longSum = 128
)

// product launches sums of products that are one matrix product or several of one size, and reports whether they are.
// Each sum must be over one axis; of the other axes at most one may belong to x alone, one to y alone, and one to both.
// The sums have the order of the reduce kernel, so that results have the same bits. Cooperative matrices give other
// bits: if they compute the products, a single row or column is computed by them, too.
func (c *core) product(op int, kept, over axes, from []uint64, moved int) bool {
	p := product{y: from[0], x: from[1], w: []uint64{from[2], 0, 0, 0}, how: addTo, moved: moved,
		rounds: op == opDotBF16}
	least := 8 // shortest length of each axis
	if p.matrices(c.unit) {
		least = 1
	}
	if len(over.shape) != 1 || over.shape[0] < least {
		return false
	}
	batch, row, column := -1, -1, -1
	for i := range kept.shape {
		which := &batch
		switch x, y := kept.stride[1][i] != 0, kept.stride[2][i] != 0; {
		case x && !y:
			which = &row
		case y && !x:
			which = &column
		}
		if *which >= 0 {
			return false
		}
		*which = i
	}
	of := func(axis, view int) (n, stride int) {
		if axis < 0 {
			return 1, 0
		}
		return kept.shape[axis], kept.stride[view][axis]
	}
	p.batches, p.ys[0] = of(batch, 0)
	p.rows, p.ys[1] = of(row, 0)
	p.n, p.ys[2] = of(column, 0)
	_, p.xs[0] = of(batch, 1)
	_, p.xs[1] = of(row, 1)
	_, p.ws[0] = of(batch, 2)
	_, p.ws[1] = of(column, 2)
	if p.rows < least || p.n < least {
		return false
	}
	p.k, p.xs[2], p.ws[2] = over.shape[0], over.stride[1][0], over.stride[2][0]
	c.multiply(p)
	return true
}

// doubled returns the axis along which to launch index by index, so that no launch has an element of the first view
// twice: the shortest axis that achieves this, or else the shortest of all. It returns -1 if the view has no element
// twice.
func (a axes) doubled() int {
	if !a.overlaps() {
		return -1
	}
	best := -1
	for i, n := range a.shape {
		if rest := a.pick(func(k int) bool { return k != i }); (best < 0 || n < a.shape[best]) && !rest.overlaps() {
			best = i
		}
	}
	if best < 0 {
		return a.shortest()
	}
	return best
}

// overlaps reports whether the first view may have an element twice.
func (a axes) overlaps() bool {
	order := make([]int, len(a.shape))
	for i := range order {
		order[i] = i
	}
	size := func(i int) int { return max(a.stride[0][i], -a.stride[0][i]) }
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(size(i), size(j)) })
	reach := 0
	for _, i := range order {
		if size(i) <= reach {
			return true
		}
		reach += (a.shape[i] - 1) * size(i)
	}
	return false
}

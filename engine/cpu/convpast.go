package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// longConvPast computes the rows of y for which use is true: it convolves each together with the inputs of its cache
// that the kernel reaches. While the tape records, the caches get new tensors, else they already hold the inputs u.
func (eng *Engine) longConvPast(y, u, k, skip *tensor.Tensor, r *engine.Rows, caches []*engine.ConvCache,
	use func(i int) bool) {
	op := take[afterPastOp](eng)
	op.choose(r, use)
	if op.Count() == 0 {
		return
	}
	op.y, op.inputs, op.long = y, op.inputs[:0], op.long[:0]
	op.joined.Clear()
	for i := range op.Count() {
		row := op.in(i)
		c := caches[row]
		if eng.Recording {
			eng.appendPast(c, u, spanOf(r, row))
		}
		n := min(c.Len, c.Window-1+r.Len(row))
		op.inputs = append(op.inputs, c.U)
		op.long = append(op.long, span{c.Len - n, n})
		op.joined.Add(n, 0)
	}
	all := eng.joinPast(op)
	op.z = eng.like(all)
	eng.longConv(op.z, engine.Gates{V: all, HeadDim: 1}, k, skip, &op.joined, func(int) bool { return true })
	op.each(func(y, z []float32) { copy(y, z) }, y.Data(), op.z.Data())
	if eng.wants(op.z) {
		eng.pushPart("CachedLongConv", op, y)
	}
}

// afterPastOp copies the last positions of the rows of z (Σ long, d) to y.
type afterPastOp struct {
	subset
	joined engine.Rows // of z
	inputs []*tensor.Tensor
	long   []span // where the inputs in use are in inputs
	y, z   *tensor.Tensor
}

// each calls f with the elements of each row in tensors shaped like y and z.
func (o *afterPastOp) each(f func(y, z []float32), y, z []float32) {
	d := o.y.Dim(-1)
	for i := range o.Count() {
		n := o.Len(i) * d
		f(y[o.all.From(o.in(i))*d:][:n], z[(o.joined.From(i)+o.joined.Len(i)-o.Len(i))*d:][:n])
	}
}

func (o *afterPastOp) Backward(eng *Engine) {
	if dz := eng.gradOf(o.z); dz != nil {
		o.each(func(dy, dz []float32) { kernel.Add(dz, dy) }, o.y.Grad(), dz)
	}
}

// joinPast copies the inputs that the kernel reaches into one tensor, row after row.
func (eng *Engine) joinPast(o *afterPastOp) *tensor.Tensor {
	if x := o.inputs[0]; len(o.inputs) == 1 && o.long[0].len == x.Dim(0) {
		return x
	}
	d := o.y.Dim(-1)
	op := take[joinPastOp](eng)
	*op = joinPastOp{from: o, all: eng.New(o.joined.Total(), d)}
	op.each(op.all.Data(), func(i int) []float32 { return o.inputs[i].Data() }, func(all, x []float32) { copy(all, x) })
	if eng.wants(o.inputs...) {
		eng.push("JoinPast", op, op.all)
	}
	return op.all
}

type joinPastOp struct {
	from *afterPastOp
	all  *tensor.Tensor
}

// each calls f with the elements of each row in all and in input(i), unless input(i) is nil.
func (o *joinPastOp) each(all []float32, input func(i int) []float32, f func(all, x []float32)) {
	d := o.all.Dim(-1)
	for i, at := range o.from.long {
		if x := input(i); x != nil {
			f(all[o.from.joined.From(i)*d:][:at.len*d], x[at.at*d:][:at.len*d])
		}
	}
}

func (o *joinPastOp) Backward(eng *Engine) {
	o.each(o.all.Grad(), func(i int) []float32 { return eng.gradOf(o.from.inputs[i]) }, func(g, dx []float32) {
		kernel.Add(dx, g)
	})
}

// appendPast makes c.U a new tensor: the inputs of c that the kernel reaches, then those of the row of u.
func (eng *Engine) appendPast(c *engine.ConvCache, u *tensor.Tensor, row span) {
	past, d := c.Past(), u.Dim(-1)
	o := appendPastOp{u: u, row: row, past: c.U, from: c.Len - past, kept: past, all: eng.New(past+row.len, d)}
	if past > 0 {
		copy(o.all.Data()[:past*d], c.U.Data()[o.from*d:])
	}
	copy(o.all.Data()[past*d:], u.Data()[row.at*d:])
	if eng.wants(u, c.U) {
		eng.push("AppendPast", save(eng, o), o.all)
	}
	c.U, c.Len, c.Sums = o.all, past+row.len, nil
}

type appendPastOp struct {
	u, past, all *tensor.Tensor
	row          span // of u
	from, kept   int  // the positions of past that it copied
}

func (o *appendPastOp) Backward(eng *Engine) {
	g, d := o.all.Grad(), o.all.Dim(-1)
	if du := eng.gradOf(o.u); du != nil {
		kernel.Add(du[o.row.at*d:][:o.row.len*d], g[o.kept*d:])
	}
	if o.kept > 0 {
		if dx := eng.gradOf(o.past); dx != nil {
			kernel.Add(dx[o.from*d:][:o.kept*d], g)
		}
	}
}

package cpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// Columns leaves the parts where they are in x. Operations read a part with positionsOf, and write its gradient into
// that of x with gradPositions.
func (eng *Engine) Columns(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	o := take[columnsOp](eng)
	*o = columnsOp{x: x, parts: resize(o.parts, len(widths)), outputs: o.outputs[:0]}
	at := 0
	for i, d := range widths {
		o.parts[i] = columns{Rows: kernel.Rows{X: x.Data()[at:], Step: x.Dim(-1)}, n: x.Rows(), d: d, of: o, at: at}
		o.outputs = append(o.outputs, eng.arena.Over(&o.parts[i], x, d))
		at += d
	}
	if eng.wants(x) {
		eng.push("Columns", o, o.outputs...)
	}
	return slices.Clone(o.outputs)
}

type columnsOp struct {
	x       *tensor.Tensor
	parts   []columns
	outputs []*tensor.Tensor
	begun   bool // the memory of the gradient of x is in use for the gradients of the parts
	add     bool // the gradient of x had contents before
}

// Backward clears the gradients that no part has written.
func (o *columnsOp) Backward(eng *Engine) {
	if !o.begun || o.add {
		return
	}
	for i := range o.parts {
		if c := &o.parts[i]; !c.written {
			dx := c.gradient(eng)
			parallel.For(c.n, rowGrain(c.d), func(lo, hi int) {
				for t := lo; t < hi; t++ {
					clear(dx.Row(t, c.d))
				}
			})
		}
	}
}

// columns is a part of Columns: the elements [at, at+d) of each of n rows.
type columns struct {
	kernel.Rows
	n, d, at int
	of       *columnsOp // nil for a copy
	written  bool       // its gradient has been written
}

// gradient returns the rows of the part in the gradient of x.
func (c *columns) gradient(eng *Engine) kernel.Rows {
	return kernel.Rows{X: eng.gradient(c.of.x)[c.at:], Step: c.Step}
}

func (c *columns) Len() int   { return c.n * c.d }
func (c *columns) Bytes() int { return 4 * c.Len() }

func (c *columns) Like(n int) tensor.Storage {
	return &columns{Rows: kernel.Rows{X: make([]float32, n), Step: n}, n: 1, d: n}
}

func (c *columns) Read(dst []float32) {
	for t := range c.n {
		copy(dst[t*c.d:], c.Row(t, c.d))
	}
}

func (c *columns) Write(src []float32) {
	for t := range c.n {
		copy(c.Row(t, c.d), src[t*c.d:])
	}
}

func (c *columns) Copy(to int, from tensor.Storage, at, n int) {
	own, others := make([]float32, c.Len()), make([]float32, from.Len())
	c.Read(own)
	from.Read(others)
	copy(own[to:to+n], others[at:])
	c.Write(own)
}

// columnsOf returns the storage of x if it is a part of Columns, else nil.
func columnsOf(x *tensor.Tensor) *columns {
	c, _ := x.Storage().(*columns)
	return c
}

// positionsOf returns the positions of x, which may be a part of Columns.
func positionsOf(x *tensor.Tensor) kernel.Rows {
	if c := columnsOf(x); c != nil {
		return c.Rows
	}
	return kernel.Rows{X: x.Data(), Step: x.Dim(-1)}
}

// gradPositions is gradTo for an x that may be a part of Columns. The rows are empty if no gradient is wanted.
func (eng *Engine) gradPositions(x *tensor.Tensor) (dx kernel.Rows, add bool) {
	c := columnsOf(x)
	switch {
	case c == nil:
		dx.X, add = eng.gradTo(x)
		dx.Step = x.Dim(-1)
		return dx, add
	case !eng.wanted(x):
		return dx, false
	case !c.of.begun:
		_, c.of.add = eng.gradTo(c.of.x)
		c.of.begun = true
	}
	add = c.of.add || c.written
	c.written = true
	return c.gradient(eng), add
}

// addColumnsGrad is addGrad for an x that is a part of Columns.
func (eng *Engine) addColumnsGrad(x *tensor.Tensor, dy []float32) {
	dx, add := eng.gradPositions(x)
	if dx.X == nil {
		return
	}
	d := x.Dim(-1)
	parallel.For(x.Rows(), rowGrain(d), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			if add {
				kernel.Add(dx.Row(t, d), dy[t*d:])
			} else {
				copy(dx.Row(t, d), dy[t*d:])
			}
		}
	})
}

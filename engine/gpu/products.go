//go:build gpu

package gpu

import (
	"errors"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// upper is the bfloat16 number that v is.
func upper(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) }

// matrix are the form and the place of weights.
func (e *Engine) matrix(w *tensor.Tensor) (form uint32, at []uint64) {
	if p, ok := w.Packed().(*packed); ok {
		e.take(p.q)
		return uint32(p.form), p.matrix()
	}
	return 0, []uint64{e.address(w), 0, 0, 0}
}

// fewRows are the rows up to which each is multiplied alone. A row has the same bits either way.
const fewRows = 8

// fewTiles are so few tiles of 32 by 32 that tiles of 16 by 16 keep more of a card busy.
const fewTiles = 256

func (e *Engine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if e.Recording {
		return e.Engine.Linear(x, w, bias, a)
	}
	n, k, rows := w.Dim(0), w.Dim(1), x.Rows()
	y := e.like(x, n)
	form, at := e.matrix(w)
	weights := 4 * n * k
	if w, ok := w.Packed().(*packed); ok {
		weights = w.Bytes()
	}
	if rows <= fewRows {
		e.multiplyRows(y, x, bias, form, at, weights+4*rows*n, openRows{n: n, k: k, rows: rows, a: a})
		return y
	}
	p := new(args).address(e.address(y), e.address(x), e.address(bias)).address(at...).int(n, k, rows, int(a)).
		work(weights+4*rows*(n+k), 2*rows*n*k)
	side := 32
	if blocks(rows, side)*blocks(n, side) < fewTiles {
		side = 16
	}
	e.run("linear_tile", p, blocks(rows, side)*blocks(n, side), form, uint32(side))
	return y
}

func (e *Engine) Embedding(w *tensor.Tensor, ids []int32) *tensor.Tensor {
	p, ok := w.Packed().(*packed)
	if !ok {
		return e.Engine.Embedding(w, ids)
	}
	y := e.New(len(ids), p.k)
	if len(ids) == 0 {
		return y
	}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	places, done := e.c.ids(ids)
	defer done()
	e.c.unpack(y.Storage().(*buffer), p, places[0], len(ids))
	return y
}

// unpack fills memory with rows of a packed matrix: those at places, or the first n. The caller holds the lock.
func (c *core) unpack(to *buffer, p *packed, places uint64, n int) {
	a := new(args).address(to.at.address(), places).address(p.matrix()...).int(n, p.k)
	c.launch("unpack", a.work(p.q.Bytes()+4*n*p.k, 0), blocks(n*p.k, 256), uint32(p.form))
}

// Unpack is compose.Unpacker, for operations that have no kernel for packed weights.
func (c *core) Unpack(to engine.Buffer, w tensor.Packed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := w.(*packed)
	if !ok {
		c.fail(errors.New("engine/gpu: found weights that another engine has packed, want those of Model.Use"))
		return
	}
	c.unpack(to.(*buffer), p, 0, w.Len()/p.k)
}

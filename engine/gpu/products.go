//go:build gpu

package gpu

import (
	"errors"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// upper returns v, which must be exact in bfloat16, as a bfloat16 number.
func upper(v float32) uint16 { return uint16(math.Float32bits(v) >> 16) }

// matrix returns the form of weights and the kernel arguments that locate them.
func (e *Engine) matrix(w *tensor.Tensor) (form uint32, at []uint64) {
	if p, ok := w.Packed().(*packed); ok {
		e.take(p.q)
		return uint32(p.form), p.matrix()
	}
	return 0, []uint64{e.address(w), 0, 0, 0}
}

func (e *Engine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if e.Recording {
		return e.Engine.Linear(x, w, bias, a)
	}
	n, k := w.Dim(0), w.Dim(1)
	y := e.like(x, n)
	form, at := e.matrix(w)
	p := product{w: at, how: int(a), form: form, batches: 1, rows: x.Rows(), n: n, k: k, ys: [3]int{0, n, 1},
		ws: [3]int{0, k, 1}, moved: 4 * n * k, rounds: e.Precision == engine.BF16}
	if w, ok := w.Packed().(*packed); ok {
		p.moved, p.rounds = w.Bytes(), p.form == uint32(engine.BF16) && (p.rounds || !w.Exact())
	}
	if p.moved += 4 * p.rows * n; p.rows <= fewRows && !p.matrices(e.c.unit) {
		e.multiplyRows(y, x, bias, &p)
		return y
	}
	stride := 0
	p.x, stride = e.strided(x)
	p.xs = [3]int{0, stride, 1}
	p.y, p.bias, p.moved = e.address(y), e.address(bias), p.moved+4*p.rows*k
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.c.multiply(p)
	e.forget()
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

// unpack fills a buffer with rows of a packed matrix: the rows whose numbers are at address places, or the first n rows
// if it is 0. c.mu must be held.
func (c *core) unpack(to *buffer, p *packed, places uint64, n int) {
	a := new(args).address(to.at.address(), places).address(p.matrix()...).int(n, p.k)
	c.launch("unpack", a.work(p.q.Bytes()/max(1, p.Len()/p.k)*n+4*n*p.k, 0), blocks(n*p.k, 256), uint32(p.form))
}

// Unpack implements compose.Unpacker, for operations that have no kernel for packed weights.
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

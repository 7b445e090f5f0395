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

func (e *Engine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if e.Recording {
		return e.Engine.Linear(x, w, bias, a)
	}
	n, k := w.Dim(0), w.Dim(1)
	y := e.like(x, n)
	form, at := e.matrix(w)
	p := product{y: e.address(y), x: e.address(x), w: at, bias: e.address(bias), how: int(a), form: form, batches: 1,
		rows: x.Rows(), n: n, k: k, ys: [3]int{0, n, 1}, xs: [3]int{0, k, 1}, ws: [3]int{0, k, 1}, moved: 4 * n * k,
		rounds: e.Precision == engine.BF16}
	if w, ok := w.Packed().(*packed); ok {
		p.moved, p.rounds = w.Bytes(), p.form == uint32(engine.BF16) && (p.rounds || !w.Exact())
	}
	p.moved += 4 * p.rows * (n + k)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.c.multiply(p)
	e.recorded()
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
	c.launch("unpack", a.work(p.q.Bytes()/max(1, p.Len()/p.k)*n+4*n*p.k, 0), blocks(n*p.k, 256), uint32(p.form))
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

func (e *Engine) AddLayerNorm(x, r, w, b *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	if e.Recording {
		return e.Engine.AddLayerNorm(x, r, w, b, groups, eps)
	}
	return e.norm(x, r, w, b, groups, eps, 1)
}

func (e *Engine) AddRMSNorm(x, r, w *tensor.Tensor, groups int, eps float64) (s, y *tensor.Tensor) {
	if e.Recording {
		return e.Engine.AddRMSNorm(x, r, w, groups, eps)
	}
	return e.norm(x, r, w, nil, groups, eps, 0)
}

func (e *Engine) norm(x, r, w, b *tensor.Tensor, groups int, eps float64, centered int) (s, y *tensor.Tensor) {
	s, y = x, e.like(x, x.Dim(-1))
	if r != nil {
		s = e.like(x, x.Dim(-1))
	}
	n := x.Rows() * groups
	e.run("norm", new(args).address(e.address(y), e.address(s), e.address(x), e.address(r), e.address(w), e.address(b)).
		int(n, x.Dim(-1)/groups, groups, centered).float(eps).work(16*x.Len(), 4*x.Len()), n)
	return s, y
}

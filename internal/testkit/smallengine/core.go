// Package smallengine is the smallest engine: just the core, in plain loops, for tests. Every operation on it is
// composed by engine/compose. Its memory is apart from Go's, as a device's is: a tensor has the number of a block in a
// heap, which counts what is copied in and out.
package smallengine

import (
	"math"
	"runtime"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Float is the precision of an engine.
type Float interface{ float32 | float64 }

// Backend is engine.Backend with a heap of its own. Any number of goroutines may use it.
type Backend[F Float] struct {
	compose.Backend
	*heap[F]
}

// New returns a backend with an empty heap.
func New[F Float]() Backend[F] {
	h := &heap[F]{blocks: map[int][]F{}}
	return Backend[F]{compose.Backend{Core: core[F]{h}}, h}
}

// heap is the memory of engines.
type heap[F Float] struct {
	mu     sync.Mutex
	blocks map[int][]F
	next   int
	in     int // numbers copied in
	out    int // numbers copied out
	rows   int // numbers of rows copied in, such as ids
}

// Copied returns how many numbers have been copied in and out since the last call, and how many numbers of rows (ids)
// in.
func (h *heap[F]) Copied() (in, out, rows int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in, out, rows = h.in, h.out, h.rows
	h.in, h.out, h.rows = 0, 0, 0
	return in, out, rows
}

// block is a handle of memory in a heap.
type block[F Float] struct {
	heap *heap[F]
	id   int
	n    int
}

func (h *heap[F]) new(n int) *block[F] {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	h.blocks[h.next] = make([]F, n)
	b := &block[F]{h, h.next, n}
	runtime.AddCleanup(b, h.free, b.id)
	return b
}

func (h *heap[F]) free(id int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.blocks, id)
}

// of is the memory of a block of h.
func (h *heap[F]) of(b tensor.Storage) []F {
	h.mu.Lock()
	defer h.mu.Unlock()
	x, ok := h.blocks[b.(*block[F]).id]
	if !ok {
		panic("smallengine: memory is used after it was freed")
	}
	return x
}

func (b *block[F]) Len() int                  { return b.n }
func (b *block[F]) Bytes() int                { return 4 * b.n }
func (b *block[F]) Like(n int) tensor.Storage { return b.heap.new(n) }

func (b *block[F]) Copy(to int, from tensor.Storage, at, n int) {
	copy(b.heap.of(b)[to:to+n], b.heap.of(from)[at:])
}

func (b *block[F]) Read(dst []float32) {
	for i, v := range b.heap.of(b) {
		dst[i] = float32(v)
	}
	b.heap.mu.Lock()
	b.heap.out += b.n
	b.heap.mu.Unlock()
}

func (b *block[F]) Write(src []float32) {
	x := b.heap.of(b)
	for i, v := range src {
		x[i] = F(v)
	}
	b.heap.mu.Lock()
	b.heap.in += b.n
	b.heap.mu.Unlock()
}

// core is the core of an engine on a heap.
type core[F Float] struct{ *heap[F] }

func (c core[F]) Kind() string            { return "small" }
func (c core[F]) New(n int) engine.Buffer { return c.new(n) }
func (c core[F]) Free(b engine.Buffer)    { c.free(b.(*block[F]).id) }

func (c core[F]) Fill(to engine.View, v float64) {
	y := c.of(to.Of)
	each(to, to, to, func(i, _, _ int) { y[i] = F(v) })
}

func (c core[F]) Count(to engine.View) {
	y := c.of(to.Of)
	for i := range to.Shape[0] {
		y[to.At+i*to.Stride[0]] = F(i)
	}
}

func (c core[F]) Keep(to engine.View, seed uint64, threshold uint32) {
	y := c.of(to.Of)
	for i := range to.Shape[0] {
		y[to.At+i*to.Stride[0]] = 0
		if counter.Keep(seed, i, threshold) {
			y[to.At+i*to.Stride[0]] = 1
		}
	}
}

func (c core[F]) Affine(to, x engine.View, scale, shift float64) {
	y, a := c.of(to.Of), c.of(x.Of)
	each(to, x, x, func(i, j, _ int) { y[i] = F(scale)*a[j] + F(shift) })
}

var functions = map[engine.Function]func(float64) float64{
	engine.FnExp: math.Exp, engine.FnExpm1: math.Expm1, engine.FnLog: math.Log, engine.FnLog1p: math.Log1p,
	engine.FnSqrt: math.Sqrt, engine.FnTanh: math.Tanh, engine.FnErf: math.Erf,
	engine.FnSin: math.Sin, engine.FnCos: math.Cos, engine.FnAbs: math.Abs,
	engine.FnReciprocal: func(x float64) float64 { return 1 / x },
	engine.FnSigmoid:    func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
}

func (c core[F]) Map(f engine.Function, to, x engine.View) {
	y, a, of := c.of(to.Of), c.of(x.Of), functions[f]
	each(to, x, x, func(i, j, _ int) { y[i] = F(of(float64(a[j]))) })
}

func (c core[F]) Zip(f engine.Operator, to, x, z engine.View) {
	y, a, b := c.of(to.Of), c.of(x.Of), c.of(z.Of)
	each(to, x, z, map[engine.Operator]func(i, j, k int){
		engine.OpPlus:  func(i, j, k int) { y[i] = a[j] + b[k] },
		engine.OpMinus: func(i, j, k int) { y[i] = a[j] - b[k] },
		engine.OpTimes: func(i, j, k int) { y[i] = a[j] * b[k] },
		engine.OpLess: func(i, j, k int) {
			if y[i] = 0; a[j] < b[k] {
				y[i] = 1
			}
		},
	}[f])
}

func (c core[F]) Select(to, condition, x, z engine.View) {
	y, cond := c.of(to.Of), c.of(condition.Of)
	for ok, from := range map[bool]engine.View{true: x, false: z} {
		a := c.of(from.Of)
		each(to, from, condition, func(i, j, k int) {
			if (cond[k] != 0) == ok {
				y[i] = a[j]
			}
		})
	}
}

func (c core[F]) Sum(to, x engine.View) {
	y, a := c.of(to.Of), c.of(x.Of)
	each(to, x, x, func(i, j, _ int) { y[i] += a[j] })
}

func (c core[F]) Max(to, x engine.View) {
	y, a := c.of(to.Of), c.of(x.Of)
	each(to, x, x, func(i, j, _ int) { y[i] = max(y[i], a[j]) })
}

func (c core[F]) Dot(to, x, z engine.View) {
	y, a, b := c.of(to.Of), c.of(x.Of), c.of(z.Of)
	each(to, x, z, func(i, j, k int) { y[i] += a[j] * b[k] })
}

func (c core[F]) Gather(to, x engine.View, rows []int32) {
	c.along(to, x, rows, func(i, row int) (int, int) { return i, row }, c.copy)
}

func (c core[F]) Scatter(to, x engine.View, rows []int32) {
	c.along(to, x, rows, func(i, row int) (int, int) { return row, i }, c.Sum)
}

func (c core[F]) copy(to, x engine.View) { c.Affine(to, x, 1, 0) }

// along calls f with an element of the first axis of to and of x for each row.
func (c core[F]) along(to, x engine.View, rows []int32, places func(i, row int) (int, int),
	f func(to, x engine.View)) {
	c.mu.Lock()
	c.rows += len(rows)
	c.mu.Unlock()
	at := func(v engine.View, i int) engine.View {
		return engine.View{Of: v.Of, At: v.At + i*v.Stride[0], Shape: v.Shape[1:], Stride: v.Stride[1:]}
	}
	for i, row := range rows {
		k, j := places(i, int(row))
		f(at(to, k), at(x, j))
	}
}

// each calls f for every element, with its place in a, b and c.
func each(a, b, c engine.View, f func(i, j, k int)) {
	if len(a.Shape) == 0 {
		f(a.At, b.At, c.At)
		return
	}
	n, last := a.Shape[0], len(a.Shape) == 1
	for range n {
		if last {
			f(a.At, b.At, c.At)
		} else {
			each(inner(a), inner(b), inner(c), f)
		}
		a.At, b.At, c.At = a.At+a.Stride[0], b.At+b.Stride[0], c.At+c.Stride[0]
	}
}

// inner is the first element of v along its first axis.
func inner(v engine.View) engine.View {
	return engine.View{Of: v.Of, At: v.At, Shape: v.Shape[1:], Stride: v.Stride[1:]}
}

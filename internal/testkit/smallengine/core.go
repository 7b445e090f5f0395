// Package smallengine is the smallest engine: just the core, in plain loops, for tests. All its operations are composed
// by engine/compose. Its memory is separate from ordinary memory, like a device's: other packages cannot look into a
// block, and all numbers copied in and out are counted.
package smallengine

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Float is the precision of an engine.
type Float interface{ float32 | float64 }

// Backend is an engine.Backend with memory of its own. It is safe for concurrent use.
type Backend[F Float] struct {
	compose.Backend
	*copies
}

// New returns a backend.
func New[F Float]() Backend[F] {
	c := core[F]{&copies{}}
	return Backend[F]{compose.Backend{Core: c}, c.copies}
}

// copies counts the numbers that are copied.
type copies struct {
	in, out, rows atomic.Int64
	reads, last   atomic.Int64 // calls of Read, and the first call that fails; 0 for none
}

// Reads returns how often memory was read.
func (c *copies) Reads() int { return int(c.reads.Load()) }

// FailAt makes the backend fail at the given read, as a device does: that read and all later ones return NaN, and Err
// returns an error.
func (c *copies) FailAt(read int) { c.last.Store(int64(read)) }

// Err returns the error of a backend that has failed.
func (c *copies) Err() error {
	if last := c.last.Load(); last > 0 && c.reads.Load() >= last {
		return errLost
	}
	return nil
}

var errLost = errors.New("the small engine is lost")

// Copied returns how many numbers were copied in and out since the last call, and how many row numbers (ids) were
// copied in.
func (c *copies) Copied() (in, out, rows int) {
	return int(c.in.Swap(0)), int(c.out.Swap(0)), int(c.rows.Swap(0))
}

// block is memory of a backend. It is nil after it was freed.
type block[F Float] struct {
	of *copies
	x  []F
}

func (b *block[F]) Len() int                  { return len(b.x) }
func (b *block[F]) Bytes() int                { return 4 * len(b.x) }
func (b *block[F]) Like(n int) tensor.Storage { return &block[F]{b.of, make([]F, n)} }

func (b *block[F]) Copy(to int, from tensor.Storage, at, n int) {
	copy(b.x[to:to+n], from.(*block[F]).x[at:])
}

func (b *block[F]) Read(dst []float32) {
	b.of.reads.Add(1)
	lost := b.of.Err() != nil
	for i, v := range b.x {
		if dst[i] = float32(v); lost {
			dst[i] = float32(math.NaN())
		}
	}
	b.of.out.Add(int64(len(b.x)))
}

func (b *block[F]) Write(src []float32) {
	for i, v := range src {
		b.x[i] = F(v)
	}
	b.of.in.Add(int64(len(src)))
}

// core is the core of an engine.
type core[F Float] struct{ *copies }

func (c core[F]) of(b tensor.Storage) []F { return b.(*block[F]).x }

func (c core[F]) Kind() string         { return "small" }
func (c core[F]) Free(b engine.Buffer) { b.(*block[F]).x = nil }

// New returns memory filled with NaN, so that no code relies on its initial contents.
func (c core[F]) New(n int) engine.Buffer {
	x := make([]F, n)
	for i := range x {
		x[i] = F(math.NaN())
	}
	return &block[F]{c.copies, x}
}

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
	c.each(to, x, rows, func(i, row int) (int, int) { return i, row }, c.copy)
}

func (c core[F]) Scatter(to, x engine.View, rows []int32) {
	c.each(to, x, rows, func(i, row int) (int, int) { return row, i }, c.Sum)
}

func (c core[F]) copy(to, x engine.View) { c.Affine(to, x, 1, 0) }

// each calls f for each row with an element along the first axis of to and one of x.
func (c core[F]) each(to, x engine.View, rows []int32, places func(i, row int) (int, int),
	f func(to, x engine.View)) {
	c.rows.Add(int64(len(rows)))
	at := func(v engine.View, i int) engine.View {
		return engine.View{Of: v.Of, At: v.At + i*v.Stride[0], Shape: v.Shape[1:], Stride: v.Stride[1:]}
	}
	for i, row := range rows {
		k, j := places(i, int(row))
		f(at(to, k), at(x, j))
	}
}

// each calls f for every element with its offsets in a, b and c.
func each(a, b, c engine.View, f func(i, j, k int)) {
	along(a.Shape, a.Stride, b.Stride, c.Stride, a.At, b.At, c.At, f)
}

func along(shape, a, b, c []int, i, j, k int, f func(i, j, k int)) {
	if len(shape) == 0 {
		f(i, j, k)
		return
	}
	for range shape[0] {
		if len(shape) == 1 {
			f(i, j, k)
		} else {
			along(shape[1:], a[1:], b[1:], c[1:], i, j, k, f)
		}
		i, j, k = i+a[0], j+b[0], k+c[0]
	}
}

//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/tensor"
)

// part is some columns of a matrix where they lie: rows that are stride numbers apart, from number `from` on.
// Operations that read rows read them there (strided, all); others settle it first.
type part struct {
	of                        *buffer
	from, stride, rows, width int
}

var _ compose.Lazy = (*part)(nil)

// Split copies nothing, unless the tape records.
func (e *Engine) Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	if e.Recording {
		return e.Engine.Split(x, widths...)
	}
	of, at, parts := e.Memory(x).(*buffer), 0, make([]*tensor.Tensor, len(widths))
	for i, w := range widths {
		shape := x.Shape()
		shape[len(shape)-1] = w
		parts[i] = tensor.Stored(&part{of, at, x.Dim(-1), x.Rows(), w}, shape...)
		at += w
	}
	return parts
}

// ReleaseSince settles what is kept, as the matrices of parts may go.
func (e *Engine) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	for _, t := range keep {
		if t != nil && partOf(t) != nil {
			e.Memory(t)
		}
	}
	e.Engine.ReleaseSince(mark, keep...)
}

// partOf is t as a part, nil if it is none.
func partOf(t *tensor.Tensor) *part {
	p, _ := t.Storage().(*part)
	return p
}

// strided is the address of a tensor, and how many numbers a row is after the one before it.
func (e *Engine) strided(t *tensor.Tensor) (at uint64, stride int) {
	if p := partOf(t); p != nil {
		return e.take(p.of) + 4*uint64(p.from), p.stride
	}
	return e.address(t), t.Dim(-1)
}

func (p *part) view() engine.View {
	return engine.View{Of: p.of, At: p.from, Shape: []int{p.rows, p.width}, Stride: []int{p.stride, 1}}
}

// Settle copies the elements.
func (p *part) Settle(to engine.Buffer) {
	p.of.c.Affine(engine.View{Of: to, Shape: []int{p.rows, p.width}, Stride: []int{p.width, 1}}, p.view(), 1, 0)
}

// settled is a copy.
func (p *part) settled() *buffer {
	b := p.of.c.New(p.Len()).(*buffer)
	p.Settle(b)
	return b
}

// Len is the number of elements, Bytes their memory, which belongs to the matrix.
func (p *part) Len() int   { return p.rows * p.width }
func (p *part) Bytes() int { return 0 }

// Like returns memory of the same device for n zeros.
func (p *part) Like(n int) tensor.Storage { return p.of.Like(n) }

// Copy panics as Write does: a part is only read.
func (p *part) Copy(int, tensor.Storage, int, int) { p.Write(nil) }

// Read copies the elements out.
func (p *part) Read(dst []float32) { p.settled().Read(dst) }

// Write panics.
func (p *part) Write([]float32) {
	panic("engine/gpu: found columns of a matrix to write to, want memory of their own")
}

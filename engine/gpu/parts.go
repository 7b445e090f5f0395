//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/tensor"
)

// part is a range of columns of a matrix, without memory of its own: rows that are stride numbers apart, starting at
// number `from`. Operations that read rows read the matrix directly (strided, all). Other operations settle the part
// first.
type part struct {
	of                        *buffer
	from, stride, rows, width int
}

var _ compose.Lazy = (*part)(nil)

// Split returns the parts without copying them, unless the tape records.
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

// ReleaseSince releases the memory of every tensor made after mark except keep. It settles the parts in keep first,
// because their matrices may be released.
func (e *Engine) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	for _, t := range keep {
		if t != nil && partOf(t) != nil {
			e.Memory(t)
		}
	}
	e.Engine.ReleaseSince(mark, keep...)
}

// partOf returns the storage of t if it is a part, else nil.
func partOf(t *tensor.Tensor) *part {
	p, _ := t.Storage().(*part)
	return p
}

// strided returns the address of a tensor, and how many numbers each row starts after the one before it.
func (e *Engine) strided(t *tensor.Tensor) (at uint64, stride int) {
	if p := partOf(t); p != nil {
		return e.take(p.of) + 4*uint64(p.from), p.stride
	}
	return e.address(t), t.Dim(-1)
}

func (p *part) view() engine.View {
	return engine.View{Of: p.of, At: p.from, Shape: []int{p.rows, p.width}, Stride: []int{p.stride, 1}}
}

// Settle copies the elements to a buffer.
func (p *part) Settle(to engine.Buffer) {
	p.of.c.Affine(engine.View{Of: to, Shape: []int{p.rows, p.width}, Stride: []int{p.width, 1}}, p.view(), 1, 0)
}

// settled returns a copy in memory of its own.
func (p *part) settled() *buffer {
	b := p.of.c.New(p.Len()).(*buffer)
	p.Settle(b)
	return b
}

// Len returns the number of elements. Bytes returns 0, because the memory belongs to the matrix.
func (p *part) Len() int   { return p.rows * p.width }
func (p *part) Bytes() int { return 0 }

// Like returns memory of the same device for n numbers, all zero.
func (p *part) Like(n int) tensor.Storage { return p.of.Like(n) }

// Copy panics like Write: a part is read-only.
func (p *part) Copy(int, tensor.Storage, int, int) { p.Write(nil) }

// Read copies the elements to dst.
func (p *part) Read(dst []float32) { p.settled().Read(dst) }

// Write panics: a part is read-only.
func (p *part) Write([]float32) {
	panic("engine/gpu: found columns of a matrix to write to, want memory of their own")
}

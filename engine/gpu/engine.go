//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/tensor"
)

// Engine computes on a device, for one tape. Operations without a kernel, and most that a tape records, are composed.
type Engine struct {
	*compose.Engine
	c *core
	// live holds the buffers whose addresses were taken for the next launch. Their memory must not be reused before
	// that launch is recorded.
	live   []*buffer
	negExp map[*tensor.Tensor]kept // see NegExp
}

// Open returns an engine for the tape whose settings are in step.
func (b *Backend) Open(step *engine.Step) engine.Engine {
	return &Engine{Engine: compose.Open(b.core, step), c: b.core}
}

// address returns the address of the first element of a tensor, or 0 for nil.
func (e *Engine) address(t *tensor.Tensor) uint64 {
	if t == nil {
		return 0
	}
	b, ok := t.Storage().(*buffer)
	if !ok {
		b = e.Memory(t).(*buffer)
	}
	return e.take(b)
}

// take returns the address of a buffer for the next launch.
func (e *Engine) take(b *buffer) uint64 {
	e.live = append(e.live, b)
	return b.at.address()
}

// state returns the address of a state, or 0 for nil. It moves the state to the device if necessary.
func (e *Engine) state(t *tensor.Tensor) uint64 {
	if t == nil {
		return 0
	}
	compose.Backend{Core: e.c}.Place(t)
	return e.take(t.Storage().(*buffer))
}

// run launches a kernel on n workgroups.
func (e *Engine) run(name string, a *args, n int, constants ...uint32) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.launch(name, a, n, constants...)
}

// launch is run with c.mu held.
func (e *Engine) launch(name string, a *args, n int, constants ...uint32) {
	e.c.launch(name, a, n, constants...)
	e.forget()
}

// like returns a new tensor in the shape of x, with the last axis of length last.
func (e *Engine) like(x *tensor.Tensor, last int) *tensor.Tensor {
	shape := x.Shape()
	shape[len(shape)-1] = last
	return e.New(shape...)
}

// all returns a view of a tensor as (rows, d). If the tensor has d elements they are repeated for every row.
func (e *Engine) all(t *tensor.Tensor, rows, d int) engine.View {
	if p := partOf(t); p != nil && p.rows == rows && p.width == d {
		return p.view()
	}
	v := engine.View{Of: e.Memory(t), Shape: []int{rows, d}, Stride: []int{d, 1}}
	if t.Len() == d {
		v.Stride[0] = 0
	}
	return v
}

// blocks returns the number of workgroups of the given number of threads that n elements take.
func blocks(n, threads int) int { return (n + threads - 1) / threads }

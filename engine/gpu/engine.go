//go:build gpu

package gpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/tensor"
)

// Engine computes on a device, for one tape. What it has no kernel for, and all that a tape records, is composed.
type Engine struct {
	*compose.Engine
	c *core
	// live is memory whose address was taken for the next launch: it must not be lent again before that is recorded.
	live []*buffer
}

// Open returns an engine for the tape whose step it reads.
func (b *Backend) Open(step *engine.Step) engine.Engine {
	return &Engine{Engine: compose.Open(b.core, step), c: b.core}
}

// address is that of the first element of a tensor, 0 for nil.
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

// take is the address of a buffer for the next launch.
func (e *Engine) take(b *buffer) uint64 {
	e.live = append(e.live, b)
	return b.at.address()
}

// state is the address of a state, which is moved to the device if it is not there, 0 for nil.
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

// launch is run; the caller holds the lock.
func (e *Engine) launch(name string, a *args, n int, constants ...uint32) {
	e.c.launch(name, a, n, constants...)
	e.recorded()
}

// recorded lets go of the memory of launches, which are recorded.
func (e *Engine) recorded() {
	clear(e.live)
	e.live = e.live[:0]
}

// like returns a new tensor in the shape of x, with the last axis of length last.
func (e *Engine) like(x *tensor.Tensor, last int) *tensor.Tensor {
	shape := x.Shape()
	shape[len(shape)-1] = last
	return e.New(shape...)
}

// all is the view of a tensor in a shape, repeated along axes of its own on the left.
func (e *Engine) all(t *tensor.Tensor, rows, d int) engine.View {
	v := engine.View{Of: e.Memory(t), Shape: []int{rows, d}, Stride: []int{d, 1}}
	if t.Len() == d {
		v.Stride[0] = 0
	}
	return v
}

// blocks is the number of workgroups of some threads for n elements.
func blocks(n, threads int) int { return (n + threads - 1) / threads }

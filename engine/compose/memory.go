package compose

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// node is a piece of memory with its gradient.
type node struct {
	buf, grad engine.Buffer // grad is nil if there is none
	n         int
	of        *tensor.Tensor // nil for an intermediate value of an operation
	leaf      bool           // not made by this engine in this step
	copied    bool           // copy of a leaf in host memory
	version   uint64
	used      bool // whether a leaf was read since Reset
	kept      bool // the engine must not free it
}

// alloc returns memory for n numbers that lives until Reset.
func (e *Engine) alloc(n int) *node {
	return e.adopt(e.core.New(n))
}

// adopt takes ownership of a buffer that the core has made.
func (e *Engine) adopt(b engine.Buffer) *node {
	x := &node{buf: b, n: b.Len()}
	e.made = append(e.made, x)
	e.lend(x.n)
	return x
}

func (e *Engine) lend(n int) {
	e.bytes += 4 * n
	e.most = max(e.most, e.bytes)
}

// release frees the memory of a node.
func (e *Engine) release(x *node) {
	e.dropGrad(x)
	if !x.kept {
		e.core.Free(x.buf)
		e.bytes -= 4 * x.n
	}
	if x.of != nil && e.nodes[x.of] == x {
		delete(e.nodes, x.of)
	}
}

// keep returns the memory of a node, and lets it outlive the step: the engine will not free it.
func (e *Engine) keep(x *node) engine.Buffer {
	if !x.kept {
		x.kept = true
		e.bytes -= 4 * x.n
	}
	return x.buf
}

// gradient returns the memory of the gradient of x, with zeros at first. If the gradient is collected, that is the
// memory in which it is collected.
func (e *Engine) gradient(x *node) engine.Buffer {
	g, add := e.gradientInto(x)
	if !add {
		e.core.Fill(engine.View{Of: g, Shape: []int{x.n}, Stride: []int{1}}, 0)
	}
	return g
}

// gradientInto is like gradient, for callers that write all of it. Unless add is set the memory is new and must be
// written.
func (e *Engine) gradientInto(x *node) (g engine.Buffer, add bool) {
	if x.leaf && e.Leaves != nil {
		if g := e.Leaves.Gradient(x.of); g != nil {
			return g.Storage(), true
		}
	}
	if x.grad != nil {
		return x.grad, true
	}
	x.grad = e.core.New(x.n)
	e.lend(x.n)
	return x.grad, false
}

func (e *Engine) dropGrad(x *node) {
	if x.grad != nil {
		e.core.Free(x.grad)
		e.bytes -= 4 * x.n
		x.grad = nil
	}
}

// Lazy is the storage of a tensor that has no memory of its own yet.
type Lazy interface {
	tensor.Storage
	// Settle copies the elements to a buffer.
	Settle(to engine.Buffer)
}

// settle gives a tensor memory of its own, as if it had been made before the current operation.
func (e *Engine) settle(t *tensor.Tensor, s Lazy) *node {
	x := &node{buf: e.core.New(t.Len()), n: t.Len(), of: t}
	s.Settle(x.buf)
	t.SetStorage(x.buf)
	e.lend(x.n)
	e.now.mark = min(e.now.mark, len(e.made))
	e.made = slices.Insert(e.made, e.now.mark, x)
	e.now.mark++
	e.nodes[t] = x
	return x
}

// node returns the memory of a tensor: its own, or a copy of host memory. A copy is refreshed when the tensor changes.
func (e *Engine) node(t *tensor.Tensor) *node {
	x, stored := e.nodes[t], t.Storage()
	if s, ok := stored.(Lazy); ok {
		return e.settle(t, s)
	}
	if x != nil && stored != nil && x.buf != stored || x != nil && stored == nil && !x.copied {
		e.release(x) // it has other memory now
		x = nil
	}
	if x == nil {
		x = &node{buf: stored, n: t.Len(), of: t, leaf: true, copied: stored == nil, kept: stored != nil}
		if x.copied {
			x.buf, x.version = e.core.New(x.n), t.Version()-1
			e.lend(x.n)
		}
		e.nodes[t] = x
	}
	if x.copied && x.version != t.Version() {
		e.fill(x, t)
		x.version = t.Version()
	}
	x.used = true
	return x
}

// Unpacker is implemented by a core with packed weights of its own. Unpack copies their elements to a buffer in
// float32.
type Unpacker interface {
	Unpack(to engine.Buffer, w tensor.Packed)
}

// fill copies the elements of a tensor that is not in the core's memory.
func (e *Engine) fill(x *node, t *tensor.Tensor) {
	if u, ok := e.core.(Unpacker); ok && t.Packed() != nil {
		u.Unpack(x.buf, t.Packed())
		return
	}
	values := make([]float32, x.n)
	if t.CopyTo(values) != x.n {
		panic(errPacked)
	}
	x.buf.Write(values)
}

// Memory returns the memory of a tensor: its own, or a copy of host memory.
func (e *Engine) Memory(t *tensor.Tensor) engine.Buffer { return e.node(t).buf }

// wanted reports whether this step needs a gradient of t.
func (e *Engine) wanted(t *tensor.Tensor) bool {
	if t == nil || !t.NeedsGrad() {
		return false
	}
	x := e.nodes[t]
	return x != nil && !x.leaf || !e.Frozen
}

// constant returns the host data of a key, which is copied in once.
func (e *Engine) constant(key any, data func() []float32) *val {
	x := e.once(key, data)
	return e.whole(x, []int{x.n})
}

// Constant returns the memory of the host data of a key, which is copied in once.
func (e *Engine) Constant(key any, data func() []float32) engine.Buffer { return e.once(key, data).buf }

func (e *Engine) once(key any, data func() []float32) *node {
	x := e.ones[key]
	if x == nil {
		values := data()
		x = &node{buf: e.core.New(len(values)), n: len(values)}
		x.buf.Write(values)
		e.ones[key] = x
	}
	return x
}

// upload copies host data to the core, for this operation.
func (e *Engine) upload(data []float32, shape ...int) *val {
	x := e.alloc(len(data))
	x.buf.Write(data)
	return e.whole(x, shape)
}

// read copies a value to the host.
func (v *val) read() []float32 {
	out := make([]float32, v.len())
	v.copy().n.buf.Read(out)
	return out
}

// New returns a tensor with unspecified contents.
func (e *Engine) New(shape ...int) *tensor.Tensor {
	t := tensor.Shaped(shape...)
	x := e.alloc(t.Len())
	t.SetStorage(x.buf)
	x.of = t
	e.nodes[t] = x
	return t
}

// Full returns a tensor whose elements are all v.
func (e *Engine) Full(v float32, shape ...int) *tensor.Tensor {
	t := e.New(shape...)
	e.core.Fill(e.in(t).view(), float64(v))
	return t
}

// Reset frees all memory, and the copies of leaves that were not used since the last Reset.
func (e *Engine) Reset() {
	e.ReleaseSince(0)
	for _, x := range e.nodes {
		if x.leaf && !x.used && x.grad == nil {
			e.release(x)
		}
		x.used = false
	}
}

// Mark returns the current point for ReleaseSince.
func (e *Engine) Mark() int { return len(e.made) }

// ReleaseSince frees the memory that was made after mark, except that of keep.
func (e *Engine) ReleaseSince(mark int, keep ...*tensor.Tensor) {
	left := e.made[:mark]
	for _, x := range e.made[mark:] {
		kept := false
		for _, t := range keep {
			kept = kept || t == x.of && t != nil
		}
		if kept {
			left = append(left, x)
		} else {
			e.release(x)
		}
	}
	clear(e.made[len(left):])
	e.made = left
}

// Bytes returns the most memory that was in use at a time.
func (e *Engine) Bytes() int { return e.most }

// lasting returns a tensor of zeros that outlives the step.
func (e *Engine) lasting(shape ...int) *tensor.Tensor {
	t := tensor.Stored(e.core.New(product(shape)), shape...)
	e.core.Fill(e.in(t).view(), 0)
	return t
}

// write copies v to t, starting at position at.
func (e *Engine) write(t *tensor.Tensor, at int, v *val) {
	to := e.in(t).slice(0, at, v.dim(0))
	e.core.Affine(to.view(), v.view(), 1, 0)
}

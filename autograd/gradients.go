package autograd

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Gradients holds the gradients of some leaves (parameters, and inputs that want a gradient) in one step. They start at
// zero, and every backward pass of a tape that collects them adds to them. A leaf does not hold a gradient itself, so
// any number of steps can run backward through one model concurrently, each with its own Gradients.
//
// The gradients lie side by side in memory, in the order of the leaves.
type Gradients struct {
	// Final, if not nil, is called once for each leaf in every backward pass, with the index of the leaf, when its
	// gradient is final: the backward of the earliest operation that uses the leaf has run. Gradients of other leaves
	// may still change. If a step runs several backward passes, wait for the last.
	Final func(leaf int)

	leaves []*tensor.Tensor
	place  map[*tensor.Tensor]int
	each   []*tensor.Tensor
}

// NewGradients returns gradients of zero for the leaves, on a backend. No leaf may occur twice.
func NewGradients(b engine.Backend, leaves ...*tensor.Tensor) *Gradients {
	g := &Gradients{leaves: slices.Clone(leaves), place: make(map[*tensor.Tensor]int, len(leaves))}
	for i, x := range leaves {
		if first, twice := g.place[x]; twice {
			panic(fmt.Sprintf("autograd.NewGradients: leaf %d, of shape %v, is leaf %d too", i, x, first))
		}
		g.place[x] = i
	}
	g.each = b.Zeros(leaves...)
	return g
}

// Each returns the gradients, in the order of the leaves.
func (g *Gradients) Each() []*tensor.Tensor { return g.each }

// Of returns the gradient of x, or nil if x is not among the leaves. The result is not a copy.
func (g *Gradients) Of(x *tensor.Tensor) *tensor.Tensor {
	if i, ok := g.place[x]; ok {
		return g.each[i]
	}
	return nil
}

// Zero sets all gradients to zero.
func (g *Gradients) Zero() {
	for _, x := range g.each {
		x.Zero()
	}
}

// Bucket holds the gradients of the leaves [First, End), which lie side by side in memory and are large enough to be
// sent together.
type Bucket struct {
	First, End int
	Gradients  []*tensor.Tensor
}

// bucketSize is the minimum number of elements of every bucket but the last: 4 MiB.
const bucketSize = 1 << 20

// Buckets returns all gradients in buckets, which hold whole leaves.
func (g *Gradients) Buckets() (all []Bucket) {
	first, n := 0, 0
	for i, x := range g.each {
		if n += x.Len(); n >= bucketSize || i == len(g.each)-1 {
			all = append(all, Bucket{first, i + 1, g.each[first : i+1]})
			first, n = i+1, 0
		}
	}
	return all
}

// Collect makes backward passes add the gradients of the leaves of g to g from now on; nil ends that. Gradients of
// other leaves stay on the tape, where Grad finds them.
func (t *Tape) Collect(g *Gradients) {
	if len(t.ops) > 0 {
		panic(fmt.Sprintf("autograd.Collect: found %d operations on the tape, want none", len(t.ops)))
	}
	t.leaves = leaves{gradients: g, tape: t}
	t.step.Leaves = nil
	if g != nil {
		t.leaves.inUse = make([]bool, len(g.leaves))
		t.step.Leaves = &t.leaves
	}
}

// leaves tracks which operations use the leaves whose gradients a tape collects.
type leaves struct {
	gradients *Gradients
	tape      *Tape
	inUse     []bool // whether a recorded operation uses the leaf whose backward has not run
	uses      []use  // first use of each leaf in use, in the order of recording
	back      bool   // whether backward has started
}

// use is the first use of a leaf by a recorded operation.
type use struct{ op, leaf int }

var _ engine.Leaves = (*leaves)(nil)

// Gradient returns the tensor for the gradient of x, or nil if it is not collected.
func (l *leaves) Gradient(x *tensor.Tensor) *tensor.Tensor {
	i, ok := l.gradients.place[x]
	if !ok {
		return nil
	}
	if l.back && !l.inUse[i] {
		panic(fmt.Sprintf("autograd: the gradient of leaf %d, of shape %v, was final and is added to", i, x))
	}
	return l.gradients.each[i]
}

// Use records that the next recorded operation, or a later one, has x as an input.
func (l *leaves) Use(x *tensor.Tensor) {
	if i, ok := l.gradients.place[x]; ok && !l.inUse[i] {
		l.inUse[i] = true
		l.uses = append(l.uses, use{len(l.tape.ops), i})
	}
}

// begin is called before a backward pass over the first ops operations. Leaves that no operation uses are final.
func (l *leaves) begin(ops int) {
	if l.gradients == nil {
		return
	}
	for i := range l.inUse {
		if !l.inUse[i] {
			l.final(i)
		}
	}
	l.back = true
	l.gone(ops)
}

// gone is called when the backward of operation op and of all later ones has run.
func (l *leaves) gone(op int) {
	for n := len(l.uses) - 1; n >= 0 && l.uses[n].op >= op; n-- {
		leaf := l.uses[n].leaf
		l.uses = l.uses[:n]
		l.final(leaf)
	}
}

func (l *leaves) final(i int) {
	l.inUse[i] = false
	if l.gradients.Final != nil {
		l.gradients.Final(i)
	}
}

// forget is called when there are no operations on the tape.
func (l *leaves) forget() {
	clear(l.inUse)
	l.uses, l.back = l.uses[:0], false
}

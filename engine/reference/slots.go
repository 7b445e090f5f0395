package reference

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// carried holds the states of an operation's rows, before and after each row.
type carried struct {
	eng        *Engine
	size       int
	before     []*tensor.Tensor // nil if a row has none
	next       []*tensor.Tensor // the states after the rows, likewise
	afterwards [][]float64      // the elements after each row
}

// carry takes the states, of size elements each, out of slots, and stores there the states after the rows: new tensors
// while the tape records, else the given ones. The caller updates the elements of after from before a row to after it.
func (eng *Engine) carry(slots engine.Slots, r *engine.Rows, size int) *carried {
	c := &carried{eng: eng, size: size}
	for i := range r.Count() {
		x := slots.At(i)
		elements := eng.start(x, size)
		next := eng.next(x, elements)
		if x != nil {
			slots[i].X = next
		}
		c.before, c.next, c.afterwards = append(c.before, x), append(c.next, next), append(c.afterwards, elements)
	}
	return c
}

// after returns the elements of the state of row i: at first those before the row, or zeros if it has no state.
func (c *carried) after(i int) []float64 { return c.afterwards[i] }

// grads returns the gradients of the states before row i, to add to, and after it. If there is no state, the first is
// scratch memory.
func (c *carried) grads(i int) (before, after []float64) {
	return c.eng.grad(c.before[i], c.size), c.eng.grad(c.next[i], c.size)
}

// recordRows is record for an operation that carries states.
func (eng *Engine) recordRows(name string, outputs, inputs list, c *carried, backward func()) {
	eng.record(name, append(outputs, c.next...), append(inputs, c.before...), backward)
}

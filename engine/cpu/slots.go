package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// carried is what an operation needs of the states of its rows: those before them and those after them, nil where a row
// has none.
type carried struct{ before, after []*tensor.Tensor }

// carry takes the states out of slots and puts those after the rows there: new tensors, whose contents the caller sets,
// while the tape records, else the same ones, to be updated in place. c is what the operation had in an earlier step.
func (eng *Engine) carry(c carried, slots engine.Slots) carried {
	c.before, c.after = c.before[:0], c.after[:0]
	for i := range slots {
		x := slots.At(i)
		next := x
		if x != nil && eng.Recording {
			next = eng.like(x)
			slots[i].X = next
		}
		c.before, c.after = append(c.before, x), append(c.after, next)
	}
	return c
}

// at are the elements of the states of row i before and after it, nil where it has none.
func (c *carried) at(i int) (before, after []float32) {
	if i >= len(c.before) || c.before[i] == nil {
		return nil, nil
	}
	return c.before[i].Data(), c.after[i].Data()
}

// has reports whether row i has a state.
func (c *carried) has(i int) bool { return i < len(c.before) && c.before[i] != nil }

// any reports whether some row has a state.
func (c *carried) any() bool {
	for _, x := range c.before {
		if x != nil {
			return true
		}
	}
	return false
}

// outputs visits the states after the rows.
func (c *carried) outputs(f func(*tensor.Tensor)) {
	for _, x := range c.after {
		if x != nil {
			f(x)
		}
	}
}

// grads are the gradients of the states of row i: that to add to, nil where none is wanted, and that of the state after
// it, nil where nothing used it.
func (c *carried) grads(eng *Engine, i int) (before, after []float32) {
	if !c.has(i) {
		return nil, nil
	}
	return eng.gradOf(c.before[i]), c.after[i].Grad()
}

// wantsRows is wants of an operation's inputs and of the states before its rows.
func (eng *Engine) wantsRows(slots engine.Slots, inputs ...*tensor.Tensor) bool {
	record := eng.wants(inputs...)
	for i := range slots {
		record = eng.wants(slots.At(i)) || record
	}
	return record
}

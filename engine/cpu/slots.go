package cpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// carried holds the states of an operation's rows, before and after each row, nil for a row without a state.
type carried struct{ before, after []*tensor.Tensor }

// carry takes the states before the rows out of slots, and stores the states after them there: new tensors with
// unspecified contents while the tape records, else the same tensors, to be updated in place. It reuses the memory of
// c.
func (eng *Engine) carry(c carried, slots engine.Slots) carried {
	c.before, c.after = c.before[:0], c.after[:0]
	for i := range slots {
		x := slots.At(i)
		next := x
		if x != nil && eng.Recording {
			if halvesOf(x) != nil {
				x = tensor.FromSlice(x.Floats(), x.Shape()...)
			}
			next = eng.like(x)
			slots[i].X = next
		}
		c.before, c.after = append(c.before, x), append(c.after, next)
	}
	return c
}

// at returns the elements of the states before and after row i, or nil if it has none. The states are in float32.
func (c *carried) at(i int) (before, after []float32) {
	if i >= len(c.before) || c.before[i] == nil {
		return nil, nil
	}
	return c.before[i].Data(), c.after[i].Data()
}

// halves returns the elements of the state of row i, if it is in bfloat16. It is the state before and after the row.
func (c *carried) halves(i int) []uint16 {
	if !c.has(i) {
		return nil
	}
	return halvesOf(c.after[i])
}

// has reports whether row i has a state.
func (c *carried) has(i int) bool { return i < len(c.before) && c.before[i] != nil }

// any reports whether some row has a state.
func (c *carried) any() bool {
	return slices.ContainsFunc(c.before, func(x *tensor.Tensor) bool { return x != nil })
}

// grads returns the gradient of the state before row i, to add to, nil if it is not wanted, and that of the state after
// it, nil if nothing has used the state.
func (c *carried) grads(eng *Engine, i int) (before, after []float32) {
	if !c.has(i) {
		return nil, nil
	}
	return eng.gradOf(c.before[i]), c.after[i].Grad()
}

// stateGrad holds the results of grads.
type stateGrad struct{ before, after []float32 }

// stateGrads returns the grads of the given number of rows. It reuses the memory of all.
func (c *carried) stateGrads(eng *Engine, all []stateGrad, rows int) []stateGrad {
	all = resize(all, rows)
	for i := range all {
		all[i].before, all[i].after = c.grads(eng, i)
	}
	return all
}

// wantsRows is wants for an operation's inputs and the states before its rows.
func (eng *Engine) wantsRows(slots engine.Slots, inputs ...*tensor.Tensor) bool {
	record := eng.wants(inputs...)
	for i := range slots {
		record = eng.wants(slots.At(i)) || record
	}
	return record
}

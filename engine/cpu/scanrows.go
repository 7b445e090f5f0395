package cpu

import "github.com/hippo-ssm/hippo/engine"

// scanRows are the rows of a scan: those that it steps position by position, and those that it takes whole, by pieces.
type scanRows struct {
	carried
	cuts
	steps, whole []int
	states       []stateGrad // of the rows that have a state, made by makeGrads
}

// stateGrad are gradients of the states of a row: of that before it, to add to, nil where none is wanted, and of that
// after it, nil where nothing used it.
type stateGrad struct{ before, after []float32 }

// scanRows takes the states of rows out of slots. Rows of fewer than short positions that go on from a state are
// stepped, unless the tape records; others are cut into pieces of size positions. o is what the operation had in an
// earlier step.
func (eng *Engine) scanRows(o scanRows, r *engine.Rows, slots engine.Slots, size, short int) scanRows {
	o.carried, o.states = eng.carry(o.carried, slots), o.states[:0]
	o.steps, o.whole = o.steps[:0], o.whole[:0]
	for i := range r.Count() {
		if o.has(i) && !eng.Recording && r.Len(i) < short {
			o.steps = append(o.steps, i)
		} else {
			o.whole = append(o.whole, i)
		}
	}
	o.cuts = o.cut(r, size, o.steps)
	return o
}

// makeGrads makes the gradients of states, and reports whether something used a state after its row.
func (o *scanRows) makeGrads(eng *Engine) (used bool) {
	o.states = o.states[:0]
	for i := range o.rows.Count() {
		var g stateGrad
		g.before, g.after = o.grads(eng, i)
		used = used || g.after != nil
		o.states = append(o.states, g)
	}
	return used
}

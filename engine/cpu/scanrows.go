package cpu

import "github.com/hippo-ssm/hippo/engine"

// scanRows are the rows of a scan: those that are stepped position by position, and those that are cut into chunks.
type scanRows struct {
	carried
	cuts
	steps, whole []int
	states       []stateGrad // for each row that has a state, made by makeGrads
}

// stateGrad are the gradients of the states before a row, to add to, nil where it is not wanted, and after it, nil
// where nothing has used that state.
type stateGrad struct{ before, after []float32 }

// scanRows takes the states of rows out of slots. Rows of fewer than short positions that have a state are stepped,
// unless the tape records; others are cut into chunks of size positions. It reuses the memory of o.
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

// makeGrads makes the gradients of states, and reports whether something has used a state after its row.
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

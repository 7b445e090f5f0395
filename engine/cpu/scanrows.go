package cpu

import "github.com/hippo-ssm/hippo/engine"

// scanRows divides the rows of a scan into those that are stepped position by position, and those that are cut into
// chunks.
type scanRows struct {
	carried
	cuts
	steps, whole []int
	states       []stateGrad // for each row that has a state, made by makeGrads
}

// scanRows takes the states of rows out of slots. Rows that have a state and are marked as stepped or have fewer than
// short positions are stepped, unless the tape records; others are cut into chunks of size positions. It reuses the
// memory of o.
func (eng *Engine) scanRows(o scanRows, r *engine.Rows, slots engine.Slots, size, short int) scanRows {
	o.carried, o.states = eng.carry(o.carried, slots), o.states[:0]
	o.steps, o.whole = o.steps[:0], o.whole[:0]
	for i := range r.Count() {
		if o.has(i) && !eng.Recording && (r.Len(i) < short || r.Stepped(i)) {
			o.steps = append(o.steps, i)
		} else {
			o.whole = append(o.whole, i)
		}
	}
	o.cuts = o.cut(r, size, o.steps)
	return o
}

// makeGrads prepares the gradients of states.
func (o *scanRows) makeGrads(eng *Engine) {
	o.states = o.stateGrads(eng, o.states, o.rows.Count())
}

package cpu

// tileStates carries the states of a tile, and has the signals (l, 16) that this takes.
type tileStates struct {
	carrier
	u, dz []float32 // the inputs, and the gradients of the outputs before the gate
	z, du []float32 // what the old states add to the outputs, and states to the gradients of the inputs
}

// statesForward makes ready what the old states add to the outputs, and the new states.
func (w *tile) statesForward() {
	c, s := w.c, &w.states
	if !c.carries(w.b) {
		return
	}
	w.oldStates()
	if next := c.next(w.b); next != nil {
		s.u = w.whole(s.u, (*inputRows)(w).Fill)
		s.carry(w.statesOf(next.Data()), w.old(), s.u)
	}
}

// statesBackward makes ready what the old states add to the outputs, and what states give to the gradients of the
// inputs. It adds to the gradients of the old states and of the systems.
func (w *tile) statesBackward() {
	c, s := w.c, &w.states
	if !c.carries(w.b) {
		return
	}
	s.du = resize(s.du, w.len()*lanes)
	clear(s.du)
	dx0 := at(c.grads.states, w.b)
	if dx0 != nil {
		dx0 = w.statesOf(dx0)
	}
	w.oldStates()
	if c.state(w.b) != nil {
		s.dz = w.whole(s.dz, (*outputGradRows)(w).Fill)
		s.zeroInputGrad(dx0, w.old(), s.dz)
	}
	if next := c.next(w.b); next != nil && next.Grad() != nil {
		s.u = w.whole(s.u, (*inputRows)(w).Fill)
		s.carryGrad(dx0, s.du, w.old(), s.u, w.statesOf(next.Grad()))
	}
}

// oldStates makes ready what the old states add to the outputs.
func (w *tile) oldStates() {
	if w.c.state(w.b) == nil {
		return
	}
	z := resize(w.states.z, w.len()*lanes)
	clear(z)
	w.states.addZeroInput(z, w.old())
	w.states.z = z
}

// whole is the signal of which fill makes rows, in the memory of x if it is enough.
func (w *tile) whole(x []float32, fill func(z []float32, t, n int)) []float32 {
	l := w.len()
	x = resize(x, l*lanes)
	for t := 0; t < l; t += rowsAtOnce {
		n := min(rowsAtOnce, l-t)
		fill(x[t*lanes:][:n*lanes], t, n)
	}
	return x
}

// old are the states before the row, nil for zeros.
func (w *tile) old() []float32 {
	x := w.c.state(w.b)
	if x == nil {
		return nil
	}
	return w.statesOf(x.Data())
}

// statesOf are the states of the tile's channels in x (channels, n, 2).
func (w *tile) statesOf(x []float32) []float32 { return x[2*w.c.sys.N*w.c0:] }

package cpu

// laneStates carries the states of convLanes through a row. Its signals are (l, 16).
type laneStates struct {
	carrier
	u, dz []float32 // the inputs, and the gradients of the outputs before the gate
	z, du []float32 // contributions of the states before the row to outputs, and of states to the inputs' gradients
}

// statesForward computes the contribution of the states before the row to the outputs, and the states after it.
func (w *convLanes) statesForward() {
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

// statesBackward computes the contributions of the states before the row to the outputs, and of states to the gradients
// of the inputs. It adds to the gradients of the states before the row and of the systems.
func (w *convLanes) statesBackward() {
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

// oldStates computes the contribution of the states before the row to the outputs.
func (w *convLanes) oldStates() {
	if w.c.state(w.b) == nil {
		return
	}
	z := resize(w.states.z, w.len()*lanes)
	clear(z)
	w.states.addZeroInput(z, w.old())
	w.states.z = z
}

// whole returns the whole signal (l, 16), which fill computes a few positions at a time, in the memory of x if that is
// large enough.
func (w *convLanes) whole(x []float32, fill func(z []float32, t, n int)) []float32 {
	l := w.len()
	x = resize(x, l*lanes)
	for t := 0; t < l; t += rowsAtOnce {
		n := min(rowsAtOnce, l-t)
		fill(x[t*lanes:][:n*lanes], t, n)
	}
	return x
}

// old returns the states before the row, nil if they are zeros.
func (w *convLanes) old() []float32 {
	x := w.c.state(w.b)
	if x == nil {
		return nil
	}
	return w.statesOf(x.Data())
}

// statesOf returns the states from channel c0 on in x (channels, n, 2).
func (w *convLanes) statesOf(x []float32) []float32 { return x[2*w.c.sys.N*w.c0:] }

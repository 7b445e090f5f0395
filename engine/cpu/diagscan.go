package cpu

import (
	"math/cmplx"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// DiagScan scans channel by channel. A channel has a table of its decays e^(r z) and gains for the different steps r of
// the call: few if times are on a grid, at most one for each position. Backward scans again, from states that it stores
// every scanChunk positions, so that the memory beyond inputs and outputs does not grow with the number of modes.
func (eng *Engine) DiagScan(u, steps *tensor.Tensor, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	o := take[diagScanOp](eng)
	record := eng.wantsRows(slots, u, steps, s.Abar, s.Bbar, s.C, skip)
	*o = diagScanOp{u: u, steps: steps, skip: skip, y: eng.like(u), sys: diagOf(s), rows: r,
		carried: eng.carry(o.carried, slots), states: o.states[:0], distinct: o.distinct}
	o.distinct.of(steps.Data())
	parallel.For(o.sys.H, 1, func(lo, hi int) {
		w := diagScanPool.Get().(*diagScanWork)
		defer diagScanPool.Put(w)
		for c := lo; c < hi; c++ {
			o.forward(w, c)
		}
	})
	if record {
		eng.push("DiagScan", o, o.y).add(o.after...)
	}
	return o.y
}

type diagScanOp struct {
	u, steps, skip, y *tensor.Tensor
	sys               *diagSystem
	rows              *engine.Rows
	carried
	states   []stateGrad
	distinct distinct
}

// distinct holds the different numbers of a list, and the index among them of each element.
type distinct struct {
	values []float32
	which  []int32
	known  map[float32]int32
}

func (d *distinct) of(x []float32) {
	if d.known == nil {
		d.known = map[float32]int32{}
	}
	clear(d.known)
	d.values, d.which = d.values[:0], d.which[:0]
	for _, v := range x {
		k, ok := d.known[v]
		if !ok {
			k = int32(len(d.values))
			d.known[v], d.values = k, append(d.values, v)
		}
		d.which = append(d.which, k)
	}
}

// diagScanWork is scratch for one channel.
type diagScanWork struct {
	scan        kernel.DiagScan
	grads       kernel.DiagScanGrads
	x, g        []float32
	kept, chunk []float32 // states every scanChunk positions, and within a chunk
}

var diagScanPool = sync.Pool{New: func() any { return new(diagScanWork) }}

// exponent returns z = dt·A of mode i of channel c, and the gain of a step r divided by e^(r z) - 1.
func (o *diagScanOp) exponent(c, i int) (z, gain complex128) {
	s, at := o.sys, c*o.sys.width+i
	part := func(x kernel.Modes) complex128 { return complex(x[at], x[at+s.width/2]) }
	return complex(s.dt[c], 0) * part(s.a), part(s.bbar) / (part(s.abar) - 1)
}

// power returns e^(r z).
func power(r float32, z complex128) complex128 { return cmplx.Exp(complex(float64(r), 0) * z) }

// prepare computes the table of channel c.
func (o *diagScanOp) prepare(w *diagScanWork, c int) {
	n, s := o.sys.N, o.sys
	w.x, w.g = resize(w.x, 2*n), resize(w.g, 2*n)
	table := resize(w.scan.Table, 4*n*len(o.distinct.values))
	w.scan = kernel.DiagScan{N: n, Table: table, C: resize(w.scan.C, 2*n), Skip: o.skip.Data()[c]}
	for i := range n {
		w.scan.C[i], w.scan.C[n+i] = float32(s.of(s.c, c)[i]), float32(s.of(s.c, c)[s.width/2+i])
		z, gain := o.exponent(c, i)
		for k, r := range o.distinct.values {
			e, decay := table[4*n*k:], power(r, z)
			e[i], e[n+i] = float32(real(decay)), float32(imag(decay))
			in := gain * (decay - 1)
			e[2*n+i], e[3*n+i] = float32(real(in)), float32(imag(in))
		}
	}
}

// load sets x to the state of channel c in state, or to zeros if state is nil.
func (o *diagScanOp) load(x, state []float32, c int) {
	clear(x)
	for i := range o.sys.N {
		if state != nil {
			x[i], x[o.sys.N+i] = state[2*(c*o.sys.N+i)], state[2*(c*o.sys.N+i)+1]
		}
	}
}

// addState adds x to the state of channel c in state.
func (o *diagScanOp) addState(state, x []float32, c int) {
	for i := range o.sys.N {
		state[2*(c*o.sys.N+i)] += x[i]
		state[2*(c*o.sys.N+i)+1] += x[o.sys.N+i]
	}
}

func (o *diagScanOp) forward(w *diagScanWork, c int) {
	o.prepare(w, c)
	u, y, d := o.u.Data(), o.y.Data(), o.sys.H
	for row := range o.rows.Count() {
		before, after := o.at(row)
		o.load(w.x, before, c)
		for p := o.rows.From(row); p < o.rows.From(row)+o.rows.Len(row); p++ {
			y[p*d+c] = w.scan.Step(w.x, int(o.distinct.which[p]), u[p*d+c])
		}
		if after != nil {
			clear(after[2*c*o.sys.N:][:2*o.sys.N])
			o.addState(after, w.x, c)
		}
	}
}

func (o *diagScanOp) Backward(eng *Engine) {
	o.states = o.stateGrads(eng, o.states, o.rows.Count())
	g := diagScanGrads{diagScanOp: o, dy: eng.grad(o.y), du: eng.gradOf(o.u), dskip: eng.gradOf(o.skip)}
	if eng.wanted(o.steps) { // all channels add to the gradients of steps
		g.dsteps = eng.scratch(o.sys.H * o.steps.Len())
		defer eng.done(g.dsteps)
	}
	parallel.For(o.sys.H, 1, func(lo, hi int) {
		w := diagScanPool.Get().(*diagScanWork)
		defer diagScanPool.Put(w)
		for c := lo; c < hi; c++ {
			g.back(w, c)
		}
	})
	if g.dsteps != nil {
		addParts(eng.gradOf(o.steps), g.dsteps)
	}
}

// diagScanGrads holds the gradients during backward, nil if not wanted.
type diagScanGrads struct {
	*diagScanOp
	dy, du, dskip, dsteps []float32
}

// back runs backward through the rows of channel c, each from its last chunk on.
func (o *diagScanGrads) back(w *diagScanWork, c int) {
	o.prepare(w, c)
	n, d, u := o.sys.N, o.sys.H, o.u.Data()
	w.grads.Table, w.grads.C = resize(w.grads.Table, len(w.scan.Table)), resize(w.grads.C, 2*n)
	clear(w.grads.Table)
	clear(w.grads.C)
	var dskip float32
	for row := range o.rows.Count() {
		before, _ := o.at(row)
		from, l := o.rows.From(row), o.rows.Len(row)
		o.load(w.x, before, c)
		w.kept = w.kept[:0]
		for t := range l {
			if t%scanChunk == 0 {
				w.kept = append(w.kept, w.x...)
			}
			w.scan.Step(w.x, int(o.distinct.which[from+t]), u[(from+t)*d+c])
		}
		o.load(w.g, o.states[row].after, c)
		for lo := (l - 1) / scanChunk * scanChunk; lo >= 0; lo -= scanChunk {
			hi := min(l, lo+scanChunk)
			w.chunk = append(w.chunk[:0], w.kept[lo/scanChunk*2*n:][:2*n]...)
			for t := lo; t < hi; t++ { // the state before lo, and those after each position
				w.chunk = append(w.chunk, w.chunk[len(w.chunk)-2*n:]...)
				w.scan.Step(w.chunk[len(w.chunk)-2*n:], int(o.distinct.which[from+t]), u[(from+t)*d+c])
			}
			for t := hi - 1; t >= lo; t-- {
				at, k := (from+t)*d+c, int(o.distinct.which[from+t])
				x, after := w.chunk[(t-lo)*2*n:][:2*n], w.chunk[(t-lo+1)*2*n:][:2*n]
				if o.dsteps != nil {
					o.dsteps[c*o.steps.Len()+from+t] = o.slope(w, c, x, u[at], o.dy[at], o.distinct.values[k])
				}
				du := w.scan.Back(&w.grads, w.g, x, after, k, u[at], o.dy[at])
				if o.du != nil {
					o.du[at] += du + w.scan.Skip*o.dy[at]
				}
				dskip += u[at] * o.dy[at]
			}
		}
		if dx := o.states[row].before; dx != nil {
			o.addState(dx, w.g, c)
		}
	}
	if o.dskip != nil {
		o.dskip[c] += dskip
	}
	o.toSystem(w, c)
}

// slope returns the gradient of a step r, Re Σ_n g·conj(z e^(r z) (x + b u)), where x is the state before it.
func (o *diagScanGrads) slope(w *diagScanWork, c int, x []float32, u, dy, r float32) float32 {
	n, sum := o.sys.N, 0.0
	for i := range n {
		z, gain := o.exponent(c, i)
		g := complex(float64(w.g[i]+2*dy*w.scan.C[i]), float64(w.g[n+i]-2*dy*w.scan.C[n+i]))
		rise := z * power(r, z) * (complex(float64(x[i]), float64(x[n+i])) + gain*complex(float64(u), 0))
		sum += real(g)*real(rise) + imag(g)*imag(rise)
	}
	return float32(sum)
}

// toSystem propagates the gradients of the table of channel c to those of the system: see engine/reference.
func (o *diagScanGrads) toSystem(w *diagScanWork, c int) {
	n, s := o.sys.N, o.sys
	if !s.wantGrad {
		return
	}
	for i := range n {
		z, gain := o.exponent(c, i)
		var dz, db complex128
		for k, r := range o.distinct.values {
			t, decay := w.grads.Table[4*n*k:][:4*n], power(r, z)
			dIn := complex(t[2*n+i], t[3*n+i])
			dz += complex(float64(r), 0) * cmplx.Conj(decay) * (complex(t[i], t[n+i]) + dIn*cmplx.Conj(gain))
			db += dIn * cmplx.Conj(decay-1)
		}
		at, half := c*s.width+i, s.width/2
		abar := complex(s.abar[at], s.abar[at+half])
		dA, dB := -db*cmplx.Conj(gain/(abar-1)), db*cmplx.Conj(1/(abar-1))
		if abar != 0 { // else the mode has decayed before the next position
			dA += dz * cmplx.Conj(1/abar)
		}
		s.dA[at] += real(dA)
		s.dA[at+half] += imag(dA)
		s.dB[at] += real(dB)
		s.dB[at+half] += imag(dB)
		s.dC[at] += w.grads.C[i]
		s.dC[at+half] += w.grads.C[n+i]
	}
}

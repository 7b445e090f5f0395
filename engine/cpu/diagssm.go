package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// recurrentBelow is the length below which stepping a row is faster than convolving it.
const recurrentBelow = 24

// DiagSSM convolves long rows by spectra, and steps short ones or sums them tap by tap: see convolutions.go. The choice
// for a row depends only on its own length, on whether it has a state, and on whether the tape records.
func (eng *Engine) DiagSSM(g engine.Gates, sys *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	s := diagOf(sys)
	g.HeadDim = max(1, g.HeadDim)
	y := eng.like(g.V)
	if g.HeadDim > 1 {
		y.Zero() // channels add to it
	}
	steps := func(i int) bool {
		return !eng.Recording && (r.Len(i) < recurrentBelow || r.Stepped(i)) && slots.At(i) != nil
	}
	eng.stepDiag(y, g, s, skip.Data(), r, slots, steps)
	direct := func(i int) bool { return g.HeadDim == 1 && r.Len(i) <= directUpTo && slots.At(i) == nil }
	for taps := directStep; taps <= directUpTo; taps += directStep {
		eng.directDiag(y, g, s, skip, r, taps,
			func(i int) bool { return direct(i) && r.Len(i) > taps-directStep && r.Len(i) <= taps })
	}
	// A kernel's bits depend on its length (see kernel.Vandermonde), so rows of the same length share a kernel.
	byKey(eng, r, func(i int) int {
		if steps(i) || direct(i) {
			return 0
		}
		return r.Len(i)
	}, func(rows []int, piece int) {
		if piece > engine.LongestAtOnce {
			piece = engine.LongestAtOnce / 2
		}
		eng.diagPieces(y, g, s, skip, r, rows, slots, piece)
	})
	return y
}

// directStep divides the lengths of kernels for short rows, so that rows of many lengths share a few kernels.
const directStep = 32

// directDiag sums the rows for which use is true tap by tap, with kernels of the given number of taps.
func (eng *Engine) directDiag(y *tensor.Tensor, g engine.Gates, s *diagSystem, skip *tensor.Tensor, r *engine.Rows,
	taps int, use func(i int) bool) {
	for i := range r.Count() {
		if use(i) {
			eng.directConv(y, g, eng.DiagKernel(&s.DiagSystem, taps), skip, r, use)
			return
		}
	}
}

// diagPieces is DiagSSM for the given rows of r, which have the same length, by convolutions of piece positions each.
func (eng *Engine) diagPieces(y *tensor.Tensor, g engine.Gates, s *diagSystem, skip *tensor.Tensor, r *engine.Rows,
	rows []int, slots engine.Slots, piece int) {
	l := r.Len(rows[0])
	kern := eng.DiagKernel(&s.DiagSystem, min(piece, l))
	record := eng.wants(g.Q, g.K, g.V, kern, skip)
	for _, i := range rows {
		record = eng.wants(slots.At(i)) || record
	}
	var last *convolutionOp
	for from := 0; from < l; from += piece {
		op := eng.convolution(diagSSM, y, g, kern, skip)
		op.overPiece(r, rows, from, piece)
		op.taps = op.rows[0].len
		for b, i := range rows {
			before, after, given := slots.At(i), (*tensor.Tensor)(nil), slots.At(i) != nil
			if from > 0 {
				before = last.after[b]
			}
			if given || from+piece < l {
				if after = before; eng.Recording || before == nil {
					after = eng.New(s.H*g.HeadDim*g.HeadDim, s.N, 2)
				}
			}
			if before != nil || after != nil {
				op.sys = s
			}
			op.before, op.after = append(op.before, before), append(op.after, after)
		}
		eng.convolve(op, record)
		last = op
	}
	for b, i := range rows {
		if slots.At(i) != nil {
			slots[i].X = last.after[b]
		}
	}
}

// headsPerStep is the number of heads that are stepped together: their systems stay in the processor's cache while the
// rows and positions are computed.
const headsPerStep = 32

// stepDiag runs the recurrence x ← Āx + B̄u, z = 2 Re Σ C x + D u through the rows for which steps is true, and updates
// their states.
func (eng *Engine) stepDiag(y *tensor.Tensor, g engine.Gates, s *diagSystem, skip []float32, r *engine.Rows,
	slots engine.Slots, steps func(i int) bool) {
	list, positions, p := take[rowList](eng), 0, g.HeadDim
	list.rows = list.rows[:0]
	for i := range r.Count() {
		if steps(i) {
			list.rows, positions = append(list.rows, i), positions+r.Len(i)
		}
	}
	if positions == 0 {
		return
	}
	s.single()
	step := diagStep{g: &g, sys: s, skip: skip, rows: r, list: list.rows, slots: slots, y: y.Data(), u: g.V.Data()}
	tasks := rowGrain(positions * headsPerStep * p * p * s.N) // groups per task
	if p > 1 {
		parallel.For(step.groups(), tasks, step.outer)
		return
	}
	// All heads are gated at once: a few channels of many rows would be short runs far apart.
	if g.K != nil {
		step.u = eng.arena.Borrow(g.V.Len())
		defer eng.done(step.u)
		step.overRows(func(lo, hi int) { kernel.MulInto(step.u[lo:hi], g.K.Data()[lo:hi], g.V.Data()[lo:hi]) })
	}
	parallel.For(step.groups(), tasks, step.single)
	if g.Q != nil {
		step.overRows(func(lo, hi int) { kernel.Mul(step.y[lo:hi], g.Q.Data()[lo:hi]) })
	}
}

// diagStep steps a list of rows.
type diagStep struct {
	g     *engine.Gates
	sys   *diagSystem
	skip  []float32
	rows  *engine.Rows
	list  []int
	slots engine.Slots
	y, u  []float32 // outputs, and inputs if heads have one channel
}

// groups returns the number of groups of heads.
func (o *diagStep) groups() int { return (o.sys.H + headsPerStep - 1) / headsPerStep }

// group returns the heads of a group, and the recurrence of their systems.
func (o *diagStep) group(group int) (h0, heads int, modes kernel.DiagRecurrence) {
	h0 = group * headsPerStep
	heads = min(headsPerStep, o.sys.H-h0)
	at := 2 * o.sys.N * h0
	return h0, heads, kernel.DiagRecurrence{
		Systems: heads, Per: o.g.HeadDim * o.g.HeadDim, N: o.sys.N,
		A: o.sys.a32[at:], B: o.sys.b32[at:], C: o.sys.c32[at:], Skip: o.skip[h0:],
	}
}

// overRows calls f on all cores for the elements [lo, hi) of pieces of the listed rows.
func (o *diagStep) overRows(f func(lo, hi int)) {
	d := o.g.V.Dim(-1)
	parallel.For(len(o.list), rowGrain(d), func(lo, hi int) {
		for _, i := range o.list[lo:hi] {
			f(o.rows.From(i)*d, (o.rows.From(i)+o.rows.Len(i))*d)
		}
	})
}

// single steps heads of one channel.
func (o *diagStep) single(lo, hi int) {
	for group := lo; group < hi; group++ {
		h0, heads, modes := o.group(group)
		for _, i := range o.list {
			x := o.slots.At(i).Data()[2*o.sys.N*h0:]
			for t := range o.rows.Len(i) {
				at := (o.rows.From(i)+t)*o.g.V.Dim(-1) + h0
				modes.Step(o.y[at:][:heads], o.u[at:][:heads], x)
			}
		}
	}
}

// outer steps heads of several channels, whose inputs are outer products.
func (o *diagStep) outer(lo, hi int) {
	g, p := o.g, o.g.HeadDim
	buf := stepPool.Get().(*[]float32)
	defer stepPool.Put(buf)
	*buf = resize(*buf, 2*headsPerStep*p*p)
	for group := lo; group < hi; group++ {
		h0, heads, modes := o.group(group)
		per := p * p
		u, z := (*buf)[:heads*per], (*buf)[headsPerStep*per:][:heads*per]
		for _, i := range o.list {
			x := o.slots.At(i).Data()[2*o.sys.N*h0*per:]
			for t := range o.rows.Len(i) {
				row := (o.rows.From(i) + t) * g.V.Dim(-1)
				gateInputs(g, u, row, h0, heads)
				modes.Step(z, u, x)
				gateOutputs(g, o.y[row:], z, row, h0, heads, o.sys.H)
			}
		}
	}
}

var stepPool = sync.Pool{New: func() any { return new([]float32) }}

// gateInputs sets u to k_i·v_j of the heads from h0 on, of several channels each, at the position whose elements start
// at row.
func gateInputs(g *engine.Gates, u []float32, row, h0, heads int) {
	p := g.HeadDim
	k, v := g.K.Data()[row+h0*p:][:heads*p], g.V.Data()[row+h0*p:][:heads*p]
	for i := range u {
		h := i / (p * p) * p
		u[i] = k[h+i/p%p] * v[h+i%p]
	}
}

// gateOutputs adds Σ_i q_i·z_ij to y at one position, for the heads from h0 on, of several channels each. all is the
// number of heads.
func gateOutputs(g *engine.Gates, y, z []float32, row, h0, heads, all int) {
	p := g.HeadDim
	q := g.Q.Data()[row+h0*p:][:heads*p]
	for i, z := range z {
		h := i / (p * p)
		y[g.OutChannel(h0+h, i%p, all)] += q[h*p+i/p%p] * z
	}
}

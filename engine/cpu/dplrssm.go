package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// DPLRSSM convolves rows with the kernel of S4, in pieces of s.L because C~ describes only L steps. While the tape does
// not record, rows with a state and rows longer than s.L are stepped.
func (eng *Engine) DPLRSSM(u *tensor.Tensor, sys *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	s, y := dplrOf(sys), eng.like(u)
	steps := func(i int) bool { return !eng.Recording && (slots.At(i) != nil || r.Len(i) > s.L) }
	eng.stepDPLR(y, u, s, skip, r, slots, steps)
	taps := func(l int) int { return min(kernel.NewConvPlan(min(l, s.L)).N(), s.L) }
	longest := 0
	for i := range r.Count() {
		if !steps(i) {
			longest = max(longest, taps(r.Len(i)))
		}
	}
	if longest == 0 {
		return y
	}
	k := eng.DPLRKernel(sys, longest)
	type kind struct {
		transform
		pieces int // the length of a row that is cut into pieces, else 0
	}
	byKey(eng, r, func(i int) kind {
		switch l := r.Len(i); {
		case steps(i):
			return kind{}
		case l > s.L:
			return kind{pieces: l}
		default:
			return kind{transform: transform{kernel.NewConvPlan(l).N(), taps(l)}}
		}
	}, func(rows []int, _ kind) { eng.dplrPieces(y, u, s, k, skip, r, rows, slots, taps) })
	return y
}

// dplrPieces is DPLRSSM by convolutions of pieces of up to s.L positions. A piece of l positions uses the first taps(l)
// taps of the kernels k. The given rows of r have up to s.L positions, or all the same length.
func (eng *Engine) dplrPieces(y, u *tensor.Tensor, s *dplrSystem, k, skip *tensor.Tensor, r *engine.Rows, rows []int,
	slots engine.Slots, taps func(l int) int) {
	states := take[dplrStates](eng)
	states.begin(rows, slots)
	record := eng.wants(append(states.x, u, k, skip)...)
	l := 0
	for _, i := range rows {
		l = max(l, r.Len(i))
	}
	for from := 0; from < l; from += s.L {
		op := eng.convolution(longConv, y, engine.Gates{V: u, HeadDim: 1}, k, skip)
		op.overPiece(r, rows, from, s.L)
		op.taps = min(tapsOf(k), taps(op.longest()))
		eng.convolve(op, record)
		eng.addZeroInput(y, s, op.rows, states.x)
		eng.carryDPLR(u, s, op.rows, states, from+s.L >= l)
	}
	for b, i := range rows {
		if states.given[b] {
			slots[i].X = states.x[b]
		}
	}
}

// dplrStates holds the states of rows between pieces.
type dplrStates struct {
	x     []*tensor.Tensor // nil for zeros
	given []bool           // the row has a slot
}

func (s *dplrStates) begin(rows []int, slots engine.Slots) {
	s.x, s.given = s.x[:0], s.given[:0]
	for _, i := range rows {
		s.x, s.given = append(s.x, slots.At(i)), append(s.given, slots.At(i) != nil)
	}
}

// DPLRKernel caches its kernels with a system whose gradients are not wanted, and returns them again if they are long
// enough.
func (eng *Engine) DPLRKernel(sys *engine.DPLRSystem, l int) *tensor.Tensor {
	s := dplrOf(sys)
	if s.wantGrad {
		return eng.makeKernel(s, l)
	}
	k := s.given.Load()
	if k == nil || tapsOf(k) < l {
		k = New(&engine.Step{}).makeKernel(s, l).Clone() // for any number of goroutines, and outlives the tape
		s.given.Store(k)
	}
	return k
}

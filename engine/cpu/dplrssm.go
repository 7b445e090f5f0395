package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// DPLRSSM runs the systems of s over a chunk u (b, l, h): y = SSM(u) + D u with the skip D (h) or nil. state (b, h, n, 2) is
// the state of every channel before the chunk, nil for zero with none wanted after it; next is the state after it: state
// itself, updated in place, when the tape does not record.
//
// A chunk without a state is convolved with the kernel of S4; one with a state is stepped or, while the tape records,
// convolved, with what is heard of the state added. Chunks longer than s.L go in pieces that pass the state on, as C~
// describes a system for L steps.
func (eng *Engine) oldDPLRSSM(u *tensor.Tensor, sys *engine.DPLRSystem, skip, state *tensor.Tensor) (y, next *tensor.Tensor) {
	s := dplrOf(sys)
	batch, l, d := u.Dim(0), u.Dim(1), u.Dim(2)
	y = eng.like(u)
	if !eng.Recording && (state != nil || l > s.L) {
		var skips []float32
		if skip != nil {
			skips = skip.Data()
		}
		x := state
		if x == nil {
			x = eng.New(batch, d, s.N, 2)
			x.Zero()
		}
		s.step(y, u, skips, x.Data())
		return y, state
	}
	given, piece := state != nil, min(l, s.L)
	k := eng.DPLRKernel(sys, piece)
	record := eng.wants(u, k, skip, state)
	for from := 0; from < l; from += piece {
		n := min(piece, l-from)
		eng.convolvePiece(y, engine.Gates{V: u, HeadDim: 1}, k, skip, from, n, record)
		x0 := state
		if x0 != nil {
			eng.addZeroInput(y, s, x0, from, n)
		}
		if given || from+n < l {
			state = eng.carryDPLR(s, u, x0, from, n)
		}
	}
	if !given {
		state = nil
	}
	return y, state
}

// DPLRKernel makes kernels, or returns what it made before, perhaps longer, where no gradients of the system are wanted.
func (eng *Engine) DPLRKernel(sys *engine.DPLRSystem, l int) *tensor.Tensor {
	s := dplrOf(sys)
	if s.wantGrad {
		return eng.makeKernel(s, l)
	}
	k := s.given.Load()
	if k == nil || tapsOf(k) < l {
		k = New(&engine.Step{}).makeKernel(s, l).Clone() // for any number of goroutines, and longer than the tape
		s.given.Store(k)
	}
	return k
}

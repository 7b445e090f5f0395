package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// recurrentBelow is the chunk length under which stepping beats the convolution in inference.
const recurrentBelow = 24

// DiagSSM is the inner part of H3 (arXiv:2212.14052 §3.1) over a chunk: for every head, with i, j < head_dim,
//
//	u_ij = k_i · v_j,   z_ij = SSM(u_ij) + D u_ij,   y_j = Σ_i q_i · z_ij
//
// where SSM is the head's diagonal system s and D (h) its skip. Long chunks are convolved, short ones stepped, which is the
// same up to rounding. state (b, h·head_dim², n, 2) holds the complex state of each u_ij before the chunk, nil for zero
// with none wanted after it; next is the state after it: state itself, updated in place, when the tape does not record.
//
// A sequence longer than engine.LongestAtOnce is convolved in pieces that pass the state on, so that neither the kernel nor the scratch
// grows with it (arXiv:2212.14052 §4.2).
func (eng *Engine) DiagSSM(g engine.Gates, sys *engine.DiagSystem, skip, state *tensor.Tensor) (y, next *tensor.Tensor) {
	s := diagOf(sys)
	v := g.V
	l := v.Dim(1)
	g.HeadDim = max(1, g.HeadDim)
	if state != nil && !eng.Recording && l < recurrentBelow {
		y = eng.diagOutput(g)
		stepDiag(y, g, s, skip.Data(), state)
		return y, state
	}
	if state == nil && g.HeadDim == 1 && l <= directUpTo {
		return eng.directConv(g, eng.DiagKernel(&s.DiagSystem, l), skip), nil
	}
	piece := l
	if l > engine.LongestAtOnce {
		piece = engine.LongestAtOnce / 2
	}
	return eng.diagPieces(g, s, skip, state, piece)
}

// diagOutput is the output of DiagSSM to come.
func (eng *Engine) diagOutput(g engine.Gates) *tensor.Tensor {
	y := eng.like(g.V)
	if g.HeadDim > 1 {
		y.Zero() // heads add to it
	}
	return y
}

// diagPieces is DiagSSM by convolutions of piece positions.
func (eng *Engine) diagPieces(g engine.Gates, s *diagSystem, skip, state *tensor.Tensor, piece int) (y, next *tensor.Tensor) {
	y = eng.diagOutput(g)
	kern := eng.DiagKernel(&s.DiagSystem, piece)
	record, given := eng.wants(g.Q, g.K, g.V, kern, skip, state), state != nil
	for l, from := g.V.Dim(1), 0; from < l; from += piece {
		op := take[diagSSMOp](eng)
		op.convolution = convolution{Gates: g, heads: s.H, from: from, l: min(piece, l-from), kern: kern, skip: skip, y: y, sys: s, state: state}
		op.plan = kernel.NewConvPlan(op.l)
		if given || from+piece < l {
			if op.next = state; eng.Recording || state == nil {
				op.next = eng.New(g.V.Dim(0), s.H*g.HeadDim*g.HeadDim, s.N, 2)
			}
		}
		if record {
			op.keep(eng)
		}
		op.run()
		if record {
			eng.push(op)
		}
		state = op.next
	}
	return y, state
}

// headsPerStep is the number of heads that are stepped together: what belongs to their systems stays in the cache while
// batch and positions pass by.
const headsPerStep = 32

// stepDiag runs the recurrence x ← Āx + B̄u, z = 2 Re Σ C x + D u position by position, updating state.
func stepDiag(y *tensor.Tensor, g engine.Gates, s *diagSystem, skip []float32, state *tensor.Tensor) {
	batch, l, p := g.V.Dim(0), g.V.Dim(1), g.HeadDim
	s.single()
	groups := (s.H + headsPerStep - 1) / headsPerStep
	parallel.For(groups, rowGrain(batch*l*headsPerStep*p*p*s.N), func(lo, hi int) {
		buf := stepPool.Get().(*[]float32)
		defer stepPool.Put(buf)
		*buf = resize(*buf, 2*headsPerStep*p*p)
		for group := lo; group < hi; group++ {
			h0 := group * headsPerStep
			heads := min(headsPerStep, s.H-h0)
			at, per := 2*s.N*h0, p*p
			u, z := (*buf)[:heads*per], (*buf)[headsPerStep*per:][:heads*per]
			r := kernel.DiagRecurrence{
				Systems: heads, Per: per, N: s.N, A: s.a32[at:], B: s.b32[at:], C: s.c32[at:], Skip: skip[h0:],
			}
			for b := range batch {
				x := state.Data()[2*s.N*(b*s.H+h0)*per:]
				for t := range l {
					row := (b*l + t) * g.V.Dim(2)
					gateInputs(&g, u, row, h0, heads)
					r.Step(z, u, x)
					gateOutputs(&g, y.Data()[row:], z, row, h0, heads, s.H)
				}
			}
		}
	})
}

var stepPool = sync.Pool{New: func() any { return new([]float32) }}

// gateInputs sets u to k_i·v_j of the heads from h0 on at the position whose row begins at row.
func gateInputs(g *engine.Gates, u []float32, row, h0, heads int) {
	p := g.HeadDim
	v := g.V.Data()[row+h0*p:][:heads*p]
	switch {
	case g.K == nil:
		copy(u, v)
	case p == 1:
		kernel.MulInto(u, g.K.Data()[row+h0:][:heads], v)
	default:
		k := g.K.Data()[row+h0*p:][:heads*p]
		for i := range u {
			h := i / (p * p) * p
			u[i] = k[h+i/p%p] * v[h+i%p]
		}
	}
}

// gateOutputs sets the row y to Σ_i q_i·z_ij for the heads from h0 of all the heads on; with head_dim > 1 it adds.
func gateOutputs(g *engine.Gates, y, z []float32, row, h0, heads, all int) {
	p := g.HeadDim
	switch {
	case g.Q == nil:
		copy(y[h0:], z)
	case p == 1:
		kernel.MulInto(y[h0:][:heads], g.Q.Data()[row+h0:][:heads], z)
	default:
		q := g.Q.Data()[row+h0*p:][:heads*p]
		for i, z := range z {
			h := i / (p * p)
			y[g.OutChannel(h0+h, i%p, all)] += q[h*p+i/p%p] * z
		}
	}
}

type diagSSMOp struct{ convolution }

func (o *diagSSMOp) Name() string { return "DiagSSM" }

// Outputs gives y to the operation of the first piece, the last one to go back.
func (o *diagSSMOp) Outputs(f func(*tensor.Tensor)) {
	if o.from == 0 {
		f(o.y)
	}
	if o.next != nil {
		f(o.next)
	}
}

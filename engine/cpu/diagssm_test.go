package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestDiagPieces checks that pieces of a sequence that pass on a state give the results of the whole, gradients
// included.
func TestDiagPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for _, v := range []struct{ b, l, heads, dim, piece int }{
		{2, 9000, 16, 1, 4000}, {1, 300, 5, 2, 100}, {2, 7, 3, 1, 3}, {1, 6, 2, 1, 3}, {2, 40, 20, 1, 39},
	} {
		t.Run(fmt.Sprintf("l=%d,head_dim=%d", v.l, v.dim), func(t *testing.T) {
			d := v.heads * v.dim
			n := v.b * v.l
			shapes := [][]int{{n, d}, {n, d}, {n, d}, {v.heads}, {v.heads, 2}, {v.heads, 2}, {v.heads, 2, 2},
				{v.heads, 2, 2}, {v.heads}, {d * v.dim, 2, 2}, {d * v.dim, 2, 2}}
			in := row{scale: []float64{1, 1, 1, 0.5, 0.3, 2, 1, 1, 1, 1, 1}}.inputs(shapes, 4)
			r, all := engine.EqualRows(v.b, v.l), []int{0, 1}[:v.b]
			dy := make([]float32, v.b*v.l*d)
			for i := range dy {
				dy[i] = float32(rng.NormFloat64())
			}
			for _, withState := range []bool{false, true} {
				var want [][]float32
				for _, piece := range []int{v.l, v.piece} {
					x := tensors(in)
					tape := NewTape()
					tape.Record(true)
					p := &engine.DiagParams{LogDt: x[3], InvAReal: x[4], AImag: x[5], B: x[6], C: x[7]}
					var slots engine.Slots
					if withState {
						slots = engine.Slots{{X: x[9]}, {X: x[10]}}[:v.b]
					}
					y := tape.like(x[2])
					y.Zero()
					g := engine.Gates{Q: x[0], K: x[1], V: x[2], HeadDim: v.dim}
					tape.diagPieces(y, g, diagOf(tape.DiagSystem(p)), x[8], r, all, slots, piece)
					got := [][]float32{append([]float32(nil), y.Data()...)}
					tape.Seed(y, dy)
					for _, s := range slots {
						got = append(got, append([]float32(nil), s.X.Data()...))
						tape.Seed(s.X, dy[:s.X.Len()])
					}
					tape.BackwardSeeded()
					for _, x := range x {
						got = append(got, tape.gradient(x))
					}
					if piece == v.l {
						want = got
						continue
					}
					for i := range want {
						w := make([]float64, len(want[i]))
						for j, x := range want[i] {
							w[j] = float64(x)
						}
						compare(t, fmt.Sprintf("state %v, array %d", withState, i), got[i], w, 2e-5)
					}
				}
			}
		})
	}
}

// TestLongSequencesNeedNoMoreScratch checks that beyond LongestAtOnce only the input, the output, their gradients, and
// a state for each piece grow with the sequence.
func TestLongSequencesNeedNoMoreScratch(t *testing.T) {
	const d, n = 2, 1
	bytes := func(l int) int {
		v, skip := tensor.New(l, d), tensor.New(d)
		p := &engine.DiagParams{LogDt: tensor.New(d), InvAReal: tensor.New(d, n), AImag: tensor.New(d, n),
			C: tensor.New(d, n, 2)}
		v.SetNeedsGrad(true)
		p.LogDt.SetNeedsGrad(true)
		tape := NewTape()
		tape.Record(true)
		y := tape.DiagSSM(engine.Gates{V: v}, tape.DiagSystem(p), skip, engine.NewRows(l), nil)
		for _, op := range tape.ops {
			op, ok := op.(*recorded).operation.(*convolutionOp)
			if ok && max(op.plan.N(), tapsOf(op.kern)) > engine.LongestAtOnce/2 {
				t.Errorf("l=%d: a piece transforms %d points, with a kernel of %d", l, op.plan.N(), tapsOf(op.kern))
			}
		}
		tape.BackwardFrom(y, make([]float32, y.Len()))
		return tape.Bytes()
	}
	short, long := bytes(2*engine.LongestAtOnce), bytes(4*engine.LongestAtOnce)
	if grown, want := long-short, 3*2*engine.LongestAtOnce*d*4; grown > want+want/8 { // y, dy and dv
		t.Errorf("%d positions more took %d bytes more, want %d", 2*engine.LongestAtOnce, grown, want)
	}
}

package autograd_test

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// diagScanSequences returns DiagScan of h systems of n modes, DSS's or diagonal ones, at steps of many lengths, some of
// which occur repeatedly.
func diagScanSequences(name string, lens []int, keeps []bool, h, n int, dss bool) sequences {
	params := [][]int{{h}, {h, n}, {h, n}, {h, n, 2}, {h, n, 2}, {h}}
	if dss {
		params = [][]int{{h, 2}, {n}, {n}, {h, n, 2}, {h}}
	}
	return sequences{name: "DiagScan/" + name, lens: lens, keeps: keeps, along: []int{h, 1}, params: params,
		states: [][]int{{h, n, 2}}, tol: 5e-5,
		scale: append([]float64{1, 1, 0.5, 0.3, 2}, repeated(20, []float64{1})...),
		of: func(input, i int, x float64) float64 {
			switch {
			case input == 1 && i%3 == 0:
				return 2
			case input == 1: // from a hundredth to several
				return math.Exp(2*x) / 2
			}
			return x
		},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				var s *engine.DiagSystem
				if dss {
					s = t.DSSSystem(&engine.DSSParams{LogDt: p[0], Re: p[1], Im: p[2], W: p[3], LogNegRe: true,
						Scale: engine.DSSExp, L: 8})
				} else {
					s = t.DiagSystem(&engine.DiagParams{LogDt: p[0], InvAReal: p[1], AImag: p[2], B: p[3], C: p[4],
						Disc: engine.ZOH, Uneven: true})
				}
				return t.DiagScan(u[0], u[1], s, p[len(p)-1], r, slots[0])
			})
		}}
}

func init() {
	registerSequences(func() []sequences {
		both, few := []bool{true, true}, []bool{true, false, true, true, false}
		return withBig([]sequences{
			diagScanSequences("plain", []int{5, 5}, nil, 3, 2, false),
			diagScanSequences("state", []int{4, 6}, both, 2, 3, false),
			diagScanSequences("one", []int{1}, both[:1], 3, 2, false),
			diagScanSequences("ages", []int{1, 3, 5, 3, 1}, few, 2, 2, false),
			diagScanSequences("dss", []int{4, 2}, both, 2, 2, true),
		}, diagScanSequences("equal", []int{190, 190}, nil, 40, 16, false),
			diagScanSequences("mixed", []int{1, 190, 3, 33, 64}, few, 40, 16, false))
	})
}

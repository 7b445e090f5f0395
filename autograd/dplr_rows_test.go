//go:build todo

package autograd_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// dplrVariant is DPLRSSM of h channels with n modes over b sequences of l positions, C~ being that of period steps. The
// large shape has a period of bigPeriod steps, its whole length where that is 0.
type dplrVariant struct {
	name                       string
	b, l, h, n                 int
	rank, period, bigPeriod    int
	state, withoutSkip, kernel bool // kernel: DPLRKernel and the system itself, in place of DPLRSSM
}

const bigDPLR = 420

// row has the inputs u, log_dt, inv_A_real, A_imag, B, C~, D, then P and the state where there are such.
func (v dplrVariant) row() row {
	shapes := func(b, l, h, n int) [][]int {
		s := [][]int{{b, l, h}, {h}, {h, n}, {h, n}, {h, n, 2}, {h, n, 2}, {h}}
		if v.rank > 0 {
			s = append(s, []int{v.rank, h, n, 2})
		}
		if v.state {
			s = append(s, []int{b, h, n, 2})
		}
		return s
	}
	r := row{name: "DPLRSSM/" + v.name, in: shapes(v.b, v.l, v.h, v.n), big: shapes(2, bigDPLR, 40, 6),
		scale: []float64{1, 0.5, 0.3, 2, 1, 1, 1, 1, 1}, tol: 5e-5}
	if v.kernel {
		r.name = "DPLRKernel/" + v.name
	}
	r.op = func(t *autograd.Tape, in ts) ts {
		l := in[0].Dim(1)
		p := &engine.DPLRParams{LogDt: in[1], InvAReal: in[2], AImag: in[3], B: in[4], Ct: in[5], L: v.period}
		if l == bigDPLR {
			if p.L = v.bigPeriod; p.L == 0 {
				p.L = l
			}
		}
		if v.rank > 0 {
			p.P = in[7]
		}
		s := t.DPLRSystem(p)
		if v.kernel {
			out := ts{t.KernelRows(t.DPLRKernel(s, l), s.H), s.Lambda, s.B, s.Ct}
			if v.rank > 0 {
				out = append(out, s.P)
			}
			return out
		}
		skip := in[6]
		if v.withoutSkip {
			skip = nil
		}
		var state *tensor.Tensor
		if v.state {
			state = in[len(in)-1]
		}
		y, next := t.DPLRSSM(in[0], s, skip, state)
		if !v.state {
			return ts{y}
		}
		return ts{y, next}
	}
	return r
}

func dplrRows() []row {
	var rows []row
	for _, v := range []dplrVariant{
		{name: "plain", b: 2, l: 6, h: 3, n: 2, rank: 1, period: 6},
		{name: "shorter", b: 1, l: 5, h: 2, n: 2, rank: 1, period: 9, bigPeriod: 523},
		{name: "one_node", b: 1, l: 1, h: 2, n: 1, rank: 1, period: 1},
		{name: "rank_2", b: 1, l: 7, h: 2, n: 2, rank: 2, period: 8},
		{name: "diagonal", b: 1, l: 7, h: 2, n: 2, period: 8},
		{name: "pieces", b: 2, l: 11, h: 2, n: 2, rank: 1, period: 4, bigPeriod: 177},
		{name: "many_channels", b: 1, l: 4, h: 35, n: 1, rank: 1, period: 4},
		{name: "without_skip", b: 1, l: 4, h: 2, n: 2, rank: 1, period: 4, withoutSkip: true},
		{name: "state", b: 2, l: 6, h: 3, n: 2, rank: 1, period: 8, state: true},
		{name: "state_rank_2", b: 1, l: 5, h: 2, n: 2, rank: 2, period: 6, state: true},
		{name: "state_diagonal", b: 1, l: 5, h: 2, n: 2, period: 6, state: true},
		{name: "state_pieces", b: 2, l: 9, h: 2, n: 2, rank: 1, period: 4, bigPeriod: 64, state: true},
		{name: "state_one", b: 1, l: 1, h: 2, n: 2, rank: 1, period: 5, state: true},
		{name: "plain", b: 1, l: 6, h: 2, n: 2, rank: 1, period: 9, kernel: true, bigPeriod: 512},
		{name: "rank_2", b: 1, l: 6, h: 2, n: 2, rank: 2, period: 6, kernel: true},
		{name: "diagonal", b: 1, l: 6, h: 2, n: 2, period: 6, kernel: true},
	} {
		rows = append(rows, v.row())
	}
	return rows
}

// TestDPLRFollowsItsParameters: what a system keeps while the tape does not record is made again for other parameters.
func TestDPLRFollowsItsParameters(t *testing.T) {
	r := dplrVariant{name: "kept", b: 1, l: 6, h: 2, n: 2, rank: 1, period: 9, state: true}.row()
	_, onReference := referenceTape()
	for engineName, tape := range map[string]*autograd.Tape{"reference": onReference, "cpu": autograd.NewTape()} {
		x := r.tensors(r.in, r.random(r.in, 5))
		p := &engine.DPLRParams{LogDt: x[1], InvAReal: x[2], AImag: x[3], B: x[4], Ct: x[5], P: x[7], L: 9}
		first := tape.DPLRSystem(p)
		if tape.DPLRSystem(p) != first {
			t.Errorf("%s: the system is made again though nothing changed", engineName)
		}
		x[1].CopyFrom([]float32{-1, -2})
		if tape.DPLRSystem(p) == first {
			t.Errorf("%s: the system does not follow its parameters", engineName)
		}
	}
}

func init() {
	register(dplrRows)
}

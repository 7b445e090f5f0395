package autograd_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// dplrVariant is DPLRSSM of h channels with n modes over rows. C~ is that for period steps.
type dplrVariant struct {
	name        string
	lens        []int
	keeps       []bool // nil for no states
	h, n        int
	rank        int
	period      int
	bigPeriod   int // period of the large shape, 0 for the length of its longest row
	withoutSkip bool
	bigLens     []int // lengths of the large shape, nil for two rows of 420
	bigKeeps    []bool
}

// params returns the shapes of log_dt, inv_A_real, A_imag, B, C~, D and, if there is one, P.
func (v dplrVariant) params() [][]int {
	h, n := v.h, v.n
	s := [][]int{{h}, {h, n}, {h, n}, {h, n, 2}, {h, n, 2}, {h}}
	if v.rank > 0 {
		s = append(s, []int{v.rank, h, n, 2})
	}
	return s
}

// of returns the tensors p, in the order of params, as parameters.
func (v dplrVariant) of(p ts) *engine.DPLRParams {
	d := &engine.DPLRParams{LogDt: p[0], InvAReal: p[1], AImag: p[2], B: p[3], Ct: p[4], L: v.period}
	if v.rank > 0 {
		d.P = p[6]
	}
	return d
}

// large returns the variant at large shapes.
func (v dplrVariant) large() dplrVariant {
	v.lens, v.h, v.n = []int{420, 420}, 40, 6
	if v.bigLens != nil {
		v.lens = v.bigLens
	}
	if v.keeps != nil {
		v.keeps = repeated(len(v.lens), []bool{true})
		if v.bigKeeps != nil {
			v.keeps = v.bigKeeps
		}
	}
	if v.period = v.bigPeriod; v.period == 0 {
		v.period = v.lens[0]
	}
	return v
}

// sequences returns DPLRSSM with the inputs u, the parameters and the states.
func (v dplrVariant) sequences() sequences {
	params := v.params()
	s := sequences{name: "DPLRSSM/" + v.name, lens: v.lens, keeps: v.keeps, along: []int{v.h}, params: params,
		states: [][]int{{v.h, v.n, 2}}, tol: 5e-5,
		scale: append([]float64{1, 0.5, 0.3, 2}, repeated(20, []float64{1})...)}
	s.op = func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		skip := p[5]
		if v.withoutSkip {
			skip = nil
		}
		return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
			return t.DPLRSSM(u[0], t.DPLRSystem(v.of(p)), skip, r, slots[0])
		})
	}
	return s
}

func dplrSequences() []sequences {
	yes, both := []bool{true}, []bool{true, true}
	var all []sequences
	for _, v := range []dplrVariant{
		{name: "plain", lens: []int{6, 6}, h: 3, n: 2, rank: 1, period: 6},
		{name: "shorter", lens: []int{5}, h: 2, n: 2, rank: 1, period: 9, bigPeriod: 523},
		{name: "one_node", lens: []int{1}, h: 2, n: 1, rank: 1, period: 1},
		{name: "rank_2", lens: []int{7}, h: 2, n: 2, rank: 2, period: 8},
		{name: "diagonal", lens: []int{7}, h: 2, n: 2, period: 8},
		{name: "pieces", lens: []int{11, 11}, h: 2, n: 2, rank: 1, period: 4, bigPeriod: 177},
		{name: "many_channels", lens: []int{4}, h: 35, n: 1, rank: 1, period: 4},
		{name: "without_skip", lens: []int{4}, h: 2, n: 2, rank: 1, period: 4, withoutSkip: true},
		{name: "state", lens: []int{6, 6}, keeps: both, h: 3, n: 2, rank: 1, period: 8},
		{name: "state_rank_2", lens: []int{5}, keeps: yes, h: 2, n: 2, rank: 2, period: 6},
		{name: "state_diagonal", lens: []int{5}, keeps: yes, h: 2, n: 2, period: 6},
		{name: "state_pieces", lens: []int{9, 9}, keeps: both, h: 2, n: 2, rank: 1, period: 4, bigPeriod: 64},
		{name: "state_one", lens: []int{1}, keeps: yes, h: 2, n: 2, rank: 1, period: 5},
		{name: "ages", lens: []int{6, 1, 9, 3, 6}, keeps: []bool{true, true, false, false, false},
			h: 2, n: 2, rank: 1, period: 6, bigLens: []int{200, 1, 130, 420, 200, 90, 3, 420}, bigPeriod: 250,
			bigKeeps: []bool{true, true, false, true, false, true, false, false}},
	} {
		s, big := v.sequences(), v.large().sequences()
		s.big = &big
		all = append(all, s)
	}
	return all
}

// dplrKernelRows have the parameters as inputs. Outputs are the kernels and the system itself.
func dplrKernelRows() []row {
	var rows []row
	for _, v := range []dplrVariant{
		{name: "plain", lens: []int{6}, h: 2, n: 2, rank: 1, period: 9, bigPeriod: 512},
		{name: "rank_2", lens: []int{6}, h: 2, n: 2, rank: 2, period: 6},
		{name: "diagonal", lens: []int{6}, h: 2, n: 2, period: 6},
	} {
		small, big := v, v.large()
		rows = append(rows, row{name: "DPLRKernel/" + v.name, in: small.params(), big: big.params(),
			scale: []float64{0.5, 0.3, 2, 1, 1, 1, 1}, tol: 5e-5,
			op: func(t *autograd.Tape, in ts) ts {
				v := small
				if in[0].Len() == big.h {
					v = big
				}
				s := t.DPLRSystem(v.of(in))
				out := ts{t.KernelRows(t.DPLRKernel(s, v.lens[0]), s.H), s.Lambda, s.B, s.Ct}
				if v.rank > 0 {
					out = append(out, s.P)
				}
				return out
			}})
	}
	return rows
}

// TestDPLRFollowsItsParameters checks that a system that is cached while the tape does not record is computed again for
// other parameters.
func TestDPLRFollowsItsParameters(t *testing.T) {
	v := dplrVariant{h: 2, n: 2, rank: 1, period: 9}
	r := row{scale: []float64{0.5, 0.3, 2, 1, 1, 1, 1}}
	for engineName, tape := range tapes() {
		x := r.tensors(v.params(), r.random(v.params(), 5))
		p := v.of(x)
		first := tape.DPLRSystem(p)
		if tape.DPLRSystem(p) != first {
			t.Errorf("%s: the system is made again though nothing changed", engineName)
		}
		x[0].CopyFrom([]float32{-1, -2})
		if tape.DPLRSystem(p) == first {
			t.Errorf("%s: the system does not follow its parameters", engineName)
		}
	}
}

func init() {
	registerSequences(dplrSequences)
	register(dplrKernelRows)
}

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// diagVariant is DiagSSM over rows, of systems of n modes for heads of dim channels.
type diagVariant struct {
	name            string
	lens            []int
	keeps           []bool // nil for no states
	heads, dim, n   int
	disc            engine.Discretization
	real            engine.RealPart
	order           engine.HeadOrder
	gated, withoutB bool
	large           *diagVariant // fields of the large shape that differ, nil for three rows of 256
}

// sequences has the inputs q, k, v, then log_dt, inv_A_real, A_imag, B, C, D, then the states.
func (v diagVariant) sequences() sequences {
	d, n := v.heads*v.dim, v.n
	s := sequences{name: "DiagSSM/" + v.name, lens: v.lens, keeps: v.keeps, along: []int{d, d, d},
		params: [][]int{{v.heads}, {v.heads, n}, {v.heads, n}, {v.heads, n, 2}, {v.heads, n, 2}, {v.heads}},
		states: [][]int{{d * v.dim, n, 2}},
		scale:  append([]float64{1, 1, 1, 0.5, 0.3, 2}, repeated(20, []float64{1})...), tol: 5e-5}
	s.op = func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
		g := engine.Gates{Q: u[0], K: u[1], V: u[2], HeadDim: u[2].Dim(1) / p[0].Len(), Order: v.order}
		if !v.gated {
			g.Q, g.K = nil, nil
		}
		params := &engine.DiagParams{LogDt: p[0], InvAReal: p[1], AImag: p[2], B: p[3], C: p[4],
			Disc: v.disc, Real: v.real}
		if v.withoutB {
			params.B = nil
		}
		return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
			return t.DiagSSM(g, t.DiagSystem(params), p[5], r, slots[0])
		})
	}
	return s
}

// big returns the variant at large shapes.
func (v diagVariant) big() *sequences {
	if v.large != nil {
		v.lens, v.keeps, v.heads, v.n = v.large.lens, v.large.keeps, v.large.heads, v.large.n
	} else {
		if v.keeps != nil {
			v.keeps = []bool{true, true, true}
		}
		v.lens, v.heads, v.n = []int{256, 256, 256}, 40, 16
		if v.dim > 1 {
			v.heads, v.n = 20, 5
			v.dim = min(v.dim, 3)
		}
	}
	s := v.sequences()
	return &s
}

// diagSequences cover DiagSystem and DiagSSM. The CPU's engine convolves up to 96 positions directly, and more by FFT.
// Without recording, it steps rows of fewer than 24 positions that have a state.
func diagSequences() []sequences {
	yes, both := []bool{true}, []bool{true, true}
	short := &diagVariant{lens: []int{90, 90, 90}, heads: 80, n: 16}
	shortKept := &diagVariant{lens: []int{90, 90, 90}, keeps: []bool{true, true, true}, heads: 80, n: 16}
	mixed := &diagVariant{lens: []int{256, 90, 1, 256, 40, 20, 1, 130, 70, 256},
		keeps: []bool{true, false, true, false, true, true, false, true, false, true}, heads: 40, n: 16}
	mixedHeads := &diagVariant{lens: mixed.lens[:8], keeps: mixed.keeps[:8], heads: 10, n: 5}
	var all []sequences
	for _, v := range []diagVariant{
		{name: "h3", lens: []int{7, 7}, heads: 3, dim: 1, n: 2, gated: true},
		{name: "h3_many_heads", lens: []int{5}, heads: 18, dim: 1, n: 1, gated: true, large: short},
		{name: "h3_transformed", lens: []int{100}, heads: 2, dim: 1, n: 1, gated: true},
		{name: "zoh_ungated", lens: []int{6, 6}, heads: 3, dim: 1, n: 2, disc: engine.ZOH, large: short},
		{name: "zoh_ungated_transformed", lens: []int{97}, heads: 2, dim: 1, n: 1, disc: engine.ZOH},
		{name: "without_b", lens: []int{6, 6}, heads: 3, dim: 1, n: 2, gated: true, withoutB: true},
		{name: "softplus", lens: []int{6, 6}, heads: 3, dim: 1, n: 2, disc: engine.ZOH, real: engine.NegSoftplus},
		{name: "relu", lens: []int{6, 6}, heads: 3, dim: 1, n: 2, real: engine.NegReLU},
		{name: "head_dim_2", lens: []int{6, 6}, heads: 5, dim: 2, n: 2, gated: true},
		{name: "head_dim_5_hd", lens: []int{4}, heads: 2, dim: 5, n: 1, gated: true, order: engine.HeadMajor},
		{name: "state", lens: []int{6, 6}, keeps: both, heads: 3, dim: 1, n: 2, gated: true},
		{name: "state_dim_2_hd", lens: []int{3, 3}, keeps: both, heads: 2, dim: 2, n: 2, gated: true,
			order: engine.HeadMajor},
		{name: "state_one_ungated", lens: []int{1}, keeps: yes, heads: 2, dim: 1, n: 2, disc: engine.ZOH,
			large: shortKept},
		{name: "ages", lens: []int{1, 6, 1, 3, 30}, keeps: []bool{true, false, false, true, true},
			heads: 3, dim: 1, n: 2, gated: true, large: mixed},
		{name: "ages_ungated", lens: []int{6, 100, 2}, keeps: []bool{false, false, true}, heads: 2, dim: 1, n: 1,
			large: mixed},
		{name: "ages_dim_2", lens: []int{1, 6, 3}, keeps: []bool{true, false, true}, heads: 2, dim: 2, n: 2,
			gated: true, large: mixedHeads},
	} {
		s := v.sequences()
		s.big = v.big()
		all = append(all, s)
	}
	return all
}

// diagKernelRows have the inputs log_dt, inv_A_real, A_imag, B, C. Outputs are the kernels and the system itself.
func diagKernelRows() []row {
	build := func(name string, disc engine.Discretization, l, longer int) row {
		shapes := func(h, n int) [][]int { return [][]int{{h}, {h, n}, {h, n}, {h, n, 2}, {h, n, 2}} }
		r := row{name: "DiagKernel/" + name, in: shapes(3, 2), big: shapes(50, 20),
			scale: []float64{0.5, 0.3, 2, 1, 1}, tol: 5e-5}
		r.op = func(t *autograd.Tape, in ts) ts {
			p := &engine.DiagParams{LogDt: in[0], InvAReal: in[1], AImag: in[2], B: in[3], C: in[4], Disc: disc}
			s := t.DiagSystem(p)
			taps := l
			if s.H > 3 {
				taps = longer
			}
			return ts{t.KernelRows(t.DiagKernel(s, taps), s.H), s.Abar, s.Bbar, s.C}
		}
		return r
	}
	return []row{build("bilinear", engine.Bilinear, 9, 700), build("zoh", engine.ZOH, 1, 333)}
}

func init() {
	registerSequences(diagSequences)
	register(diagKernelRows)
}

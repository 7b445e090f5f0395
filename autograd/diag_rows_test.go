//go:build todo

package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// diagVariant is DiagSSM of systems of n modes for heads of dim channels over b sequences of l positions.
type diagVariant struct {
	name                          string
	b, l, heads, dim, n           int
	disc                          engine.Discretization
	order                         engine.HeadOrder
	gated, state, withoutB, short bool // short: the large shape is one that is convolved directly
}

// row has the inputs q, k, v, log_dt, inv_A_real, A_imag, B, C, D, and the state where there is one.
func (v diagVariant) row() row {
	shapes := func(b, l, heads, dim, n int) [][]int {
		d := heads * dim
		s := [][]int{{b, l, d}, {b, l, d}, {b, l, d}, {heads}, {heads, n}, {heads, n},
			{heads, n, 2}, {heads, n, 2}, {heads}}
		if v.state {
			s = append(s, []int{b, heads * dim * dim, n, 2})
		}
		return s
	}
	r := row{name: "DiagSSM/" + v.name, in: shapes(v.b, v.l, v.heads, v.dim, v.n), big: shapes(3, 256, 40, 1, 16),
		scale: []float64{1, 1, 1, 0.5, 0.3, 2, 1, 1, 1, 1}, tol: 5e-5}
	if v.dim > 1 {
		r.big = shapes(3, 256, 20, 3, 5)
	} else if v.short {
		r.big = shapes(3, 90, 80, 1, 16)
	}
	r.op = func(t *autograd.Tape, in ts) ts {
		g := engine.Gates{Q: in[0], K: in[1], V: in[2], HeadDim: in[2].Dim(2) / in[3].Len(), Order: v.order}
		if !v.gated {
			g.Q, g.K = nil, nil
		}
		p := &engine.DiagParams{LogDt: in[3], InvAReal: in[4], AImag: in[5], B: in[6], C: in[7], Disc: v.disc}
		if v.withoutB {
			p.B = nil
		}
		var state *tensor.Tensor
		if v.state {
			state = in[9]
		}
		y, next := t.DiagSSM(g, t.DiagSystem(p), in[8], state)
		if v.state {
			return ts{y, next}
		}
		return ts{y}
	}
	return r
}

// diagRows cover DiagSystem, DiagKernel and DiagSSM: in the CPU's engine up to 96 positions are convolved directly,
// more by transforms.
func diagRows() []row {
	rows := diagKernelRows()
	for _, v := range []diagVariant{
		{name: "h3", b: 2, l: 7, heads: 3, dim: 1, n: 2, gated: true},
		{name: "h3_many_heads", b: 1, l: 5, heads: 18, dim: 1, n: 1, gated: true, short: true},
		{name: "h3_transformed", b: 1, l: 100, heads: 2, dim: 1, n: 1, gated: true},
		{name: "zoh_ungated", b: 2, l: 6, heads: 3, dim: 1, n: 2, disc: engine.ZOH, short: true},
		{name: "zoh_ungated_transformed", b: 1, l: 97, heads: 2, dim: 1, n: 1, disc: engine.ZOH},
		{name: "without_b", b: 2, l: 6, heads: 3, dim: 1, n: 2, gated: true, withoutB: true},
		{name: "head_dim_2", b: 2, l: 6, heads: 5, dim: 2, n: 2, gated: true},
		{name: "head_dim_5_hd", b: 1, l: 4, heads: 2, dim: 5, n: 1, gated: true, order: engine.HeadMajor},
		{name: "state", b: 2, l: 6, heads: 3, dim: 1, n: 2, gated: true, state: true},
		{name: "state_dim_2_hd", b: 2, l: 3, heads: 2, dim: 2, n: 2, gated: true, state: true, order: engine.HeadMajor},
		{name: "state_one_ungated", b: 1, l: 1, heads: 2, dim: 1, n: 2, state: true, disc: engine.ZOH, short: true},
	} {
		rows = append(rows, v.row())
	}
	return rows
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
	register(diagRows)
	register(diagKernelRows)
}

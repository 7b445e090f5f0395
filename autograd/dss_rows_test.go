package autograd_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// dssVariant is a kernel of DSS of length l. It is longer at the large shape.
type dssVariant struct {
	name     string
	l        int
	scale    engine.DSSScale
	logs, dt bool
	holdMax  bool
}

const longDSS = 400

// dssUse runs operations on the system of p and further inputs.
type dssUse func(t *autograd.Tape, p *engine.DSSParams, more ts) ts

// row has the inputs Re, Im, W and, unless dt is 1, log_dt. more returns the shapes of the further inputs of use.
func (v dssVariant) row(op string, more func(b, l, h, n int) [][]int, use dssUse) row {
	shapes := func(b, l, h, n int) [][]int {
		s := [][]int{{n}, {n}, {h, n, 2}}
		if v.dt {
			s = append(s, []int{h, 2})
		}
		return append(s, more(b, l, h, n)...)
	}
	r := row{name: op + "/" + v.name, in: shapes(2, v.l, 2, 3), big: shapes(2, longDSS, 40, 20),
		scale: []float64{0.3, 1, 1, 0.3, 1, 1, 1, 1}, tol: 5e-5}
	own := 4
	if !v.dt {
		r.scale, own = []float64{0.3, 1, 1, 1, 1, 1, 1}, 3
	}
	r.op = func(t *autograd.Tape, in ts) ts {
		p := &engine.DSSParams{Re: in[0], Im: in[1], W: in[2], LogNegRe: v.logs, LogIm: v.logs,
			Scale: v.scale, L: v.l, HoldMax: v.holdMax}
		if v.dt {
			p.LogDt = in[3]
		}
		if p.Re.Len() > 3 {
			p.L = longDSS
		}
		return use(t, p, in[own:])
	}
	return r
}

// kernel returns the row of DSSKernel.
func (v dssVariant) kernel() row {
	none := func(_, _, _, _ int) [][]int { return nil }
	return v.row("DSSKernel", none, func(t *autograd.Tape, p *engine.DSSParams, _ ts) ts {
		return ts{t.KernelRows(t.DSSKernel(p, p.L), p.W.Dim(0))}
	})
}

// system returns the row of DSSSystem followed by its DiagSSM, which has the inputs u, D and the states.
func (v dssVariant) system() row {
	more := func(b, l, h, n int) [][]int {
		return append([][]int{{b * l, h}, {h}}, repeated(b, [][]int{{h, n, 2}})...)
	}
	return v.row("DSSSystem", more, func(t *autograd.Tape, p *engine.DSSParams, more ts) ts {
		s, slots := t.DSSSystem(p), engine.Slots{{X: more[2]}, {X: more[3]}}
		y := t.DiagSSM(engine.Gates{V: more[0], HeadDim: 1}, s, more[1], engine.EqualRows(2, p.L), slots)
		return ts{y, slots[0].X, slots[1].X, s.Abar, s.Bbar, s.C}
	})
}

func dssRows() []row {
	variants := []dssVariant{
		{name: "plain", l: 7, scale: engine.DSSPlain, logs: true, dt: true},
		{name: "exp", l: 7, scale: engine.DSSExp, logs: true, dt: true},
		{name: "exp_dt_1", l: 7, scale: engine.DSSExp, logs: true},
		{name: "softmax", l: 7, scale: engine.DSSSoftmax, logs: true, dt: true},
		{name: "softmax_both_ends", l: 7, scale: engine.DSSSoftmax, dt: true},
		{name: "softmax_one", l: 1, scale: engine.DSSSoftmax},
	}
	var rows []row
	for _, v := range variants {
		if rows = append(rows, v.kernel()); v.logs { // Re Λ < 0 is guaranteed
			rows = append(rows, v.system())
		}
	}
	return rows
}

// TestDSSHoldsMax checks that with HoldMax, whose results are not gradients of the kernel, all engines agree.
func TestDSSHoldsMax(t *testing.T) {
	r := dssVariant{name: "hold_max", l: 7, scale: engine.DSSSoftmax, dt: true, holdMax: true}.kernel()
	r.agree(t, r.in, r.random(r.in, 1), true)
	r.agree(t, r.big, r.random(r.big, 1), false)
}

func init() {
	register(dssRows)
}

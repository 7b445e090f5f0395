package bench

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// operations holds what some mixers of width d compute in addition to linear layers, on one sequence of l positions.
// Linear layers are most of these mixers and about as fast everywhere; this compares the rest. Each function returns
// the inputs and parameters of an operation, and the operation.
var operations = map[string]func(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor){
	"mamba":            selectiveScan,
	"linear-attention": linearAttention,
	"hyena":            hyenaOperator,
	"s4":               s4Systems,
	"gated-deltanet":   deltaRule(1),
	"kda":              deltaRule(128),
}

// selectiveScan returns the scan of Mamba: 2d channels of 16 states, dt from 0 to 0.1 and A from -1 to -16.
func selectiveScan(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
	const n = 16
	e := 2 * d
	x, dt, a, bc, skip := random(l, e), random(l, e), tensor.New(e, n), random(l, 2*n), random(e)
	change(dt, func(_ int, v float32) float32 { return (v + 0.5) / 10 })
	change(a, func(i int, _ float32) float32 { return -float32(i%n + 1) })
	return []*tensor.Tensor{x, dt, a, bc, skip}, func(t *autograd.Tape) *tensor.Tensor {
		return t.SelectiveScan(x, dt, a, bc, skip, 1, engine.NewRows(l), nil)
	}
}

func linearAttention(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
	q, k, v := random(l, d), random(l, d), random(l, d)
	return []*tensor.Tensor{q, k, v}, func(t *autograd.Tape) *tensor.Tensor {
		o := engine.LinearOptions{Heads: 4, Phi: engine.ELU1, Eps: 1e-6}
		return t.LinearAttention(q, k, v, o, engine.NewRows(l), nil, nil)
	}
}

// hyenaOperator returns the short filter, the gates and one long convolution with a given filter.
func hyenaOperator(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
	x, w, b, k, skip := random(l, 3*d), random(3*d, 1, 3), random(3*d), random(l, d), random(d)
	return []*tensor.Tensor{x, w, b, k, skip}, func(t *autograd.Tape) *tensor.Tensor {
		rows := engine.NewRows(l)
		y := t.CausalConv(x, w, b, engine.None, rows, nil)
		parts := t.Split(y, d, d, d)
		return t.GatedLongConv(engine.Gates{Q: parts[0], K: parts[1], V: parts[2]}, k, skip, rows)
	}
}

// s4Systems returns d systems of 32 modes with a correction of rank 1: the generation of their kernels, and the
// convolution.
func s4Systems(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
	diag := diagParams(d, dState/2)
	u, skip, low := random(l, d), random(d), random(1, d, dState/2, 2)
	p := &engine.DPLRParams{
		LogDt: diag.LogDt, InvAReal: diag.InvAReal, AImag: diag.AImag, B: diag.B, P: low, Ct: diag.C, L: l,
	}
	return append(leavesOf(diag), u, skip, low), func(t *autograd.Tape) *tensor.Tensor {
		return t.DPLRSSM(u, t.DPLRSystem(p), skip, engine.NewRows(l), nil)
	}
}

// deltaRule returns the gated delta rule with heads of at most 128 components and the given number of decays per head.
func deltaRule(decays int) func(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
	return func(d, l int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
		return gatedDelta(d, l, decays)
	}
}

func gatedDelta(d, l, decays int) ([]*tensor.Tensor, func(t *autograd.Tape) *tensor.Tensor) {
	h := max(1, d/128)
	q, k, v, g, beta := random(l, d), random(l, d), random(l, d), random(l, h*min(decays, d/h)), random(l, h)
	for _, x := range []*tensor.Tensor{q, k} { // of length 1, approximately
		change(x, func(_ int, v float32) float32 { return v * float32(math.Sqrt(float64(12*h)/float64(d))) })
	}
	change(g, func(_ int, v float32) float32 { return -(v + 0.5) / 10 })
	change(beta, func(_ int, v float32) float32 { return v + 0.5 })
	return []*tensor.Tensor{q, k, v, g, beta}, func(t *autograd.Tape) *tensor.Tensor {
		x := engine.Delta{Q: q, K: k, V: v, G: g, Beta: beta, Heads: h, KeyHeads: h}
		return t.DeltaRule(x, engine.NewRows(l), nil)
	}
}

// change replaces each number v of x by f(i, v).
func change(x *tensor.Tensor, f func(i int, v float32) float32) {
	v := make([]float32, x.Len())
	x.CopyTo(v)
	for i := range v {
		v[i] = f(i, v[i])
	}
	x.CopyFrom(v)
}

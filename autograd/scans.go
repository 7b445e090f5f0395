package autograd

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// SelectiveScan runs Mamba's selective state-space model over rows (arXiv:2312.00752, algorithm 2):
//
//	h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t],   y[t] = Σ_n C[t]·h[t] + D·u[t]
//
// with u, delta (l, d), A (d, n) with A ≤ 0, and D (d). bc (l, 2·g·n) holds B and then C of g groups of channels. Each
// group has d/g neighboring channels. A slot (d, n) holds the state.
func (t *Tape) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d, n := u.Dim(-1), a.Dim(-1)
	checkRows("SelectiveScan", r, u, delta, bc)
	if groups < 1 || d%groups != 0 || !delta.SameShape(u) || a.Len() != d*n || dw.Len() != d ||
		bc.Dim(-1) != 2*groups*n {
		shapePanic("SelectiveScan", u, delta, a, bc, dw)
	}
	checkSlots("SelectiveScan", r, slots, d*n)
	return t.engine.SelectiveScan(u, delta, a, bc, dw, groups, r, slots)
}

// SelectiveScanComplex is SelectiveScan with complex states, each of which also represents its conjugate. a (d, n, 2),
// bc (l, 4·g·n) and slots (d, n, 2) hold pairs of a real and an imaginary part, and
//
//	h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t],   y[t] = 2 Re Σ_n C[t]·h[t] + D·u[t]
//
// Gradients are those of the real and imaginary parts. The real part of A is ≤ 0.
func (t *Tape) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	d := u.Dim(-1)
	size := a.Len() / d // number of floats in the states of a channel
	checkRows("SelectiveScanComplex", r, u, delta, bc)
	if groups < 1 || d%groups != 0 || !delta.SameShape(u) || a.Len() != d*size || size%2 != 0 || dw.Len() != d ||
		bc.Dim(-1) != 2*groups*size {
		shapePanic("SelectiveScanComplex", u, delta, a, bc, dw)
	}
	checkSlots("SelectiveScanComplex", r, slots, d*size)
	return t.engine.SelectiveScanComplex(u, delta, a, bc, dw, groups, r, slots)
}

// SSD runs Mamba-2's selective state-space model over rows (arXiv:2405.21060, §3), for each head of headDim channels:
//
//	h[t] = exp(dt[t]·A)·h[t-1] + dt[t]·x[t]·B[t]ᵀ,   y[t] = h[t]·C[t] + D·x[t]
//
// with dt (l, h), A (h) with A ≤ 0, and D (h). xbc (l, d + 2·g·n) holds x of d channels, then B and then C of g groups.
// Each group has d/headDim/g neighboring heads. A slot (h, headDim, n) holds the state.
func (t *Tape) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	heads, d := a.Len(), a.Len()*headDim
	checkRows("SSD", r, xbc, dt)
	if groups < 1 || heads < 1 || heads%groups != 0 || headDim < 1 || dt.Dim(-1) != heads || dw.Len() != heads {
		shapePanic("SSD", xbc, dt, a, dw)
	}
	n := (xbc.Dim(-1) - d) / (2 * groups)
	if n < 1 || xbc.Dim(-1) != d+2*groups*n {
		shapePanic("SSD", xbc, dt, a, dw)
	}
	checkSlots("SSD", r, slots, d*n)
	return t.engine.SSD(xbc, dt, a, dw, headDim, groups, r, slots)
}

// Recurrence runs a recurrent network over rows u (l, n):
//
//	s[t] = f(u[t] + R s[t-1])
//
// with R (n, n). f is the tanh for the first tanhs components and the identity for the others. y (l, n) holds all s[t].
// A slot (n) holds the state, the last s[t].
func (t *Tape) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	n := u.Dim(-1)
	checkRows("Recurrence", r, u)
	if rw.Len() != n*n || tanhs < 0 || tanhs > n {
		shapePanic("Recurrence", u, rw)
	}
	checkSlots("Recurrence", r, slots, n)
	return t.engine.Recurrence(u, rw, tanhs, r, slots)
}

// RGLRU computes the real-gated linear recurrent unit over rows (Griffin, arXiv:2402.19427, §2.4):
//
//	a[t] = exp(-8·r[t]·softplus(Λ)),   h[t] = a[t]·h[t-1] + √(1 - a[t]²)·i[t]·u[t],   y[t] = h[t]
//
// except that h = i·u at position 0 of a sequence, whatever its state. u and the gates r and i in (0, 1) are (l, d),
// and Λ is (d). A slot (d) holds the state, the last h[t]. The derivative of √x is 1/√max(4x, 1e-6), as in the release.
func (t *Tape) RGLRU(u, r, i, lambda *tensor.Tensor, rows *engine.Rows, slots engine.Slots) *tensor.Tensor {
	checkRows("RGLRU", rows, u, r, i)
	if !r.SameShape(u) || !i.SameShape(u) || lambda.Len() != u.Dim(-1) {
		shapePanic("RGLRU", u, r, i, lambda)
	}
	checkSlots("RGLRU", rows, slots, lambda.Len())
	return t.engine.RGLRU(u, r, i, lambda, rows, slots)
}

// DeltaRule runs a recurrence over rows, for each head, whose matrix is a diagonal matrix plus one of rank one:
//
//	S[t] = (Diag(e^g[t]) + a[t]·b[t]ᵀ)·S[t-1] + k[t]·v[t]ᵀ,   y[t] = S[t]ᵀ·q[t]
//
// in one of the forms of [engine.Delta]. y (l, h·dv). A slot (h, dk, dv) holds the state, S.
func (t *Tape) DeltaRule(x engine.Delta, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	checkRows("DeltaRule", r, x.Inputs()...)
	if !x.Valid() {
		shapePanic("DeltaRule", x.Inputs()...)
	}
	checkSlots("DeltaRule", r, slots, x.Heads*x.KeyDim()*x.ValueDim())
	return t.engine.DeltaRule(x, r, slots)
}

// MLSTM runs the matrix memory of xLSTM over rows (arXiv:2405.04517, §2.3), for each head:
//
//	C[t] = ā[t]·C[t-1] + ī[t]·k[t]·v[t]ᵀ,   n[t] = ā[t]·n[t-1] + ī[t]·k[t]
//	y[t] = C[t]ᵀ·q[t] / (max(|n[t]·q[t]|, e^-m[t]) + ε)
//
// with the gates of [engine.MLSTM]. y (l, h·dv). The slots hold the state: C (h, dk, dv), n (h, dk) and m (h).
func (t *Tape) MLSTM(x engine.MLSTM, r *engine.Rows, slots engine.MLSTMSlots) *tensor.Tensor {
	checkRows("MLSTM", r, x.Inputs()...)
	if !x.Valid() {
		shapePanic("MLSTM", x.Inputs()...)
	}
	keys := x.Heads * x.KeyDim()
	checkSlots("MLSTM", r, slots.C, keys*x.ValueDim())
	checkSlots("MLSTM", r, slots.N, keys)
	checkSlots("MLSTM", r, slots.M, x.Heads)
	return t.engine.MLSTM(x, r, slots)
}

// Trapezoid runs Mamba-3's scan over rows, for each head, with sums over ranks r:
//
//	S[t] = α[t]·S[t-1] + (1-λ[t])·dt[t]·α[t]·Σ_r k_r[t-1]·v_r[t-1]ᵀ + λ[t]·dt[t]·Σ_r k_r[t]·v_r[t]ᵀ,   α = e^(A·dt)
//	y_r[t] = S[t]ᵀ·q_r[t] + D·v_r[t]
//
// with the shapes of [engine.Trapezoid]. y (l, R·h·p). The slots hold the state: S (h, n, p), and k (R, h, n) and v (R,
// h, p) of the last position.
func (t *Tape) Trapezoid(x engine.Trapezoid, r *engine.Rows, slots engine.TrapezoidSlots) *tensor.Tensor {
	checkRows("Trapezoid", r, x.Along()...)
	if !x.Valid() {
		shapePanic("Trapezoid", append(x.Along(), x.D)...)
	}
	keys, values := x.Heads*x.KeyDim(), x.Heads*x.ValueDim()
	checkSlots("Trapezoid", r, slots.S, keys*x.ValueDim())
	checkSlots("Trapezoid", r, slots.K, x.Ranks*keys)
	checkSlots("Trapezoid", r, slots.V, x.Ranks*values)
	return t.engine.Trapezoid(x, r, slots)
}

// Phase sums angles along rows, φ[t] = φ[t-1] + dt[t]·ω[t] mod 2π, for each head and each of a rates ω (l, a), with dt
// (l, h) and y (l, h·a). A slot (h, a) holds the state, the last angles.
func (t *Tape) Phase(rates, dt *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	checkRows("Phase", r, rates, dt)
	checkSlots("Phase", r, slots, rates.Dim(-1)*dt.Dim(-1))
	return t.engine.Phase(rates, dt, r, slots)
}

// SLSTM runs the scalar memory of xLSTM over rows (arXiv:2405.04517, §2.2). Its recurrence includes its outputs:
//
//	(i, f, z, o) = W·x[t] + R·y[t-1] + b
//	c[t] = ā·c[t-1] + ī·tanh(z),   n[t] = ā·n[t-1] + ī,   y[t] = σ(o)·c[t]/n[t]
//
// with the gates of [engine.SLSTM]. y (l, d). The slots hold the state, (d) each: y, c, n and m.
func (t *Tape) SLSTM(x engine.SLSTM, r *engine.Rows, slots engine.SLSTMSlots) *tensor.Tensor {
	checkRows("SLSTM", r, x.X)
	if !x.Valid() {
		shapePanic("SLSTM", x.Inputs()...)
	}
	for _, s := range slots.All() {
		checkSlots("SLSTM", r, s, x.X.Dim(-1))
	}
	return t.engine.SLSTM(x, r, slots)
}

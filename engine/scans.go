package engine

import "github.com/hippo-ssm/hippo/tensor"

// Scans are recurrences whose coefficients depend on the input, and recurrent networks.
type Scans interface {
	// SelectiveScan computes h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t] and returns y[t] = Σ_n C[t]·h[t] + D·u[t]; u, Δ
	// (l, d), A (d, n), D (d), bc (l, 2·g·n) B and then C of g groups of channels, slots (d, n).
	SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *Rows, slots Slots) *tensor.Tensor
	// SelectiveScanComplex is SelectiveScan with y[t] = 2 Re Σ_n C[t]·h[t] + D·u[t]; A (d, n, 2), bc (l, 4·g·n),
	// slots (d, n, 2).
	SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *Rows, slots Slots) *tensor.Tensor
	// SSD computes h[t] = exp(dt[t]·A)·h[t-1] + dt[t]·x[t]·B[t]ᵀ and returns y[t] = h[t]·C[t] + D·x[t] for each head of
	// headDim channels; xbc (l, d + 2·g·n) x, then B and C of g groups, dt (l, h), A, D (h), slots (h, headDim, n).
	SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *Rows, slots Slots) *tensor.Tensor
	// DeltaRule computes S[t] = (Diag(e^g[t]) + a[t]·b[t]ᵀ)·S[t-1] + k[t]·v[t]ᵀ and returns y[t] = S[t]ᵀ·q[t] for each
	// head; slots (h, dk, dv).
	DeltaRule(x Delta, r *Rows, slots Slots) *tensor.Tensor
	// MLSTM computes C[t] = e^(f[t]+m[t-1]-m[t])·C[t-1] + e^(i[t]-m[t])·k[t]·v[t]ᵀ, n[t] likewise from k[t], and m[t] =
	// max(f[t] + m[t-1], i[t]). It returns y[t] = C[t]ᵀ·q[t]/(max(|n[t]·q[t]|, e^-m[t]) + ε) for each head.
	MLSTM(x MLSTM, r *Rows, slots MLSTMSlots) *tensor.Tensor
	// Trapezoid computes S[t] = α[t]·S[t-1] + (1-λ[t])·dt[t]·α[t]·k[t-1]·v[t-1]ᵀ + λ[t]·dt[t]·k[t]·v[t]ᵀ, α = e^(A·dt),
	// and returns y[t] = S[t]ᵀ·q[t] + D·v[t] for each head, with sums over ranks.
	Trapezoid(x Trapezoid, r *Rows, slots TrapezoidSlots) *tensor.Tensor
	// Phase returns φ[t] = φ[t-1] + dt[t]·ω[t] mod 2π for each head and each rate; rates ω (l, a), dt (l, h), y (l,
	// h·a), slots (h, a).
	Phase(rates, dt *tensor.Tensor, r *Rows, slots Slots) *tensor.Tensor
	// Recurrence returns s[t] = f(u[t] + R s[t-1]), where f is the tanh of the first tanhs components; u (l, n), R (n,
	// n), slots (n).
	Recurrence(u, rw *tensor.Tensor, tanhs int, r *Rows, slots Slots) *tensor.Tensor
	// SLSTM computes (i, f, z, o) = W·x[t] + R·y[t-1] + b, c[t] = e^(f'+m[t-1]-m[t])·c[t-1] + e^(i-m[t])·tanh(z), n[t]
	// likewise from 1, and m[t] = max(f' + m[t-1], i), with f' = log σ(min(f, 15)). It returns y[t] = σ(o)·c[t]/n[t].
	SLSTM(x SLSTM, r *Rows, slots SLSTMSlots) *tensor.Tensor
	// RGLRU computes a[t] = exp(-8·r[t]·softplus(Λ)) and returns h[t] = a[t]·h[t-1] + √(1 - a[t]²)·i[t]·u[t], but h =
	// i·u at position 0 of a sequence; u, r, i (l, d), Λ (d), slots (d). The derivative of √x is taken as 1/√max(4x,
	// RGLRUFloor).
	RGLRU(u, r, i, lambda *tensor.Tensor, rows *Rows, slots Slots) *tensor.Tensor
}

// The constants of RGLRU (Griffin, arXiv:2402.19427, §2.4 and its released code).
const (
	RGLRUPower = 8    // c
	RGLRUFloor = 1e-6 // keeps the gradient finite where a is near 1
)

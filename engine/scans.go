package engine

import "github.com/hippo-ssm/hippo/tensor"

// Scans are recurrences whose coefficients depend on the input, and recurrent networks.
type Scans interface {
	// SelectiveScan: h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t], y[t] = Σ_n C[t]·h[t] + D·u[t]; u, Δ (l, d), A (d, n),
	// D (d), bc (l, 2·g·n) B and then C of g groups of channels, slots (d, n).
	SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *Rows, slots Slots) *tensor.Tensor
	// SelectiveScanComplex is SelectiveScan with y[t] = 2 Re Σ_n C[t]·h[t] + D·u[t]; A (d, n, 2), bc (l, 4·g·n),
	// slots (d, n, 2).
	SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *Rows, slots Slots) *tensor.Tensor
	// SSD: h[t] = exp(dt[t]·A)·h[t-1] + dt[t]·x[t]·B[t]ᵀ, y[t] = h[t]·C[t] + D·x[t] for each head of headDim channels;
	// xbc (l, d + 2·g·n) x, then B and C of g groups, dt (l, h), A, D (h), slots (h, headDim, n).
	SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *Rows, slots Slots) *tensor.Tensor
	// Recurrence: s[t] = f(u[t] + R s[t-1]), y[t] = s[t], f the tanh of the first tanhs components; u (l, n), R (n, n),
	// slots (n).
	Recurrence(u, rw *tensor.Tensor, tanhs int, r *Rows, slots Slots) *tensor.Tensor
}

package ssm

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// SSD is one head of Mamba-2's state-space duality over l steps: a selective model whose A is one number, with p
// channels that share B and C:
//
//	h_t = exp(LogDecay_t) h_{t-1} + x_t B_tᵀ,  y_t = h_t C_t
//
// LogDecay (l) is dt_t A; B and C are (l, n); x (l, p) is the input times dt_t; h is (p, n). Mamba-2, arXiv:2405.21060,
// §3 to 6.
type SSD struct {
	LogDecay []float64
	B, C     [][]float64
}

// Scan steps through x (l, p) from the state h (p, n) and replaces h by the state after x. This is the recurrent form.
func (s *SSD) Scan(h, x [][]float64) (y [][]float64) {
	y = make([][]float64, len(x))
	for t, xt := range x {
		y[t] = make([]float64, len(xt))
		for p, row := range h {
			floats.Scale(math.Exp(s.LogDecay[t]), row)
			floats.AddScaled(row, xt[p], s.B[t])
			y[t][p] = floats.Dot(row, s.C[t])
		}
	}
	return y
}

// Attend returns the y of [SSD.Scan] from a state of zero in the dual form, masked attention without softmax:
//
//	Y = (L ∘ C Bᵀ) X,  L_ts = exp(LogDecay_{s+1} + ... + LogDecay_t) for s ≤ t, otherwise 0
func (s *SSD) Attend(x [][]float64) (y [][]float64) {
	y = make([][]float64, len(x))
	for t := range x {
		y[t] = make([]float64, len(x[t]))
		decay := 0.0
		for r := t; r >= 0; r-- {
			floats.AddScaled(y[t], math.Exp(decay)*floats.Dot(s.C[t], s.B[r]), x[r])
			decay += s.LogDecay[r]
		}
	}
	return y
}

// Chunked returns the same as [SSD.Scan], computed in blocks of at most block steps, by Attend inside a block. The past
// enters only through the state at the start of the block, y_t += exp(LogDecay_from + ... + LogDecay_t) h C_t. §6,
// algorithm 1. It replaces h (p, n) by the state after x. block must be positive.
func (s *SSD) Chunked(h, x [][]float64, block int) (y [][]float64) {
	for from := 0; from < len(x); from += block {
		to := min(from+block, len(x))
		part := &SSD{LogDecay: s.LogDecay[from:to], B: s.B[from:to], C: s.C[from:to]}
		decay := 0.0
		for t, yt := range part.Attend(x[from:to]) {
			decay += part.LogDecay[t]
			for p, row := range h {
				yt[p] += math.Exp(decay) * floats.Dot(row, part.C[t])
			}
			y = append(y, yt)
		}
		for p, row := range h {
			floats.Scale(math.Exp(decay), row)
			rest := decay
			for t, b := range part.B {
				rest -= part.LogDecay[t]
				floats.AddScaled(row, math.Exp(rest)*x[from+t][p], b)
			}
		}
	}
	return y
}

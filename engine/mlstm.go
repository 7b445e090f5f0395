package engine

import "github.com/hippo-ssm/hippo/tensor"

// MLSTM holds the inputs of Scans.MLSTM at l positions of h heads: the matrix memory of xLSTM (arXiv:2405.04517, §2.3)
// with exponential gates, whose exponents are kept small by a stabilizer m,
//
//	m[t] = max(f[t] + m[t-1], i[t]),   ā = e^(f[t]+m[t-1]-m[t]),   ī = e^(i[t]-m[t])
//	C[t] = ā·C[t-1] + ī·k[t]·v[t]ᵀ,   n[t] = ā·n[t-1] + ī·k[t]
//	y[t] = C[t]ᵀ·q[t] / (max(|n[t]·q[t]|, e^-m[t]) + ε)
//
// from C = 0, n = 0, m = 0. Except for ε, m does not change results. i must be finite; an f of -∞ forgets the state.
type MLSTM struct {
	Q, K  *tensor.Tensor // (l, h·dk)
	V     *tensor.Tensor // (l, h·dv)
	I, F  *tensor.Tensor // (l, h): logarithms of the input gates, and of the forget gates
	Heads int
	Eps   float64
}

// KeyDim returns dk, the number of components of a key.
func (x *MLSTM) KeyDim() int { return x.K.Dim(-1) / x.Heads }

// ValueDim returns dv, the number of components of a value.
func (x *MLSTM) ValueDim() int { return x.V.Dim(-1) / x.Heads }

// Inputs returns all tensors.
func (x *MLSTM) Inputs() []*tensor.Tensor { return []*tensor.Tensor{x.Q, x.K, x.V, x.I, x.F} }

// Valid reports whether the shapes fit together.
func (x *MLSTM) Valid() bool {
	return x.Heads > 0 && x.Eps >= 0 && x.Q.SameShape(x.K) && x.K.Dim(-1)%x.Heads == 0 && x.V.Dim(-1)%x.Heads == 0 &&
		x.KeyDim() > 0 && x.ValueDim() > 0 && x.I.Dim(-1) == x.Heads && x.F.Dim(-1) == x.Heads
}

// MLSTMSlots holds the states of MLSTM: C (h, dk, dv), n (h, dk) and m (h).
type MLSTMSlots struct{ C, N, M Slots }

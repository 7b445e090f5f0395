package engine

import "github.com/hippo-ssm/hippo/tensor"

// Trapezoid holds the inputs of Scans.Trapezoid at l positions of h heads: the scan of Mamba-3 (arXiv:2603.15569), a
// state-space model that is discretized by the trapezoid rule. Each position also writes what the previous one wrote:
//
//	S[t] = α[t]·S[t-1] + (1-λ[t])·dt[t]·α[t]·Σ_r k_r[t-1]·v_r[t-1]ᵀ + λ[t]·dt[t]·Σ_r k_r[t]·v_r[t]ᵀ,   α = e^(A·dt)
//	y_r[t] = S[t]ᵀ·q_r[t] + D·v_r[t]
//
// With one rank it has one input and one output, with more it is MIMO: all ranks write to the state and read it. The
// ranks of a position are stored one after the other.
type Trapezoid struct {
	Q, K          *tensor.Tensor // (l, R·h·n)
	V             *tensor.Tensor // (l, R·h·p)
	A, Dt, Lambda *tensor.Tensor // (l, h), A ≤ 0
	D             *tensor.Tensor // (h)
	Heads, Ranks  int
}

// TrapezoidSlots holds the states of Trapezoid: S (h, n, p), and k (R, h, n) and v (R, h, p) of the last position.
type TrapezoidSlots struct{ S, K, V Slots }

// maxRanks is the largest number of ranks of Trapezoid.
const maxRanks = 64

// KeyDim returns n, the number of components of a key.
func (x *Trapezoid) KeyDim() int { return x.K.Dim(-1) / (x.Ranks * x.Heads) }

// ValueDim returns p, the number of components of a value.
func (x *Trapezoid) ValueDim() int { return x.V.Dim(-1) / (x.Ranks * x.Heads) }

// Along returns the tensors along the sequence.
func (x *Trapezoid) Along() []*tensor.Tensor {
	return []*tensor.Tensor{x.Q, x.K, x.V, x.A, x.Dt, x.Lambda}
}

// Valid reports whether the shapes fit together.
func (x *Trapezoid) Valid() bool {
	if x.Heads < 1 || x.Ranks < 1 || x.Ranks > maxRanks || x.D.Len() != x.Heads {
		return false
	}
	all := x.Heads * x.Ranks
	numbers := x.A.Dim(-1) == x.Heads && x.Dt.Dim(-1) == x.Heads && x.Lambda.Dim(-1) == x.Heads
	return numbers && x.Q.SameShape(x.K) && x.K.Dim(-1)%all == 0 && x.V.Dim(-1)%all == 0 && x.KeyDim() > 0 &&
		x.ValueDim() > 0
}

// Turning describes the vectors that Turn rotates: those of Ranks ranks of Groups groups, repeated for the heads of
// each group.
type Turning struct {
	Ranks, Groups, Heads int
	Halves               bool // pair i is the components i and i+n/2, not 2i and 2i+1
}

// Valid reports whether the shapes fit together.
func (by *Turning) Valid(x, bias, phase *tensor.Tensor) bool {
	if by.Ranks < 1 || by.Groups < 1 || by.Heads < 1 || by.Heads%by.Groups != 0 ||
		x.Dim(-1)%(by.Ranks*by.Groups) != 0 || phase.Dim(-1)%by.Heads != 0 {
		return false
	}
	n := by.Dim(x)
	return n > 0 && n%2 == 0 && bias.Len() == by.Ranks*by.Heads*n && phase.Rows() == x.Rows() &&
		phase.Dim(-1)/by.Heads <= n/2
}

// Dim returns n, the number of components of a vector.
func (by *Turning) Dim(x *tensor.Tensor) int { return x.Dim(-1) / (by.Ranks * by.Groups) }

// Pair returns the indices of the components of pair i of a vector of n.
func (by *Turning) Pair(i, n int) (a, b int) {
	if by.Halves {
		return i, i + n/2
	}
	return 2 * i, 2*i + 1
}

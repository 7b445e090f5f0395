package engine

import "github.com/hippo-ssm/hippo/tensor"

// Delta holds the inputs of DeltaRule at l positions: a linear recurrence whose matrix is a diagonal plus one of
// rank one, for each of h heads. Its state S (dk, dv) maps keys to values:
//
//	S[t] = (Diag(e^g[t]) + a[t]·b[t]ᵀ)·S[t-1] + k[t]·v[t]ᵀ,   y[t] = S[t]ᵀ·q[t]
//
// There are three forms. With Beta it is the gated delta rule (arXiv:2412.06464, §3): the value that the decayed state
// has for the key is replaced, in part, by a new one,
//
//	S' = Diag(e^g)·S[t-1],   S[t] = S' + β·k·(v - S'ᵀ·k)ᵀ
//
// which is a = -β·k, b = e^g ⊙ k, and β·v for v. With A and B these are free (RWKV-7, arXiv:2503.14456, §3). With
// neither, nothing is erased: linear attention with decay (arXiv:2312.06635).
//
// A g of -∞, so that e^g = 0, forgets the whole state, even one that is not finite.
type Delta struct {
	Q, K *tensor.Tensor // (l, hk·dk): of hk key heads; head i uses key head i/(h/hk)
	V    *tensor.Tensor // (l, h·dv)
	G    *tensor.Tensor // (l, h) or (l, h·dk): logarithms of the decays, ≤ 0, for each head or each row of its state
	Beta *tensor.Tensor // (l, h), or nil
	A, B *tensor.Tensor // (l, h·dk), or nil

	Heads, KeyHeads int // h and hk
}

// KeyDim returns dk, the number of components of a key.
func (x *Delta) KeyDim() int { return x.K.Dim(-1) / x.KeyHeads }

// ValueDim returns dv, the number of components of a value.
func (x *Delta) ValueDim() int { return x.V.Dim(-1) / x.Heads }

// KeyHead returns the head of the queries and keys that head h uses.
func (x *Delta) KeyHead(h int) int { return h / (x.Heads / x.KeyHeads) }

// ByRow reports whether each row of a state has its own decay.
func (x *Delta) ByRow() bool { return x.G.Dim(-1) != x.Heads }

// Inputs returns the tensors that are not nil.
func (x *Delta) Inputs() []*tensor.Tensor {
	all := []*tensor.Tensor{x.Q, x.K, x.V, x.G}
	for _, v := range []*tensor.Tensor{x.Beta, x.A, x.B} {
		if v != nil {
			all = append(all, v)
		}
	}
	return all
}

// Valid reports whether the shapes fit together.
func (x *Delta) Valid() bool {
	if x.Heads < 1 || x.KeyHeads < 1 || x.Heads%x.KeyHeads != 0 || x.K.Dim(-1)%x.KeyHeads != 0 ||
		x.V.Dim(-1)%x.Heads != 0 || x.KeyDim() < 1 || x.ValueDim() < 1 {
		return false
	}
	wide := x.Heads * x.KeyDim()
	free := x.A != nil && x.B != nil && x.Beta == nil && x.A.Dim(-1) == wide && x.B.Dim(-1) == wide
	gated := x.A == nil && x.B == nil && (x.Beta == nil || x.Beta.Dim(-1) == x.Heads)
	return x.Q.SameShape(x.K) && (x.G.Dim(-1) == x.Heads || x.G.Dim(-1) == wide) && (free || gated)
}

package engine

import "github.com/hippo-ssm/hippo/tensor"

// SLSTM holds the inputs of Scans.SLSTM at l positions of d channels in heads: the scalar memory of xLSTM
// (arXiv:2405.04517, §2.2) with exponential gates and a recurrence through its outputs,
//
//	(i, f, z, o) = W·x[t] + R·y[t-1] + b,   f' = log σ(min(f, 15))
//	m[t] = max(f' + m[t-1], i),   ā = e^(f'+m[t-1]-m[t]),   ī = e^(i-m[t])
//	c[t] = ā·c[t-1] + ī·tanh(z),   n[t] = ā·n[t-1] + ī,   y[t] = σ(o)·c[t]/n[t]
//
// for each channel, except that W and R have a block for each head. At the first position of a sequence, where n is all
// zero, m[t] is always i.
type SLSTM struct {
	X    *tensor.Tensor    // (l, d)
	W    [4]*tensor.Tensor // of i, f, z and o: (heads, d/heads, d/heads), a row for each output
	R    *tensor.Tensor    // (heads, d/heads, 4·d/heads): a row for each input, the columns of i, f, z and o
	Bias *tensor.Tensor    // (heads, 4, d/heads)

	Heads int
}

// SLSTMForgets is the largest forget gate before its sigmoid.
const SLSTMForgets = 15

// HeadDim returns the number of channels of a head.
func (x *SLSTM) HeadDim() int { return x.X.Dim(-1) / x.Heads }

// Inputs returns all tensors.
func (x *SLSTM) Inputs() []*tensor.Tensor {
	return []*tensor.Tensor{x.X, x.W[0], x.W[1], x.W[2], x.W[3], x.R, x.Bias}
}

// Valid reports whether the shapes fit together.
func (x *SLSTM) Valid() bool {
	d := x.X.Dim(-1)
	if x.Heads < 1 || d%x.Heads != 0 || x.R.Len() != 4*d*d/x.Heads || x.Bias.Len() != 4*d {
		return false
	}
	for _, w := range x.W {
		if w.Len() != d*d/x.Heads {
			return false
		}
	}
	return true
}

// SLSTMSlots holds the states of SLSTM, (d) each: the last output, c, n and m.
type SLSTMSlots struct{ Y, C, N, M Slots }

// All returns the four slots.
func (s SLSTMSlots) All() [4]Slots { return [4]Slots{s.Y, s.C, s.N, s.M} }

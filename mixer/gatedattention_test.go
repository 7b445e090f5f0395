package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
)

// plusOneNormOf returns the function x/√(mean(x²)+eps)·(1 + w).
func plusOneNormOf(n *nn.RMSNorm) func(x []float64) []float64 {
	w := read(n.Weight.Tensor)
	return func(x []float64) []float64 {
		size := math.Sqrt(dotOf(x, x)/float64(len(x)) + n.Eps)
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = v / size * (1 + float64(w[i]))
		}
		return y
	}
}

// turnedBy returns x with its first dim components rotated for a position, in pairs of the two halves.
func turnedBy(x []float64, position, dim int, base float64) []float64 {
	y, half := append([]float64(nil), x...), dim/2
	for i := range half {
		sin, cos := math.Sincos(float64(position) * math.Pow(base, -float64(2*i)/float64(dim)))
		y[i], y[half+i] = x[i]*cos-x[half+i]*sin, x[half+i]*cos+x[i]*sin
	}
	return y
}

// TestGatedAttentionFormula compares the mixer with the formula as in Qwen3-Next and Qwen3.5. W_q maps to a query and a
// gate for each head; queries and keys are normalized by 1 + w, then a quarter of them is rotated; two heads share keys
// and values; the sigmoid of the gate multiplies a head's output.
func TestGatedAttentionFormula(t *testing.T) {
	golden.Of(t, "gated-attention")
	const heads, kv, hd, rotary, base = 4, 2, 8, 2, 1e7
	m := variant{build: GatedAttentionInfo.New, cfg: Config{NumHeads: heads, RotaryDim: rotary, Options: Options{
		"kv_heads": "2", "head_dim": "8", "rotary_base": "1e7", "bias": "true"}}}.mixer(t).(*Attention)
	m.QNorm.Weight.CopyFrom([]float32{0.5, -0.3, 0.2, 1, -0.7, 0.1, 0.4, -0.2})
	m.KNorm.Weight.CopyFrom([]float32{-0.1, 0.6, 0.3, -0.4, 0.8, -0.6, 0.2, 0.9})
	qNorm, kNorm := plusOneNormOf(m.QNorm), plusOneNormOf(m.KNorm)
	checkFormula(t, m, 70, func(u matrix) matrix {
		all := u.each(affine(m.Wqkv))
		out := make(matrix, len(u))
		for h := range heads {
			pair, g := 2*h*hd, h/(heads/kv)
			first := 2*heads*hd + g*hd
			q, gate := all.columns(pair, pair+hd).each(qNorm), all.columns(pair+hd, pair+2*hd)
			k, v := all.columns(first, first+hd).each(kNorm), all.columns(first+kv*hd, first+(kv+1)*hd)
			for i := range u {
				q[i], k[i] = turnedBy(q[i], i, rotary, base), turnedBy(k[i], i, rotary, base)
				y := attended(q[i], k[:i+1], v[:i+1], 1)
				for c := range y {
					y[c] /= 1 + math.Exp(-gate[i][c])
				}
				out[i] = append(out[i], y...)
			}
		}
		return out.each(affine(m.Out))
	})
}

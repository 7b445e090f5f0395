package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// TestDeltaNet compares the mixer with the recurrence of the paper (arXiv:2406.06484, §2.2) in float64, computed step
// by step, with two heads of values for each head of keys and a β of up to 2.
func TestDeltaNet(t *testing.T) {
	golden.Of(t, "deltanet")
	const keyHeads, heads, dk, dv, taps = 2, 4, 3, 5, 3
	m := variant{build: DeltaNetInfo.New, cfg: Config{Options: Options{"num_k_heads": "2", "num_v_heads": "4",
		"head_k_dim": "3", "head_v_dim": "5", "d_conv": "3", "allow_neg_eigval": "true"}}}.mixer(t).(*DeltaNet)
	norm, filter := wide(read(m.Norm.Weight.Tensor)), wide(read(m.Conv.weight.Tensor))
	checkFormula(t, m, 70, func(u matrix) matrix {
		in, beta := u.each(affine(m.QKV)), u.each(affine(m.B)).each(pointwise(sigmoidOf))
		S := [heads][dk][dv]float64{}
		var out matrix
		for i := range u {
			x := make([]float64, len(in[i]))
			for c := range x {
				for j := range taps {
					if at := i - taps + 1 + j; at >= 0 {
						x[c] += filter[c*taps+j] * in[at][c]
					}
				}
			}
			x = siluOf(x)
			y := make([]float64, heads*dv)
			for h := range heads {
				of := h / (heads / keyHeads) * dk
				q, k, v := unitOf(x[of:][:dk]), unitOf(x[keyHeads*dk+of:][:dk]), x[2*keyHeads*dk+h*dv:][:dv]
				o := y[h*dv:][:dv]
				for j := range dv {
					held := 0.0
					for c := range dk {
						held += S[h][c][j] * k[c]
					}
					for c := range dk {
						S[h][c][j] += 2 * beta[i][h] * k[c] * (v[j] - held)
						o[j] += S[h][c][j] * q[c] / math.Sqrt(dk)
					}
				}
				size := math.Sqrt(dotOf(o, o)/dv + m.Norm.Eps)
				for j := range o {
					o[j] *= norm[j] / size
				}
			}
			out = append(out, affine(m.Out)(y))
		}
		return out
	})
}

// unitOf returns x/√(x·x + 1e-6).
func unitOf(x []float64) []float64 {
	return pointwise(func(v float64) float64 { return v / math.Sqrt(dotOf(x, x)+1e-6) })(x)
}

func sigmoidOf(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

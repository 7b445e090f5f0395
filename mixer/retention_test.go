package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// rotated is x turned to a position: pairs of its two halves by the angle position·10000^(-2i/len(x)).
func rotated(x []float64, position int) []float64 {
	half := len(x) / 2
	y := make([]float64, len(x))
	for i := range half {
		sin, cos := math.Sincos(float64(position) * math.Pow(10000, -float64(i)/float64(half)))
		y[i], y[half+i] = x[i]*cos-x[half+i]*sin, x[i]*sin+x[half+i]*cos
	}
	return y
}

// TestRetention compares the mixer with the parallel form of the paper (arXiv:2307.08621, equation 5) in float64:
// o = (Q Kᵀ ⊙ D) V with Q and K rotated to their positions and D[t,s] = γ^(t-s) for s ≤ t.
func TestRetention(t *testing.T) {
	golden.Of(t, "retention")
	const heads, hd, d = 2, dModel / 2, dModel
	m := variant{build: RetentionInfo.New, cfg: Config{NumHeads: heads}}.mixer(t).(*Retention)
	norm := read(m.Norm.Weight.Tensor)
	checkFormula(t, m, 70, func(u matrix) matrix {
		p := u.each(affine(m.In))
		gate, v, k, q := p.columns(0, d).each(siluOf), p.columns(d, 2*d), p.columns(2*d, 3*d), p.columns(3*d, 4*d)
		y := make(matrix, len(u))
		for i := range u {
			y[i] = make([]float64, d)
			for h := range heads {
				gamma, at := 1-math.Exp2(float64(-5-h)), h*hd
				o := make([]float64, hd)
				for j := range i + 1 {
					score := dotOf(rotated(q[i][at:at+hd], i), rotated(k[j][at:at+hd], j)) / math.Sqrt(hd)
					for c := range o {
						o[c] += score * math.Pow(gamma, float64(i-j)) * v[j][at+c]
					}
				}
				size := math.Sqrt(dotOf(o, o)/hd + float64(m.Norm.Eps))
				for c := range o {
					y[i][at+c] = o[c] / size * float64(norm[at+c]) * gate[i][at+c]
				}
			}
		}
		return y.each(affine(m.Out))
	})
	if _, err := RetentionInfo.New(Config{DModel: 98, NumHeads: 49}); err == nil {
		t.Error("49 heads, the last of which would not forget: no error")
	}
}

// TestRetentionLongState: after thousands of single steps, each of which turns the state, it is that of the whole
// sequence.
func TestRetentionLongState(t *testing.T) {
	const l = 4000
	m := variant{build: RetentionInfo.New, cfg: Config{NumHeads: 2}}.mixer(t)
	u := sequences(5, 1, l)
	whole, want := chunked(m, u, []int{l}, never)
	lengths := make([]int, l)
	for i := range lengths {
		lengths[i] = 1
	}
	steps, got := chunked(m, u, lengths, never)
	near(t, "y", steps, whole, 1e-5)
	nearStates(t, got, want, 1e-5)
}

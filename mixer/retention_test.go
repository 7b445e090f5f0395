package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
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

// TestRetentionAsPublished compares the mixer with the parallel form of the authors' code (torchscale, retention.py) in
// float64: neighbors are pairs; D is divided by the roots of its sums, and scores by their sums where these are above
// 1; the norm of a head has no weights.
func TestRetentionAsPublished(t *testing.T) {
	const heads, hd, d, wide = 2, 6, 12, 24
	m, err := RetentionInfo.New(Config{DModel: d, NumHeads: heads, NLayer: 1, Options: Options{"published": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(m, "", 1)
	r, l := m.(*Retention), 50
	u := tensor.New(l, d)
	for i := range u.Data() {
		u.Data()[i] = float32(3 * math.Sin(float64(i*i%101)))
	}
	turned := func(x []float64, position int) []float64 { // θ = 10000^(-linspace(0, 1, head_dim/2))
		y := make([]float64, hd)
		for i := range hd / 2 {
			a, b := x[i], x[hd/2+i] // neighbors there, for other rows of W_q and W_k
			sin, cos := math.Sincos(float64(position) * math.Pow(10000, -float64(i)/float64(hd/2-1)))
			y[2*i], y[2*i+1] = a*cos-b*sin, b*cos+a*sin
		}
		return y
	}
	p := rowsFrom(u.Data(), d).each(affine(r.In))
	gate, v, k, q := p.columns(0, wide).each(siluOf), p.columns(wide, 2*wide), p.columns(2*wide, 2*wide+d),
		p.columns(2*wide+d, 2*wide+2*d)
	y := make(matrix, l)
	for i := range y {
		for h := range heads {
			gamma, mask, total := 1-math.Exp2(float64(-5-h)), 0.0, 0.0
			scores := make([]float64, i+1)
			for j := range scores {
				mask += math.Pow(gamma, float64(i-j))
			}
			for j := range scores {
				scores[j] = dotOf(turned(q[i][h*hd:][:hd], i), turned(k[j][h*hd:][:hd], j)) / math.Sqrt(hd) *
					math.Pow(gamma, float64(i-j)) / math.Sqrt(mask)
				total += scores[j]
			}
			o := make([]float64, wide/heads)
			for j, s := range scores {
				for c := range o {
					o[c] += s / max(1, math.Abs(total)) * v[j][h*wide/heads+c]
				}
			}
			size := math.Sqrt(dotOf(o, o) / float64(len(o)))
			for c, x := range o {
				y[i] = append(y[i], x/size*gate[i][h*wide/heads+c])
			}
		}
	}
	// The mixer's norm adds 1e-6 to a mean square that is no smaller than about 0.01 here.
	golden.Close(t, "y", read(m.Forward(newTape(), u, equalRows(1, l))), y.each(affine(r.Out)).flat(), 2e-4)
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

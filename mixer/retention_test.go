package mixer

import (
	"math"
	"math/cmplx"
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

// TestRetention compares the mixer, with every option, with the recurrence of the paper (arXiv:2307.08621, equations 1
// to 4) in float64 and complex numbers, where no position is rotated but the state is turned at each step: of a head,
// S_t = γ e^(iθ) S_{t-1} + k̄_t v_tᵀ and o_t = Re S_tᵀ q_t.
func TestRetention(t *testing.T) {
	golden.Of(t, "retention")
	const d = dModel
	for _, heads := range []int{1, 2, 4, 8} {
		for _, published := range []string{"false", "true"} {
			cfg := Config{NumHeads: heads, Options: Options{"published": published}}
			m := variant{build: RetentionInfo.New, cfg: cfg}.mixer(t).(*Retention)
			norm, wide, hd := read(m.Norm.Weight.Tensor), d, d/heads
			if published == "true" {
				wide = 2 * d
			}
			turn := func(i int) complex128 { // e^(iθ) of pair i; head_dim 1 has a number that is no pair
				pairs := float64(hd / 2)
				switch {
				case pairs == 0:
					return 1
				case published == "true" && pairs > 1: // 10000^(-linspace(0, 1, head_dim/2)), torchscale's retnet.py
					pairs--
				}
				return cmplx.Exp(complex(0, math.Pow(10000, -float64(i)/pairs)))
			}
			pairsOf := func(x []float64) []complex128 { // of the two halves
				if len(x) == 1 {
					return []complex128{complex(x[0], 0)}
				}
				z := make([]complex128, hd/2)
				for i := range z {
					z[i] = complex(x[i], x[hd/2+i])
				}
				return z
			}
			checkFormula(t, m, 150, func(u matrix) matrix {
				p := u.each(affine(m.In))
				gate, v, k, q := p.columns(0, wide).each(siluOf), p.columns(wide, 2*wide),
					p.columns(2*wide, 2*wide+d), p.columns(2*wide+d, 2*wide+2*d)
				y := make(matrix, len(u))
				for h := range heads {
					gamma, w, from := 1-math.Exp2(float64(-5-h)), wide/heads, h*wide/heads
					s := make([][]complex128, max(1, hd/2)) // (pairs, values)
					for i := range s {
						s[i] = make([]complex128, w)
					}
					for n := range u {
						o, key, query := make([]float64, w), pairsOf(k[n][h*hd:][:hd]), pairsOf(q[n][h*hd:][:hd])
						for i := range s {
							for c := range w {
								s[i][c] = complex(gamma, 0)*turn(i)*s[i][c] +
									cmplx.Conj(key[i])*complex(v[n][from+c]/math.Sqrt(float64(hd)), 0)
								o[c] += real(query[i] * s[i][c])
							}
						}
						size := math.Sqrt(dotOf(o, o)/float64(w) + float64(m.Norm.Eps))
						for c, x := range o {
							y[n] = append(y[n], x/size*float64(norm[from+c])*gate[n][from+c])
						}
					}
				}
				return y.each(affine(m.Out))
			})
		}
	}
	if _, err := RetentionInfo.New(Config{DModel: 98, NumHeads: 49}); err == nil {
		t.Error("49 heads, the last of which would not forget: no error")
	}
}

// TestRetentionAsPublished compares the mixer with the parallel form of the authors' code (torchscale,
// multiscale_retention.py and retnet.py at 05a9628) in float64: neighbors are pairs; D is divided by the roots of its
// sums, and scores by their sums where these are above 1; the norm of a head has no weights.
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

package mixer

import (
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// rotated returns x rotated for a position: pairs of its two halves by the angle position·10000^(-2i/len(x)).
func rotated(x []float64, position int) []float64 {
	half := len(x) / 2
	y := make([]float64, len(x))
	for i := range half {
		sin, cos := math.Sincos(float64(position) * math.Pow(10000, -float64(i)/float64(half)))
		y[i], y[half+i] = x[i]*cos-x[half+i]*sin, x[i]*sin+x[half+i]*cos
	}
	return y
}

// TestRetention compares the mixer, with every option, with the paper's recurrence (arXiv:2307.08621, equations 1 to 4)
// in float64 and complex numbers. There the positions are not rotated, but the state of a head is at each step: S_t = γ
// e^(iθ) S_{t-1} + k̄_t v_tᵀ and o_t = Re S_tᵀ q_t.
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
			turn := func(i int) complex128 { // e^(iθ) of pair i; with head_dim 1 there is a number without a pair
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

// TestGoldenRetention compares with the authors' layer: whole with gradients, in chunks and position by position. Its
// forms scale values before normalization differently, which makes no difference except for ε: that of these cases is
// 1e-12.
func TestGoldenRetention(t *testing.T) {
	golden.Run(t, "14_retention_layer", func(t *testing.T, c golden.Case) {
		var cfg struct {
			DModel   int `json:"d_model"`
			NumHeads int `json:"num_heads"`
			Chunk    int
			Eps      float64
		}
		c.Config(&cfg)
		m, err := RetentionInfo.New(Config{DModel: cfg.DModel, NumHeads: cfg.NumHeads, NLayer: 1,
			Options: Options{"published": "true"}})
		if err != nil {
			t.Fatal(err)
		}
		r, s, d, half := m.(*Retention), c.Shape("in/x"), cfg.DModel, cfg.DModel/cfg.NumHeads/2
		halved := func(x []float64) (out []float64) { // converts rows paired with neighbors to the halves of a head
			for row := range d {
				head, part, i := row/(2*half), row/half%2, row%half
				out = append(out, x[(head*2*half+2*i+part)*d:][:d]...)
			}
			return out
		}
		in := func(of string) []float64 {
			return slices.Concat(c.F64(of+"g_proj.weight"), c.F64(of+"v_proj.weight"),
				halved(c.F64(of+"k_proj.weight")), halved(c.F64(of+"q_proj.weight")))
		}
		nn.InitAll(m, "", 1) // the norm's weights: ones
		r.Norm.Eps = cfg.Eps
		r.In.Weight.CopyFrom(narrow(in("param/")))
		r.Out.Weight.CopyFrom(c.F32("param/out_proj.weight"))
		const tol = 2e-5
		x, tape := leaf(c.F32("in/x"), s[0]*s[1], d), recording()
		y := m.Forward(tape, x, equalRows(s[0], s[1]))
		golden.Close(t, "y", read(y), c.F64("out/y"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of x", gradient(tape, x), c.F64("grad/in/x"), tol)
		golden.Close(t, "gradient of In", gradient(tape, r.In.Weight.Tensor), in("grad/"), tol)
		golden.Close(t, "gradient of Out", gradient(tape, r.Out.Weight.Tensor), c.F64("grad/out_proj.weight"), tol)
		for form, n := range map[string]int{"out/y_chunkwise": cfg.Chunk, "out/y_recurrent": 1} {
			st, tape := begin(m, s[0]), newTape()
			for lo := 0; lo < s[1]; lo += n {
				u := tensor.FromSlice(positionsOf(c.F32("in/x"), s, lo, lo+n), s[0]*n, d)
				golden.Close(t, form, read(st.forward(tape, u)), positionsOf(c.F64(form), s, lo, lo+n), tol)
			}
		}
	})
}

// TestRetentionLongState checks that after thousands of single steps, each of which rotates the state, it equals that
// of the whole sequence.
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

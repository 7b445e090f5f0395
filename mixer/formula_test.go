package mixer

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// formulaTol allows for some tens of rounding errors in float32 against float64.
const formulaTol = 3e-6

// matrix is a list of rows in float64, for formulas written as in papers.
type matrix [][]float64

// rowsFrom cuts x into rows of d.
func rowsFrom(x []float32, d int) matrix {
	var m matrix
	for ; len(x) > 0; x = x[d:] {
		m = append(m, wide(x[:d]))
	}
	return m
}

func (m matrix) flat() []float64 {
	var out []float64
	for _, row := range m {
		out = append(out, row...)
	}
	return out
}

// each returns f of every row.
func (m matrix) each(f func(row []float64) []float64) matrix {
	out := make(matrix, len(m))
	for i, row := range m {
		out[i] = f(row)
	}
	return out
}

// columns returns the columns [from, to) of every row.
func (m matrix) columns(from, to int) matrix {
	return m.each(func(row []float64) []float64 { return row[from:to] })
}

// affine returns the function W x + b of a layer, without its activation.
func affine(l *nn.Linear) func(x []float64) []float64 {
	w, b := read(l.Weight.Tensor), []float32(nil)
	if l.Bias != nil {
		b = read(l.Bias.Tensor)
	}
	return func(x []float64) []float64 {
		y := make([]float64, len(w)/len(x))
		for r := range y {
			if b != nil {
				y[r] = float64(b[r])
			}
			for i, v := range x {
				y[r] += float64(w[r*len(x)+i]) * v
			}
		}
		return y
	}
}

// pointwise returns a function that applies f to every component.
func pointwise(f func(float64) float64) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = f(v)
		}
		return y
	}
}

var (
	siluOf = pointwise(func(x float64) float64 { return x / (1 + math.Exp(-x)) })
	geluOf = pointwise(func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) })
)

// layerNormOf returns n's function of a row.
func layerNormOf(n *nn.LayerNorm) func(x []float64) []float64 {
	w, b := read(n.Weight.Tensor), read(n.Bias.Tensor)
	return func(x []float64) []float64 {
		mean, square := 0.0, 0.0
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			square += (v - mean) * (v - mean) / float64(len(x))
		}
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = (v-mean)/math.Sqrt(square+float64(n.Eps))*float64(w[i]) + float64(b[i])
		}
		return y
	}
}

// dotOf returns a·b.
func dotOf(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// attended returns softmax attention of one query over keys and values in heads.
func attended(q []float64, k, v matrix, heads int) []float64 {
	hd := len(q) / heads
	y := make([]float64, len(q))
	for h := range heads {
		at, sum := h*hd, 0.0
		weights := make([]float64, len(k))
		for j := range k {
			weights[j] = math.Exp(dotOf(q[at:at+hd], k[j][at:at+hd]) / math.Sqrt(float64(hd)))
			sum += weights[j]
		}
		for j, w := range weights {
			for c := range hd {
				y[at+c] += w / sum * v[j][at+c]
			}
		}
	}
	return y
}

// checkFormula compares a mixer's outputs with a formula of one sequence u (l, d), in float64.
func checkFormula(t *testing.T, m Mixer, l int, formula func(u matrix) matrix) {
	t.Helper()
	u := sequences(3, 2, l)
	var want []float64
	for b := range 2 {
		want = append(want, formula(rowsFrom(u.Data()[b*l*dModel:(b+1)*l*dModel], dModel)).flat()...)
	}
	golden.Close(t, "y", read(m.Forward(newTape(), u, equalRows(2, l))), want, formulaTol)
	recorded := recording()
	golden.Close(t, "y, recorded", read(m.Forward(recorded, u, equalRows(2, l))), want, formulaTol)
	steps, _ := chunked(m, u, append([]int{l - 3}, 1, 1, 1), never)
	golden.Close(t, "y, the last positions one by one", steps, want, formulaTol)
}

// TestGMLPFormula compares both forms with y = V( z₁ ⊙ (W norm(z₂) + b) ), z = gelu(U u), W lower triangular.
func TestGMLPFormula(t *testing.T) {
	golden.Of(t, "gmlp")
	for _, split := range []string{"true", "false"} {
		o := Options{"expand": "2", "split": split, "l_max": "90"}
		m := variant{build: GMLPInfo.New, cfg: Config{Options: o}}.mixer(t).(*GMLP)
		w, b := rowsFrom(read(m.W.Tensor), 90), read(m.B.Tensor)
		checkFormula(t, m, 70, func(u matrix) matrix {
			z1 := u.each(affine(m.U1)).each(geluOf)
			z2 := z1
			if m.U2 != nil {
				z2 = u.each(affine(m.U2)).each(geluOf)
			}
			z2 = z2.each(layerNormOf(m.Norm))
			gated := make(matrix, len(u))
			for i := range u {
				gated[i] = make([]float64, len(z1[i]))
				for c := range gated[i] {
					gate := float64(b[i])
					for j := range i + 1 {
						gate += w[i][j] * z2[j][c]
					}
					gated[i][c] = z1[i][c] * gate
				}
			}
			return gated.each(affine(m.V))
		})
	}
}

// TestGAUFormula compares the forms with y = W_o( silu(W_u x) ⊙ A silu(W_v x) ), A_ij = relu(q_i·k_j/√s + bias)² /
// (i+1). The linear form sums k' vᵀ. The mixed form does so over earlier chunks, and counts positions from the
// beginning of a chunk within it.
func TestGAUFormula(t *testing.T) {
	golden.Of(t, "gau")
	for _, form := range []string{"quadratic", "linear", "mixed"} {
		const chunk = 9
		m := variant{build: GAUInfo.New, cfg: Config{Options: Options{"query_dim": "6", "max_distance": "9",
			"form": form, "chunk": "9"}}}.mixer(t).(*GAU)
		away(m.GammaQ, m.BetaQ, m.GammaK, m.BetaK, m.LinearGammaQ, m.LinearBetaQ, m.LinearGammaK, m.LinearBetaK)
		scaled := func(z []float64, gamma, beta *nn.Param) []float64 {
			g, b, y := read(gamma.Tensor), read(beta.Tensor), make([]float64, len(z))
			for c, x := range z {
				y[c] = x*float64(g[c]) + float64(b[c])
			}
			return y
		}
		var bias []float32
		if m.Bias != nil {
			bias = read(m.Bias.Tensor)
		}
		checkFormula(t, m, 70, func(x matrix) matrix {
			gated := func(l *nn.Linear) matrix { return x.each(affine(l)).each(siluOf) }
			gate, v, z := gated(m.U), gated(m.V), gated(m.Z)
			out := make(matrix, len(x))
			for i := range x {
				out[i] = make([]float64, len(v[i]))
				begin := i / chunk * chunk
				if form == "quadratic" {
					begin = 0
				}
				for j := range i + 1 {
					var a float64
					if form == "linear" || form == "mixed" && j < begin {
						q, k := scaled(z[i], m.LinearGammaQ, m.LinearBetaQ), scaled(z[j], m.LinearGammaK, m.LinearBetaK)
						a = dotOf(q, k) / chunk
					} else {
						score := dotOf(scaled(z[i], m.GammaQ, m.BetaQ), scaled(z[j], m.GammaK, m.BetaK))/math.Sqrt(6) +
							float64(bias[min(i-j, len(bias)-1)])
						a = max(score, 0) * max(score, 0) / float64(i-begin+1)
					}
					for c := range out[i] {
						out[i][c] += a * v[j][c]
					}
				}
				for c := range out[i] {
					out[i][c] *= gate[i][c]
				}
			}
			return out.each(affine(m.Out))
		})
	}
}

// away moves parameters that start as constants away from these values.
func away(params ...*nn.Param) {
	for i, p := range params {
		if p == nil {
			continue
		}
		x := read(p.Tensor)
		for c := range x {
			x[c] += float32(math.Sin(float64(3*c+i+1))) / 2
		}
		p.CopyFrom(x)
	}
}

// TestBlockRecurrentFormula compares the mixer with the paper's cell, block by block: positions see the window, which
// reaches into the previous block, and the state at the beginning of their block; the state sees itself and the block.
func TestBlockRecurrentFormula(t *testing.T) {
	golden.Of(t, "block-recurrent")
	const heads, block, l, rotary = 2, 9, 70, 2
	o := Options{"block": "9", "rows": "3"}
	cfg := Config{NumHeads: heads, RotaryDim: rotary, Options: o}
	m := variant{build: BlockRecurrentInfo.New, cfg: cfg}.mixer(t).(*BlockRecurrent)
	const d, hd = dModel, dModel / heads
	turned := func(x matrix) matrix { // the first components of each head, rotated
		out := x.each(pointwise(func(v float64) float64 { return v }))
		for i, row := range out {
			for h := range heads {
				copy(row[h*hd:], rotated(row[h*hd:h*hd+rotary], i))
			}
		}
		return out
	}
	gate, ids := read(m.Gate.Tensor), rowsFrom(read(m.IDs.Weight.Tensor), d)
	checkFormula(t, m, l, func(u matrix) matrix {
		qkv, p := u.each(affine(m.Wqkv)), u.each(affine(m.Cross))
		q, k, v := qkv.columns(0, d), qkv.columns(d, 2*d), qkv.columns(2*d, 3*d)
		turnedQ, turnedK := turned(q), turned(k)
		s := rowsFrom(read(m.Start.Weight.Tensor), d)
		y := make(matrix, len(u))
		for from := 0; from < len(u); from += block {
			seen := s.each(layerNormOf(m.Norm))
			for r, row := range seen {
				for c := range row {
					row[c] += ids[r][c]
				}
			}
			own, cross := seen.each(affine(m.StateQKV)), seen.each(affine(m.StateCross))
			sk, sv := own.columns(d, 2*d), own.columns(2*d, 3*d)
			to := min(from+block, len(u))
			for i := from; i < to; i++ {
				first := max(0, i-block+1)
				near := attended(turnedQ[i], turnedK[first:i+1], v[first:i+1], heads)
				y[i] = affine(m.Out)(append(near, attended(p[i], sk, sv, heads)...))
			}
			next := make(matrix, len(s))
			for r := range s {
				self := attended(own[r][:d], sk, sv, heads)
				z := affine(m.OutState)(append(self, attended(cross[r], k[from:to], v[from:to], heads)...))
				next[r] = make([]float64, d)
				for c := range z {
					g := 1 / (1 + math.Exp(-float64(gate[c])))
					next[r][c] = g*s[r][c] + (1-g)*z[c]
				}
			}
			s = next
		}
		return y
	})
	// A position of the second block sees the last positions of the first not only through the state, and earlier
	// positions only through it.
	u := sequences(4, 1, 2*block)
	before := read(m.Forward(newTape(), u, equalRows(1, 2*block)))
	m.Gate.Tensor.CopyFrom(filled(d, 100)) // the state does not change
	same := read(m.Forward(newTape(), u, equalRows(1, 2*block)))
	near(t, "y of the first block", same[:block*d], before[:block*d], 0)
	changed := tensor.FromSlice(append([]float32(nil), u.Data()...), 2*block, d)
	changed.Data()[(block-1)*d]++
	y := read(m.Forward(newTape(), changed, equalRows(1, 2*block)))
	for i := block; i < 2*block; i++ {
		differs := false
		for c := range d {
			// more than by rounding errors of the state
			differs = differs || math.Abs(float64(y[i*d+c]-same[i*d+c])) > 1e-4
		}
		if sees := i-(block-1) < block; differs != sees {
			t.Errorf("position %d sees position %d past the state: %v, want %v", i, block-1, differs, sees)
		}
	}
}

// filled returns n times v.
func filled(n int, v float32) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = v
	}
	return out
}

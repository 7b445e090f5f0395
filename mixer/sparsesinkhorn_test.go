package mixer

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// balancedBefore divides rows and columns in turn. Row u has the entries v < u and is divided by sums over the rows up
// to u only: equation 5 of the paper with the mask of its §3.3.
func balancedBefore(f matrix, rounds int) matrix {
	p := f.each(pointwise(math.Exp))
	for range rounds {
		next := make(matrix, len(p))
		for u := range p {
			sum := 0.0
			for _, x := range p[u][:u] {
				sum += x
			}
			next[u] = append([]float64(nil), p[u][:u]...)
			for v := range next[u] {
				next[u][v] /= sum
			}
		}
		for u := range p {
			p[u] = append([]float64(nil), next[u]...)
			for v := range p[u] {
				sum := 0.0
				for i := v + 1; i <= u; i++ {
					sum += next[i][v]
				}
				p[u][v] /= sum
			}
		}
	}
	return p
}

// sparseSinkhornOf returns the layer by its formula. psi summarizes the blocks of u, balance iterates.
func sparseSinkhornOf(m *SparseSinkhorn, psi func(u matrix, block int) []float64, balance func(f matrix) matrix,
	ahead bool, cut int) func(u matrix) matrix {
	heads, hd, gelu := m.opt.Heads, m.d/m.opt.Heads, pointwise(func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	})
	return func(u matrix) matrix {
		qkv, l, blocks := u.each(affine(m.QKV)), len(u), (len(u)+m.block-1)/m.block
		q, k, v := qkv.columns(0, m.d), qkv.columns(m.d, 2*m.d), qkv.columns(2*m.d, 3*m.d)
		var scores matrix
		for b := range blocks {
			scores = append(scores, affine(m.Columns)(gelu(affine(m.Sort)(psi(u, b)))))
		}
		y := make(matrix, l)
		for h := range heads {
			at, columns := h*hd, m.lMax/m.block
			p := balance(scores.columns(h*columns, h*columns+blocks).each(pointwise(func(x float64) float64 {
				return x / m.temperature
			})))
			mixed := func(x matrix, b int) (out matrix) { // block b of S x
				for j := range m.block {
					row := make([]float64, hd)
					for from, w := range p[b] {
						for c := range row {
							row[c] += w * x[from*m.block+j][at+c]
						}
					}
					out = append(out, row)
				}
				return out
			}
			for i := range u {
				b := i / m.block
				own, end := b*m.block, i+1
				if ahead {
					end = own + m.block
				}
				var keys, values matrix
				switch {
				case cut > 0:
					for b := range cut {
						keys, values = append(keys, mixed(k, b)...), append(values, mixed(v, b)...)
					}
					end = own
				case b > 0 || ahead:
					keys, values = mixed(k, b), mixed(v, b)
				}
				keys = append(keys, k.columns(at, at+hd)[own:end]...)
				values = append(values, v.columns(at, at+hd)[own:end]...)
				y[i] = append(y[i], attended(q[i][at:at+hd], keys, values, 1)...)
			}
		}
		return y.each(affine(m.Out))
	}
}

// meanOf returns the mean of rows.
func meanOf(u matrix) []float64 {
	mean := make([]float64, len(u[0]))
	for _, row := range u {
		for c, x := range row {
			mean[c] += x / float64(len(u))
		}
	}
	return mean
}

// TestSparseSinkhornFormula compares the causal layer, the one that looks ahead, and the one with sortcut with their
// formulas, using the Sinkhorn operator that is checked against the official one.
func TestSparseSinkhornFormula(t *testing.T) {
	golden.Of(t, "sparse-sinkhorn")
	build := func(pairs ...string) *SparseSinkhorn {
		o := Options{"block": "6", "l_max": "60", "rounds": "3"}
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i]] = pairs[i+1]
		}
		return variant{build: SparseSinkhornInfo.New, cfg: Config{NumHeads: 2, Options: o}}.mixer(t).(*SparseSinkhorn)
	}
	m := build()
	upToFirst := func(u matrix, b int) []float64 { return meanOf(u[:b*m.block+1]) }
	checkFormula(t, m, 45, sparseSinkhornOf(m, upToFirst, func(f matrix) matrix { return balancedBefore(f, 3) }, false,
		0))
	u := sequences(3, 1, 42)
	for name, cut := range map[string]int{"0": 0, "2": 2} {
		m := build("bidirectional", "true", "sortcut", name)
		own := func(u matrix, b int) []float64 { return meanOf(u[b*m.block:][:m.block]) }
		want := sparseSinkhornOf(m, own, func(f matrix) matrix { return ssm.SinkhornOperator(f, 3) }, true, cut)
		golden.Close(t, "y that looks ahead, sortcut "+name, read(m.Forward(newTape(), u, equalRows(1, 42))),
			want(rowsFrom(u.Data(), dModel)).flat(), formulaTol)
	}
}

// TestSinkhornBalance checks that rows and columns sum to 1 after many rounds, and that the weights after a few rounds
// are those of the official operator.
func TestSinkhornBalance(t *testing.T) {
	golden.Run(t, "07_sinkhorn_operator", func(t *testing.T, c golden.Case) {
		s := c.Shape("in/r")
		for i := range s[0] {
			r := tensor.FromSlice(c.F32("in/r")[i*s[1]*s[1]:][:s[1]*s[1]], s[1], s[1])
			balance := func(rounds int) []float32 {
				return read(newTape().SinkhornBalance(r, engine.BalanceOptions{Heads: 1, Rounds: rounds}))
			}
			golden.Close(t, "8 rounds", balance(8), c.F64("out/sinkhorn_8")[i*s[1]*s[1]:][:s[1]*s[1]], 1e-6)
			p := balance(300)
			for u := range s[1] {
				row, column := 0.0, 0.0
				for v := range s[1] {
					row, column = row+float64(p[u*s[1]+v]), column+float64(p[v*s[1]+u])
				}
				if math.Abs(row-1) > 1e-5 || math.Abs(column-1) > 1e-5 {
					t.Errorf("row and column %d sum to %g and %g, want 1", u, row, column)
				}
			}
		}
	})
}

// TestSparseSinkhornNoise checks that training adds noise that is determined by the seeds of the rows, so that a step
// can be repeated, that there is no noise without training, and that it is Gumbel's, with mean 0.5772 and variance
// π²/6.
func TestSparseSinkhornNoise(t *testing.T) {
	m := variant{build: SparseSinkhornInfo.New, cfg: Config{NumHeads: 2, Options: Options{"block": "4",
		"l_max": "40"}}}.mixer(t)
	run := func(seeds ...uint64) []float32 {
		r := equalRows(2, 40)
		if len(seeds) > 0 {
			r.Train(seeds)
		}
		return read(m.Forward(newTape(), sequences(1, 2, 40), r))
	}
	plain, one := run(), run(5, 6)
	if slices.Equal(plain, one) || !slices.Equal(one, run(5, 6)) || !slices.Equal(plain, run()) {
		t.Error("noise must come with training, and be the same for the same seeds")
	}
	if other := run(5, 7); !slices.Equal(one[:40*dModel], other[:40*dModel]) || slices.Equal(one, other) {
		t.Error("the noise of a row must depend on its own seed")
	}
	const n = 20000
	zeros, rows := tensor.New(1, n), engine.NewRows(1)
	rows.Train([]uint64{3})
	mean, square := 0.0, 0.0
	for _, x := range read(newTape().AddGumbel(zeros, rows)) {
		mean, square = mean+float64(x)/n, square+float64(x)*float64(x)/n
	}
	if math.Abs(mean-0.5772) > 0.03 || math.Abs(square-mean*mean-math.Pi*math.Pi/6) > 0.08 {
		t.Errorf("noise has the mean %g and the variance %g, want 0.5772 and %g", mean, square-mean*mean,
			math.Pi*math.Pi/6)
	}
}

package ssm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// TestGoldenSinkhornOperator compares with the official sorting operator after few and many rounds, and with given
// Gumbel noise.
func TestGoldenSinkhornOperator(t *testing.T) {
	golden.Run(t, "07_sinkhorn_operator", func(t *testing.T, c golden.Case) {
		const tol, gumbelRounds = 1e-10, 8 // the file's tolerance, the official default
		var config struct {
			Rounds      []int `json:"n_iters"`
			Temperature float64
		}
		c.Config(&config)
		s := c.Shape("in/r")
		each := func(f func(r, u [][]float64) [][]float64) (out []float64) {
			for i := range s[0] {
				for _, line := range f(square(c.F64("in/r"), i, s[1]), square(c.F64("in/uniform"), i, s[1])) {
					out = append(out, line...)
				}
			}
			return out
		}
		for _, n := range config.Rounds {
			name := fmt.Sprint("out/sinkhorn_", n)
			golden.Close(t, name, each(func(r, _ [][]float64) [][]float64 { return SinkhornOperator(r, n) }),
				c.F64(name), tol)
		}
		var noise []float64
		for _, u := range c.F64("in/uniform") {
			noise = append(noise, GumbelNoise(u))
		}
		golden.Close(t, "noise", noise, c.F64("out/gumbel_noise"), tol)
		got := each(func(r, u [][]float64) [][]float64 {
			return GumbelSinkhorn(r, u, config.Temperature, gumbelRounds)
		})
		golden.Close(t, "Gumbel-Sinkhorn", got, c.F64("out/gumbel_sinkhorn"), tol)
	})
}

// square returns matrix i of x (·, n, n).
func square(x []float64, i, n int) (m [][]float64) {
	for j := range n {
		m = append(m, row(x, i*n+j, n))
	}
	return m
}

// TestSinkhornOperator checks that after many rounds all rows and columns sum to 1, and that a low temperature gives
// the permutation that selects the largest entries.
func TestSinkhornOperator(t *testing.T) {
	const n = 5
	rng := rand.New(rand.NewPCG(1, 2))
	r, hard := make([][]float64, n), make([][]float64, n)
	place := rng.Perm(n)
	for i := range r {
		r[i], hard[i] = normals(rng, n), make([]float64, n)
		copy(hard[i], r[i])
		hard[i][place[i]] += 60
	}
	p := SinkhornOperator(r, 100)
	for i := range n {
		column := 0.0
		for j := range n {
			column += p[j][i]
		}
		near(t, "sums", []float64{floats.Sum(p[i]), column}, []float64{1, 1}, 1e-9)
	}
	for i, line := range SinkhornOperator(hard, 100) {
		if floats.MaxIdx(line) != place[i] || line[place[i]] < 1-1e-9 {
			t.Errorf("row %d is %v, want a 1 at %d", i, line, place[i])
		}
	}
}

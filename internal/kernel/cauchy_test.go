package kernel

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"
)

// cauchyCase holds modes λ and coefficients v (n, m), with the points of S4: tan(πk/l), k ≤ l/2, the last of which may
// be 1e16.
type cauchyCase struct {
	m          int
	lambda, v  []complex128
	t, squares []float64
}

func newCauchyCase(rng *rand.Rand, n, m, l int) *cauchyCase {
	c := &cauchyCase{m: m}
	for range n {
		c.lambda = append(c.lambda, complex(-1e-3-rng.Float64(), 3*rng.NormFloat64()))
	}
	for range n * m {
		c.v = append(c.v, complex(rng.NormFloat64(), rng.NormFloat64()))
	}
	for k := range l/2 + 1 {
		t := math.Tan(math.Pi * float64(k) / float64(l))
		c.t, c.squares = append(c.t, t), append(c.squares, t*t)
	}
	return c
}

// cauchy returns the case in the form that the kernels take.
func (c *cauchyCase) cauchy() *Cauchy {
	k := newCauchy(len(c.lambda), c.m)
	for i, lambda := range c.lambda {
		k.Mode(i, lambda)
		for j := range c.m {
			k.Term(i, j, lambda, c.v[i*c.m+j])
		}
	}
	return k
}

func newCauchy(n, m int) *Cauchy {
	c := &Cauchy{}
	c.Resize(n, m)
	c.Clear()
	return c
}

// term returns a term of S_j at a point by definition.
func (c *cauchyCase) term(t float64, i, j int) complex128 {
	s, lambda, v := complex(0, t), c.lambda[i], c.v[i*c.m+j]
	return v/(s-lambda) + cmplx.Conj(v)/(s-cmplx.Conj(lambda))
}

func TestCauchySumsMatchDefinition(t *testing.T) { atLevels(t, testCauchySumsMatchDefinition) }

func testCauchySumsMatchDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 5, 32} {
		for _, m := range []int{1, 2, 4, 9} {
			for _, l := range []int{1, 2, 3, 7, 8, 30, 31, 127, 128, 129, 1000, 2200} {
				c := newCauchyCase(rng, n, m, l)
				s := make([]float64, 2*m*len(c.t)+1)
				for i := range s {
					s[i] = math.NaN()
				}
				CauchySums(s, c.squares, c.cauchy())
				if !math.IsNaN(s[len(s)-1]) {
					t.Fatal("it wrote past the sums")
				}
				for k, tk := range c.t {
					for j := range m {
						var want complex128
						size := 0.0
						for i := range n {
							z := c.term(tk, i, j)
							want += z
							size += cmplx.Abs(z)
						}
						got := complex(s[2*j*len(c.t)+k], tk*s[(2*j+1)*len(c.t)+k])
						if e := cmplx.Abs(got - want); !(e <= 1e-10*size) {
							t.Fatalf("n=%d m=%d l=%d: sum %d at point %d is %v, want %v", n, m, l, j, k, got, want)
						}
					}
				}
			}
		}
	}
}

func TestCauchySumsGradMatchesDifferences(t *testing.T) {
	atLevels(t, testCauchySumsGradMatchesDifferences)
}

// testCauchySumsGradMatchesDifferences checks the derivatives by λ and v of a loss that weights the sums. They must be
// added to the previous values.
func testCauchySumsGradMatchesDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, shape := range [][3]int{{1, 1, 1}, {3, 4, 9}, {2, 9, 131}, {5, 4, 200}} {
		c := newCauchyCase(rng, shape[0], shape[1], shape[2])
		for i := range c.lambda {
			c.lambda[i] -= 0.5 // smooth over the steps below
		}
		g := make([]float64, 2*c.m*len(c.t))
		for i := range g {
			g[i] = rng.NormFloat64() / (1 + c.squares[i%len(c.t)])
		}
		s := make([]float64, len(g))
		loss := func() (sum float64) {
			CauchySums(s, c.squares, c.cauchy())
			for i, v := range s {
				sum += v * g[i]
			}
			return sum
		}
		d, k := newCauchy(shape[0], c.m), c.cauchy()
		CauchySumsGrad(d, g, c.squares, k)
		once := slices.Clone(d.Coef)
		CauchySumsGrad(d, g, c.squares, k)
		for i, v := range d.Coef {
			if math.Abs(v-2*once[i]) > 1e-12*math.Abs(v) {
				t.Fatalf("%v: added twice, derivative %d is %g, want twice %g", shape, i, v, once[i])
			}
		}
		dLambda, dv := make([]complex128, len(c.lambda)), make([]complex128, len(c.v))
		for i, lambda := range c.lambda {
			dLambda[i] = k.ModeGrad(d, i, lambda) / 2
			for j := range c.m {
				gl, gv := k.TermGrad(d, i, j, lambda, c.v[i*c.m+j])
				dLambda[i] += gl / 2
				dv[i*c.m+j] = gv / 2
			}
		}
		for _, p := range []struct {
			name string
			x, d []complex128
		}{{"λ", c.lambda, dLambda}, {"v", c.v, dv}} {
			for i, x := range p.x {
				const step = 1e-5
				slope := func(by complex128) float64 {
					p.x[i] = x + by
					up := loss()
					p.x[i] = x - by
					down := loss()
					p.x[i] = x
					return (up - down) / (2 * step)
				}
				want := complex(slope(step), slope(step*1i))
				if !(cmplx.Abs(p.d[i]-want) <= 1e-6*(1+cmplx.Abs(want))) {
					t.Errorf("%v: derivative by %s[%d] is %g, want %g", shape, p.name, i, p.d[i], want)
				}
			}
		}
	}
}

// TestRealDFT checks that a sequence is recovered from its transform by definition, for lengths of every kind, and that
// Transpose is the transpose.
func TestRealDFT(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	for _, l := range []int{1, 2, 3, 4, 7, 30, 64, 97, 127, 128, 1000} {
		for _, h := range []int{1, 3, 16} {
			f := NewRealDFT(l)
			x := make([]float64, l*h)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			X := make([]float32, f.SpectrumRows()*h)
			for k := range l/2 + 1 {
				for v := range h {
					var sum complex128
					for t := range l {
						sin, cos := math.Sincos(-2 * math.Pi * float64(k*t%l) / float64(l))
						sum += complex(x[t*h+v]*cos, x[t*h+v]*sin)
					}
					X[f.Row(k)*h+v] = float32(real(sum) * f.Weight(k))
					X[(f.Row(k)+1)*h+v] = float32(imag(sum) * f.Weight(k))
				}
			}
			name := fmt.Sprintf("l=%d, h=%d", l, h)
			y, work := make([]float32, l*h), make([]float32, f.WorkSize(h))
			f.Inverse(y, X, h, work)
			for i, want := range x {
				if math.Abs(float64(y[i])-want) > 3e-6 {
					t.Fatalf("%s: element %d is %g, want %g", name, i, y[i], want)
				}
			}
			// <y, Inverse X> = <Transpose y, X>
			dX := make([]float32, len(X))
			g := normals(rng, l*h)
			f.Transpose(dX, g, h, work)
			var left, right, size float64
			for i, v := range g {
				left += float64(v) * float64(y[i])
			}
			for i, v := range dX {
				right += float64(v) * float64(X[i])
				size += math.Abs(float64(v) * float64(X[i]))
			}
			if math.Abs(left-right) > 1e-5*(size+1) {
				t.Errorf("%s: the transpose gives %g, want %g", name, right, left)
			}
		}
	}
}

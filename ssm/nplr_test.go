package ssm

import (
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestNormalPlusLowRank checks that A plus its low-rank part is normal, A Aᵀ = Aᵀ A, and that the columns of V with
// their conjugates are orthonormal.
func TestNormalPlusLowRank(t *testing.T) {
	for _, measure := range []string{"legs", "legsd", "legt", "lagt", "tlagt", "glagt", "fout",
		"fourier2", "fourier_decay", "foud"} {
		for _, n := range []int{2, 8, 64} {
			s, v, err := NPLR(measure, n)
			check(t, err)
			low, err := LowRank(measure, n)
			check(t, err)
			a, b, err := HiPPO(measure, n)
			check(t, err)
			near(t, measure+": A from its parts", composed(s, v, low).RawMatrix().Data, a.RawMatrix().Data, 1e-12)

			for _, p := range low {
				a.RankOne(a, 1, mat.NewVecDense(n, p), mat.NewVecDense(n, p))
			}
			var left, right mat.Dense
			left.Mul(a, a.T())
			right.Mul(a.T(), a)
			left.Sub(&left, &right)
			if residual := mat.Norm(&left, 2) / math.Pow(mat.Norm(a, 2), 2); residual > 1e-9 {
				t.Errorf("%s, n = %d: ‖A Aᵀ - Aᵀ A‖ is %g of ‖A‖², want 0", measure, n, residual)
			}
			for j := range v {
				if imag(s.Lambda[j]) > 0 || j > 0 && imag(s.Lambda[j]) < imag(s.Lambda[j-1]) {
					t.Errorf("%s, n = %d: Im Λ[%d] = %v, want rising below 0", measure, n, j, imag(s.Lambda[j]))
				}
				for k := range v {
					want := complex(0, 0)
					if j == k {
						want = 1
					}
					if d := cmplx.Abs(dot(conjugates(v[j]), v[k]) - want); d > 1e-9 {
						t.Errorf("%s, n = %d: v_%d^H v_%d is off by %g", measure, n, j, k, d)
					}
					if d := cmplx.Abs(dot(v[j], v[k])); d > 1e-9 {
						t.Errorf("%s, n = %d: v_%d and conj v_%d: %g, want 0", measure, n, j, k, d)
					}
				}
			}
			var norm float64
			for _, z := range s.B {
				norm += 2 * real(z*cmplx.Conj(z))
			}
			if want := math.Pow(mat.Norm(mat.NewVecDense(n, b), 2), 2); math.Abs(norm-want) > 1e-9*want {
				t.Errorf("%s, n = %d: ‖B‖² became %v, want %v", measure, n, norm, want)
			}
		}
	}
}

// TestNormalPartIsSkew checks that the normal part of LegS is -½ I plus a skew-symmetric matrix, and not diagonal plus
// symmetric, as one tutorial says.
func TestNormalPartIsSkew(t *testing.T) {
	const n = 16
	a, _, err := HiPPO("legs", n)
	check(t, err)
	p, err := LowRank("legs", n)
	check(t, err)
	a.RankOne(a, 1, mat.NewVecDense(n, p[0]), mat.NewVecDense(n, p[0]))
	for i := range n {
		a.Set(i, i, a.At(i, i)+0.5)
	}
	var sum mat.Dense
	sum.Add(a, a.T())
	near(t, "S + Sᵀ", sum.RawMatrix().Data, make([]float64, n*n), 1e-14*n)
	if mat.Norm(a, 2) < n {
		t.Errorf("S has norm %v, want a large one", mat.Norm(a, 2))
	}
}

// TestNaiveDiagonalizationFails checks that the eigenvectors of LegS itself, scaled to length 1, have a condition
// number that grows exponentially with n. That is why S4 diagonalizes the normal part, whose eigenvectors have
// condition 1. S4, lemma 3.2.
func TestNaiveDiagonalizationFails(t *testing.T) {
	condition := func(n int) float64 {
		a, _ := LegS(n)
		v := mat.NewDense(n, n, nil)
		for j := range n { // A is triangular with eigenvalues -(j+1): substitute forwards
			v.Set(j, j, 1)
			for i := j + 1; i < n; i++ {
				var sum float64
				for k := j; k < i; k++ {
					sum += a.At(i, k) * v.At(k, j)
				}
				v.Set(i, j, sum/(a.At(j, j)-a.At(i, i)))
			}
			column := v.ColView(j).(*mat.VecDense)
			column.ScaleVec(1/mat.Norm(column, 2), column)
		}
		return mat.Cond(v, 2)
	}
	before := condition(4)
	for n := 6; n <= 12; n += 2 {
		now := condition(n)
		if now < 16*before { // 2^(4n/3) grows 6.3-fold from one even n to the next, the condition by more
			t.Errorf("n = %d: condition %.3g, %.3g for n = %d; want exponential growth", n, now, before, n-2)
		}
		before = now
	}
}

func TestNPLRErrors(t *testing.T) {
	for _, c := range []struct {
		measure string
		n       int
		want    string
	}{
		{"legs", 7, "d_state is 7, want an even number"},
		{"legs", 0, "d_state is 0, want a positive number"},
		{"lmu", 8, "lmu has no low-rank correction in its own basis"},
		{"legz", 8,
			`measure "legz": want one of foud, fourier2, fourier_decay, fout, glagt, lagt, legs, legsd, legt, lmu, ` +
				`tlagt`},
		{"fout", 9, "fout: d_state is 9, want an even number"},
	} {
		if _, _, err := NPLR(c.measure, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NPLR(%q, %d): %v, want an error with %q", c.measure, c.n, err, c.want)
		}
	}
}

package ssm

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestNormalPartOfLegSIsDense checks that the modes of legs are eigenvectors: in their basis the normal part of LegS
// has the same output as the dense matrix. K_j = C exp(j dt A) Bbar with C = Bᵀ becomes 2 Re Σ conj(B) B (..), which no
// choice of phase changes.
func TestNormalPartOfLegSIsDense(t *testing.T) {
	for _, n := range []int{2, 8, 64, 128} {
		normal, _, err := NPLR("legs", n)
		check(t, err)
		A, B := normal.Lambda, normal.B
		C := make([]complex128, len(B))
		for k, b := range B {
			C[k] = complex(real(b), -imag(b))
			if real(b) <= 0 {
				t.Errorf("n = %d: B[%d] = %v, want a positive real part: B₀ times the first entry of the eigenvector",
					n, k, b)
			}
			if real(A[k]) != -0.5 || imag(A[k]) >= 0 || k > 0 && imag(A[k]) < imag(A[k-1]) {
				t.Errorf("n = %d: A[%d] = %v, want real part -1/2 and imaginary parts rising below 0", n, k, A[k])
			}
		}
		s := &Diagonal{A: A, B: B, C: C, Dt: 1e-3, Pairs: true}

		a, b := LegS(n)
		for i := range n {
			for j := range n {
				a.Set(i, j, a.At(i, j)+math.Sqrt((float64(i)+0.5)*(float64(j)+0.5)))
			}
		}
		d, err := (&Continuous{A: a, B: b, C: b}).Discretize(s.Dt, Bilinear)
		check(t, err)
		near(t, "kernel", s.Kernel(Bilinear, 50), d.Kernel(50), 1e-11)
	}
}

// TestLegSHoldsConstant checks that a constant input is held by the first coefficient alone, so A e₁ + B = 0, as
// HiPPO-LegS is the derivative of the projection onto Legendre polynomials.
func TestLegSHoldsConstant(t *testing.T) {
	a, b := LegS(16)
	near(t, "A e1", mat.Col(nil, 0, a), mulVec(mat.NewDense(16, 1, b), []float64{-1}), 1e-15)
}

// TestS4DInits checks that S4D's formulas approximate HiPPO spectra. lin has exactly the frequencies of FouT. inv has
// the frequencies of LegS within n/3, which is little compared to the fastest, n/π (n-1), and not n²/2. All modes
// decay.
func TestS4DInits(t *testing.T) {
	const n = 64
	fout, _, err := NPLR("fout", n)
	check(t, err)
	legs, _, err := NPLR("legs", n)
	check(t, err)
	lin, _, err := DiagonalInit("lin", n, ConventionS4)
	check(t, err)
	inv, _, err := DiagonalInit("inv", n, ConventionS4)
	check(t, err)
	if got, want := -imag(inv[0]), n/math.Pi*(n-1); math.Abs(got-want) > 1e-12*want {
		t.Errorf("largest frequency of inv: %v, want %v", got, want)
	}
	for k := range n / 2 {
		if got, want := imag(lin[n/2-1-k]), imag(fout.Lambda[k]); math.Abs(got-want) > 1e-11 {
			t.Errorf("lin has %v, FouT %v", got, want)
		}
		if got, want := imag(inv[k]), imag(legs.Lambda[k]); math.Abs(got-want) > n/3.0 ||
			k == 0 && math.Abs(got/want-1) > 0.02 {
			t.Errorf("inv has %v, LegS %v", got, want)
		}
	}
	for _, name := range []string{"legs", "inv", "lin", "inv2", "quad", "real"} {
		A, _, err := DiagonalInit(name, n, ConventionH3)
		check(t, err)
		for k, a := range A {
			if real(a) >= 0 {
				t.Errorf("%s: A[%d] = %v does not decay", name, k, a)
			}
		}
	}
}

func TestDiagonalInitErrors(t *testing.T) {
	cases := []struct {
		name string
		n    int
		conv Convention
		want string
	}{
		{"lin", 7, ConventionH3, "d_state is 7, want a positive even number"},
		{"legs", 0, ConventionS4, "d_state is 0"},
		{"lin", -2, ConventionH3, "d_state is -2"},
		{"linear", 8, ConventionH3, `"linear": want one of inv, inv2, lin, quad, real, legs`},
		{"lin", 8, Convention(5), "unknown convention Convention(5)"},
	}
	for _, c := range cases {
		if _, _, err := DiagonalInit(c.name, c.n, c.conv); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("DiagonalInit(%q, %d, %v): %v, want an error with %q", c.name, c.n, c.conv, err, c.want)
		}
	}
}

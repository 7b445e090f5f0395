package ssm

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"
)

// Method is a rule that turns x' = Ax + Bu into x_k = Abar x_{k-1} + Bbar u_k.
type Method int

const (
	// Bilinear, the trapezoidal rule (Tustin): error O(dt²). The whole left half plane, and nothing else, becomes
	// stable. The default of S4 and H3.
	Bilinear Method = iota
	// ZOH, zero-order hold: exact for an input that is held over each step.
	ZOH
	// Euler, the forward rule Abar = I + dt A: error O(dt), unstable for large dt.
	Euler
	// BackwardEuler, Abar = (I - dt A)⁻¹: error O(dt), stable for every dt if A is.
	BackwardEuler
)

var methodNames = [...]string{"bilinear", "zoh", "euler", "backward_diff"}

// String returns the name that [ParseMethod] reads.
func (m Method) String() string {
	if m < 0 || int(m) >= len(methodNames) {
		return fmt.Sprintf("Method(%d)", int(m))
	}
	return methodNames[m]
}

// ParseMethod returns the method named "bilinear", "zoh", "euler" or "backward_diff".
func ParseMethod(name string) (Method, error) {
	for m, s := range methodNames {
		if s == name {
			return Method(m), nil
		}
	}
	return 0, fmt.Errorf("ssm: discretization %q: want one of %s", name, strings.Join(methodNames[:], ", "))
}

// alpha returns the parameter of a rule other than ZOH in the family of [GeneralizedBilinear].
func (m Method) alpha() float64 {
	switch m {
	case Bilinear:
		return 0.5
	case Euler:
		return 0
	case BackwardEuler:
		return 1
	}
	panic("ssm: " + m.String() + " is not a generalized bilinear rule")
}

// Discretize samples x' = Ax + Bu every dt: A (n, n), B (n) to Abar (n, n), Bbar (n).
//
// It returns an error for wrong shapes, a dt that is not positive, a step too large to represent, and a dt at which the
// rule has a pole (1/(α dt) is an eigenvalue of A).
func Discretize(a mat.Matrix, b []float64, dt float64, m Method) (Abar *mat.Dense, Bbar []float64, err error) {
	if m == ZOH {
		return zeroOrderHold(a, b, dt)
	}
	if m < 0 || int(m) >= len(methodNames) {
		return nil, nil, fmt.Errorf("ssm: discretize: unknown method %v", m)
	}
	return GeneralizedBilinear(a, b, dt, m.alpha())
}

// GeneralizedBilinear samples x' = Ax + Bu by weighting the slope at the new state with alpha and that at the old state
// with 1 - alpha:
//
//	Abar = (I - α dt A)⁻¹ (I + (1-α) dt A),  Bbar = (I - α dt A)⁻¹ dt B
//
// α = 0 is forward Euler, ½ the bilinear rule, 1 backward Euler. HiPPO, arXiv:2008.07669, appendix B.3. Shapes and
// errors are as in [Discretize].
func GeneralizedBilinear(a mat.Matrix, b []float64, dt, alpha float64) (Abar *mat.Dense, Bbar []float64, err error) {
	n, err := checkSystem(a, b, dt)
	if err != nil {
		return nil, nil, err
	}
	if !(alpha >= 0 && alpha <= 1) {
		return nil, nil, fmt.Errorf("ssm: generalized bilinear: alpha is %v, want 0 to 1", alpha)
	}
	left := mat.NewDense(n, n, nil)
	right := mat.NewDense(n, n+1, nil) // [I + (1-α) dt A | dt B]: one factorization solves for both
	for i := range n {
		for j := range n {
			aij := dt * a.At(i, j)
			left.Set(i, j, -alpha*aij)
			right.Set(i, j, (1-alpha)*aij)
		}
		left.Set(i, i, 1+left.At(i, i))
		right.Set(i, i, 1+right.At(i, i))
		right.Set(i, n, dt*b[i])
	}
	var both mat.Dense
	if err := both.Solve(left, right); err != nil {
		return nil, nil, fmt.Errorf("ssm: discretize: I - %v dt A at dt = %v cannot be inverted: %w", alpha, dt, err)
	}
	return split(&both, n, dt)
}

// zeroOrderHold computes Abar = exp(dt A) and Bbar = ∫₀^dt exp(sA) B ds from one matrix exponential, which needs no
// inverse of A:
//
//	exp(dt [A B; 0 0]) = [Abar Bbar; 0 1]
//
// C. Van Loan, Computing integrals involving the matrix exponential, 1978.
func zeroOrderHold(a mat.Matrix, b []float64, dt float64) (Abar *mat.Dense, Bbar []float64, err error) {
	n, err := checkSystem(a, b, dt)
	if err != nil {
		return nil, nil, err
	}
	augmented := mat.NewDense(n+1, n+1, nil)
	for i := range n {
		for j := range n {
			augmented.Set(i, j, dt*a.At(i, j))
		}
		augmented.Set(i, n, dt*b[i])
	}
	var exp mat.Dense
	exp.Exp(augmented)
	return split(&exp, n, dt)
}

// split takes Abar (n, n) and Bbar (n) from the first n rows of [Abar | Bbar]. Overflow is an error.
func split(both *mat.Dense, n int, dt float64) (Abar *mat.Dense, Bbar []float64, err error) {
	if !finite(both.RawMatrix().Data) {
		return nil, nil, fmt.Errorf("ssm: discretize: overflow at dt = %v, want a smaller step", dt)
	}
	return mat.DenseCopyOf(both.Slice(0, n, 0, n)), mat.Col(nil, n, both)[:n], nil
}

// checkSystem returns n after checking the shapes of A (n, n) and B (n), and that both times dt are finite.
func checkSystem(a mat.Matrix, b []float64, dt float64) (n int, err error) {
	n, cols := a.Dims()
	if n != cols || n == 0 {
		return 0, fmt.Errorf("ssm: discretize: A is (%d, %d), want a square matrix", n, cols)
	}
	if len(b) != n {
		return 0, fmt.Errorf("ssm: discretize: B has %d entries, want %d as A has rows", len(b), n)
	}
	if !(dt > 0) || math.IsInf(dt, 0) {
		return 0, fmt.Errorf("ssm: discretize: dt is %v, want a positive number", dt)
	}
	// With an infinity, the scaling in the matrix exponential, which uses the norm, would be an endless loop.
	if norm := dt * mat.Norm(a, 1); math.IsNaN(norm) || math.IsInf(norm, 0) {
		return 0, fmt.Errorf("ssm: discretize: dt A has norm %v, want a finite one", norm)
	}
	for i, v := range b {
		if v *= dt; math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("ssm: discretize: dt B[%d] is %v, want a finite number", i, v)
		}
	}
	return n, nil
}

func finite(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

package task

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// linearForecast returns the coefficients c of the best linear forecast of x from its past, x[i] ≈ Σ c[k] x[i-1-k], by
// least squares over all of x. It solves the normal equations, with a billionth of the diagonal added to it. If they
// are still singular, it adds more. The coefficients are 0 for a signal of zeros and for a signal that is not finite.
func linearForecast(x []float64, order int) []float64 {
	// gram is the Gram matrix of the past values. right holds their products with the value that followed.
	gram, right := mat.NewSymDense(order, nil), mat.NewVecDense(order, nil)
	for k := range order {
		for m := range k + 1 {
			sum := 0.0
			for i := order; i < len(x); i++ {
				sum += x[i-1-k] * x[i-1-m]
			}
			gram.SetSym(k, m, sum)
		}
		sum := 0.0
		for i := order; i < len(x); i++ {
			sum += x[i] * x[i-1-k]
		}
		right.SetVec(k, sum)
	}
	c := make([]float64, order)
	var chol mat.Cholesky
	for ridge := 1e-9; ridge <= 1; ridge *= 10 {
		a := mat.NewSymDense(order, nil)
		a.CopySym(gram)
		for k := range order {
			a.SetSym(k, k, gram.At(k, k)*(1+ridge)+math.SmallestNonzeroFloat64)
		}
		// An error reports that the solution is inexact, which is unavoidable for a nearly singular matrix.
		if out := mat.NewVecDense(order, c); chol.Factorize(a) {
			_ = chol.SolveVecTo(out, right)
			return c
		}
	}
	return c
}

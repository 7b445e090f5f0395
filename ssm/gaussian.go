package ssm

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Gaussian is the estimated distribution of a state: its mean (n) and covariance (n, n).
type Gaussian struct {
	Mean []float64
	Cov  *mat.SymDense
}

// GaussianMap returns the Gaussian of f(x, u) for a Gaussian x (n) and a known input u, and the covariance cross (n, m)
// of x with f(x, u) (m). [LinearMap] is exact. [Extended] and [Unscented] are approximations for a nonlinear f.
type GaussianMap func(x Gaussian, u []float64) (y Gaussian, cross *mat.Dense, err error)

// LinearMap returns the map y = A x + B u with A (m, n), B (m, k): mean A E[x] + B u, covariance A Cov Aᵀ, cross Cov
// Aᵀ. A nil B ignores the input.
func LinearMap(a, b *mat.Dense) GaussianMap {
	return func(x Gaussian, u []float64) (Gaussian, *mat.Dense, error) {
		if _, n := a.Dims(); n != len(x.Mean) {
			return Gaussian{}, nil, fmt.Errorf("ssm: linear map of a state of %d: A has %d columns", len(x.Mean), n)
		}
		mean := mulVec(a, x.Mean)
		if b != nil {
			m, k := b.Dims()
			if m != len(mean) || k != len(u) {
				return Gaussian{}, nil,
					fmt.Errorf("ssm: linear map: B is (%d, %d), want (%d, %d)", m, k, len(mean), len(u))
			}
			floats.Add(mean, mulVec(b, u))
		}
		y, cross := spread(a, x.Cov)
		return Gaussian{Mean: mean, Cov: y}, cross, nil
	}
}

// Extended linearizes f at the mean, as the extended Kalman filter does: mean f(E[x]), covariance J Cov Jᵀ, with J (m,
// n) the derivative of f in x at the mean.
func Extended(f func(x, u []float64) []float64, derivative func(x, u []float64) *mat.Dense) GaussianMap {
	return func(x Gaussian, u []float64) (Gaussian, *mat.Dense, error) {
		cov, cross := spread(derivative(x.Mean, u), x.Cov)
		return Gaussian{Mean: f(x.Mean, u), Cov: cov}, cross, nil
	}
}

// Unscented applies f to 2n+1 points with the mean and covariance of x and takes the moments of the results, as the
// unscented Kalman filter does. With L Lᵀ = (n+κ) Cov the points are E[x] with weight κ/(n+κ) and E[x] ± column i of L
// with weight 1/(2(n+κ)). κ is max(3 - n, 0); 3 - n fits the fourth moments too. The mean is exact for polynomials of
// degree 2, for which [Extended] misses the curvature. A covariance that is not positive definite is an error. Julier
// and Uhlmann, A new extension of the Kalman filter to nonlinear systems, 1997.
func Unscented(f func(x, u []float64) []float64) GaussianMap {
	return func(x Gaussian, u []float64) (Gaussian, *mat.Dense, error) {
		points, weights, err := sigmaPoints(x)
		if err != nil {
			return Gaussian{}, nil, err
		}
		images := make([][]float64, len(points))
		for k, p := range points {
			images[k] = f(p, u)
		}
		n, m := len(x.Mean), len(images[0])
		y := Gaussian{Mean: make([]float64, m), Cov: mat.NewSymDense(m, nil)}
		for k, image := range images {
			floats.AddScaled(y.Mean, weights[k], image)
		}
		cross := mat.NewDense(n, m, nil)
		for k, image := range images {
			dx := mat.NewVecDense(n, floats.SubTo(make([]float64, n), points[k], x.Mean))
			dy := mat.NewVecDense(m, floats.SubTo(make([]float64, m), image, y.Mean))
			y.Cov.SymRankOne(y.Cov, weights[k], dy)
			cross.RankOne(cross, weights[k], dx, dy)
		}
		return y, cross, nil
	}
}

// sigmaPoints returns the 2n+1 points of [Unscented] and their weights: the mean, then the points with plus, then the
// points with minus.
func sigmaPoints(x Gaussian) (points [][]float64, weights []float64, err error) {
	n := len(x.Mean)
	var chol mat.Cholesky
	if !chol.Factorize(x.Cov) {
		return nil, nil, errors.New("ssm: unscented: the covariance is not positive definite")
	}
	var lower mat.TriDense
	chol.LTo(&lower)
	kappa := max(0, 3-float64(n))
	points, weights = append(points, x.Mean), append(weights, kappa/(float64(n)+kappa))
	for _, step := range []float64{math.Sqrt(float64(n) + kappa), -math.Sqrt(float64(n) + kappa)} {
		for i := range n {
			points = append(points, floats.AddScaledTo(make([]float64, n), x.Mean, step, mat.Col(nil, i, &lower)))
			weights = append(weights, 0.5/(float64(n)+kappa))
		}
	}
	return points, weights, nil
}

// Condition returns the distribution of x given that y, which has covariance cross (n, m) with x, is observed as seen
// (m):
//
//	gain = cross Cov_y⁻¹,  mean = E[x] + gain (seen - E[y]),  covariance = Cov_x - gain Cov_y gainᵀ
//
// It also returns the logarithm of the density of seen. This is the heart of Kalman filtering. A Cov_y that is not
// positive definite is an error, and so are mismatched sizes.
func Condition(x, y Gaussian, cross *mat.Dense, seen []float64) (post Gaussian, gain *mat.Dense,
	logDensity float64, err error) {
	if rows, cols := cross.Dims(); rows != len(x.Mean) || cols != len(seen) || len(y.Mean) != len(seen) {
		return Gaussian{}, nil, 0,
			fmt.Errorf("ssm: condition a state of %d on %d numbers: %d are expected, with covariance (%d, %d)",
				len(x.Mean), len(seen), len(y.Mean), rows, cols)
	}
	var chol mat.Cholesky
	if !chol.Factorize(y.Cov) {
		return Gaussian{}, nil, 0, errors.New("ssm: condition: the covariance of what is seen is not positive definite")
	}
	gain, err = solveRight(&chol, cross)
	if err != nil {
		return Gaussian{}, nil, 0, fmt.Errorf("ssm: condition: %w", err)
	}
	surprise := floats.SubTo(make([]float64, len(seen)), seen, y.Mean)
	post.Mean = floats.AddTo(make([]float64, len(x.Mean)), x.Mean, mulVec(gain, surprise))
	post.Cov = plusQuadratic(x.Cov, -1, gain, y.Cov)

	var solved mat.VecDense
	s := mat.NewVecDense(len(surprise), surprise)
	if err := chol.SolveVecTo(&solved, s); err != nil {
		return Gaussian{}, nil, 0, fmt.Errorf("ssm: condition: %w", err)
	}
	logDensity = -0.5 * (mat.Dot(s, &solved) + chol.LogDet() + float64(len(seen))*math.Log(2*math.Pi))
	return post, gain, logDensity, nil
}

// spread returns J Cov Jᵀ and Cov Jᵀ.
func spread(j *mat.Dense, cov *mat.SymDense) (*mat.SymDense, *mat.Dense) {
	m, _ := j.Dims()
	var cross mat.Dense
	cross.Mul(cov, j.T())
	return plusQuadratic(mat.NewSymDense(m, nil), 1, j, cov), &cross
}

// plusQuadratic returns the symmetric matrix a + scale·g s gᵀ.
func plusQuadratic(a *mat.SymDense, scale float64, g *mat.Dense, s *mat.SymDense) *mat.SymDense {
	var quad mat.Dense
	quad.Product(g, s, g.T())
	n := a.SymmetricDim()
	sum := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ { // both halves, so that rounding favors neither
			sum.SetSym(i, j, a.At(i, j)+scale*(quad.At(i, j)+quad.At(j, i))/2)
		}
	}
	return sum
}

// solveRight returns b S⁻¹ for the symmetric S of chol.
func solveRight(chol *mat.Cholesky, b *mat.Dense) (*mat.Dense, error) {
	var t mat.Dense
	if err := chol.SolveTo(&t, b.T()); err != nil {
		return nil, err
	}
	return mat.DenseCopyOf(t.T()), nil
}

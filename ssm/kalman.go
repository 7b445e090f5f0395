package ssm

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Kalman estimates a state whose motion and observations are noisy:
//
//	x_{t+1} = move(x_t, u_t) + w,  w normal with covariance Q (n, n)
//	y_t     = see(x_t) + v,        v normal with covariance R (p, p)
//
// With [LinearMap] for both it is the Kalman filter, which is exact. With [Extended] it is the extended and with
// [Unscented] the unscented Kalman filter. R. Kalman, A new approach to linear filtering and prediction problems, 1960.
type Kalman struct {
	Move, See GaussianMap
	Q, R      *mat.SymDense
}

// Track holds the estimates of [Kalman.Filter] after each of l observations.
type Track struct {
	Predicted []Gaussian   // x_t from y_0 .. y_{t-1}; the first is the prior
	Filtered  []Gaussian   // x_t from y_0 .. y_t
	Gain      []*mat.Dense // of step t, (n, p)
	LogLik    []float64    // log density of y_t given the observations before it
	cross     []*mat.Dense // covariance of x_t and x_{t+1} given y_0 .. y_t
}

// Filter starts from the prior of x_0, before y_0, and processes the observations y (l, p). u (l, k) holds the inputs,
// or is nil if there are none; the last input is not used. Filter returns an error for mismatched sizes and for a
// covariance that is not positive definite but should be.
func (m *Kalman) Filter(prior Gaussian, u, y [][]float64) (*Track, error) {
	if n := len(prior.Mean); prior.Cov.SymmetricDim() != n || m.Q.SymmetricDim() != n {
		return nil, fmt.Errorf("ssm: Kalman filter: a mean of %d numbers, its covariance of %d, and Q of %d",
			n, prior.Cov.SymmetricDim(), m.Q.SymmetricDim())
	}
	if u != nil && len(u) != len(y) {
		return nil, fmt.Errorf("ssm: Kalman filter: %d inputs for %d observations", len(u), len(y))
	}
	track := &Track{}
	belief := prior
	for t, seen := range y {
		track.Predicted = append(track.Predicted, belief)
		expected, cross, err := m.See(belief, nil)
		if err != nil {
			return nil, fmt.Errorf("%w (step %d)", err, t)
		}
		if p := expected.Cov.SymmetricDim(); p != m.R.SymmetricDim() {
			return nil, fmt.Errorf("ssm: Kalman filter: an observation of %d numbers, R of %d", p, m.R.SymmetricDim())
		}
		expected.Cov.AddSym(expected.Cov, m.R)
		post, gain, logLik, err := Condition(belief, expected, cross, seen)
		if err != nil {
			return nil, fmt.Errorf("%w (step %d)", err, t)
		}
		track.Filtered = append(track.Filtered, post)
		track.Gain = append(track.Gain, gain)
		track.LogLik = append(track.LogLik, logLik)

		var ut []float64
		if u != nil {
			ut = u[t]
		}
		belief, cross, err = m.Move(post, ut)
		if err != nil {
			return nil, fmt.Errorf("%w (step %d)", err, t)
		}
		if n := belief.Cov.SymmetricDim(); n != m.Q.SymmetricDim() {
			return nil, fmt.Errorf("ssm: Kalman filter: the state moved to %d numbers, want %d", n, m.Q.SymmetricDim())
		}
		belief.Cov.AddSym(belief.Cov, m.Q)
		track.cross = append(track.cross, cross)
	}
	return track, nil
}

// Smooth returns the estimate of every x_t given all observations, past and future, computed backwards from the last:
//
//	G = cov(x_t, x_{t+1}) Cov_pred⁻¹
//	mean = m_t + G (smooth_{t+1} - pred_{t+1})
//	cov  = Cov_t + G (Smooth_{t+1} - Pred_{t+1}) Gᵀ
//
// Rauch, Tung and Striebel, Maximum likelihood estimates of linear dynamic systems, 1965.
func (k *Track) Smooth() ([]Gaussian, error) {
	l := len(k.Filtered)
	smooth := make([]Gaussian, l)
	for t := l - 1; t >= 0; t-- {
		now := k.Filtered[t]
		if t == l-1 {
			smooth[t] = now
			continue
		}
		next, pred := smooth[t+1], k.Predicted[t+1]
		var chol mat.Cholesky
		if !chol.Factorize(pred.Cov) {
			return nil, fmt.Errorf("ssm: smooth: the covariance predicted for step %d is not positive definite", t+1)
		}
		g, err := solveRight(&chol, k.cross[t])
		if err != nil {
			return nil, fmt.Errorf("ssm: smooth: step %d: %w", t, err)
		}
		change := floats.SubTo(make([]float64, len(next.Mean)), next.Mean, pred.Mean)
		var shrink mat.SymDense
		shrink.ScaleSym(-1, pred.Cov)
		shrink.AddSym(&shrink, next.Cov)
		smooth[t] = Gaussian{
			Mean: floats.AddTo(make([]float64, len(now.Mean)), now.Mean, mulVec(g, change)),
			Cov:  plusQuadratic(now.Cov, 1, g, &shrink),
		}
	}
	return smooth, nil
}

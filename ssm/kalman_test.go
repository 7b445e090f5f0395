package ssm

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// covariance returns G Gᵀ + I/2 for a random G.
func covariance(rng *rand.Rand, n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		s.SetSym(i, i, 0.5)
	}
	for range n {
		s.SymRankOne(s, 1, mat.NewVecDense(n, normals(rng, n)))
	}
	return s
}

func inverse(t rapid.TB, s mat.Matrix) *mat.Dense {
	var inv mat.Dense
	check(t, inv.Inverse(s))
	return &inv
}

// linearCase is a random linear system with l observations.
type linearCase struct {
	a, b, c *mat.Dense
	q, r    *mat.SymDense
	prior   Gaussian
	u, y    [][]float64
}

func drawLinear(t *rapid.T) linearCase {
	rng := drawRNG(t)
	n, p := rapid.IntRange(1, 3).Draw(t, "n"), rapid.IntRange(1, 2).Draw(t, "p")
	s := linearCase{
		a: mat.NewDense(n, n, normals(rng, n*n)), b: mat.NewDense(n, 1, normals(rng, n)),
		c: mat.NewDense(p, n, normals(rng, p*n)),
		q: covariance(rng, n), r: covariance(rng, p), prior: Gaussian{Mean: normals(rng, n), Cov: covariance(rng, n)},
	}
	s.a.Scale(0.5, s.a)
	for range rapid.IntRange(1, 8).Draw(t, "l") {
		s.u, s.y = append(s.u, normals(rng, 1)), append(s.y, normals(rng, p))
	}
	return s
}

func (s *linearCase) filter() *Kalman {
	return &Kalman{Move: LinearMap(s.a, s.b), See: LinearMap(s.c, nil), Q: s.q, R: s.r}
}

// TestPosteriorIsLeastSquares computes all states at once as the least squares solution of the prior, every move and
// every observation, each weighted by the inverse of its covariance. The smoother must find the same means, and its
// covariances must be the blocks of the inverse of the normal matrix. The last estimates of filter and smoother must be
// equal.
func TestPosteriorIsLeastSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawLinear(t)
		n, l := len(s.prior.Mean), len(s.y)
		normal, right := mat.NewDense(n*l, n*l, nil), mat.NewVecDense(n*l, nil)
		// add adds the equation rows·x = value, where x holds all states, with covariance cov to the normal equations.
		add := func(rows *mat.Dense, value []float64, cov *mat.SymDense) {
			var weighed, product mat.Dense
			weighed.Mul(rows.T(), inverse(t, cov))
			product.Mul(&weighed, rows)
			normal.Add(normal, &product)
			var v mat.VecDense
			v.MulVec(&weighed, mat.NewVecDense(len(value), value))
			right.AddVec(right, &v)
		}
		block := func(rows int, at int, m mat.Matrix) *mat.Dense {
			d := mat.NewDense(rows, n*l, nil)
			d.Slice(0, rows, at*n, (at+1)*n).(*mat.Dense).Copy(m)
			return d
		}
		eye := mat.NewDiagDense(n, slices.Repeat([]float64{1}, n))
		add(block(n, 0, eye), s.prior.Mean, s.prior.Cov)
		for k, y := range s.y {
			add(block(len(y), k, s.c), y, s.r)
			if k+1 < l {
				move := block(n, k+1, eye)
				move.Sub(move, block(n, k, s.a))
				add(move, mulVec(s.b, s.u[k]), s.q)
			}
		}
		cov := inverse(t, normal)
		mean := mulVec(cov, right.RawVector().Data)

		track, err := s.filter().Filter(s.prior, s.u, s.y)
		check(t, err)
		smooth, err := track.Smooth()
		check(t, err)
		near(t, "means", means(smooth), mean, 1e-9)
		for k, g := range smooth {
			want := mat.DenseCopyOf(cov.Slice(k*n, (k+1)*n, k*n, (k+1)*n))
			near(t, "covariance", mat.DenseCopyOf(g.Cov).RawMatrix().Data, want.RawMatrix().Data, 1e-9)
		}
		near(t, "last", track.Filtered[l-1].Mean, smooth[l-1].Mean, 0)
	})
}

// TestLinearFiltersAreSpecialCases checks that on a linear system the extended and the unscented filter equal the
// Kalman filter.
func TestLinearFiltersAreSpecialCases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawLinear(t)
		move := func(x, u []float64) []float64 {
			return floats.AddTo(make([]float64, len(x)), mulVec(s.a, x), mulVec(s.b, u))
		}
		see := func(x, _ []float64) []float64 { return mulVec(s.c, x) }
		constant := func(m *mat.Dense) func(x, u []float64) *mat.Dense {
			return func(_, _ []float64) *mat.Dense { return m }
		}
		want, err := s.filter().Filter(s.prior, s.u, s.y)
		check(t, err)
		smooth, err := want.Smooth()
		check(t, err)
		for name, m := range map[string]*Kalman{
			"extended":  {Move: Extended(move, constant(s.a)), See: Extended(see, constant(s.c)), Q: s.q, R: s.r},
			"unscented": {Move: Unscented(move), See: Unscented(see), Q: s.q, R: s.r},
		} {
			got, err := m.Filter(s.prior, s.u, s.y)
			check(t, err)
			near(t, name+" means", means(got.Filtered), means(want.Filtered), 1e-9)
			near(t, name+" covariances", covs(got.Filtered), covs(want.Filtered), 1e-9)
			near(t, name+" log likelihood", got.LogLik, want.LogLik, 1e-9)
			s, err := got.Smooth()
			check(t, err)
			near(t, name+" smoothed", means(s), means(smooth), 1e-9)
		}
	})
}

// TestUnscentedSeesCurvature checks the square of an x with mean 2 and variance 9. It has mean 13 and, as x is normal,
// variance 4·4·9 + 2·81.
func TestUnscentedSeesCurvature(t *testing.T) {
	x := Gaussian{Mean: []float64{2}, Cov: mat.NewSymDense(1, []float64{9})}
	square := func(x, _ []float64) []float64 { return []float64{x[0] * x[0]} }
	y, cross, err := Unscented(square)(x, nil)
	check(t, err)
	near(t, "unscented", []float64{y.Mean[0], y.Cov.At(0, 0), cross.At(0, 0)}, []float64{13, 306, 36}, 1e-13)
	y, cross, err = Extended(square, func(x, _ []float64) *mat.Dense {
		return mat.NewDense(1, 1, []float64{2 * x[0]})
	})(x, nil)
	check(t, err)
	near(t, "extended", []float64{y.Mean[0], y.Cov.At(0, 0), cross.At(0, 0)}, []float64{4, 144, 36}, 1e-13)
}

// TestUnscentedIdentity checks that an f that returns its argument does not alias the points that it is called with.
func TestUnscentedIdentity(t *testing.T) {
	x := Gaussian{Mean: []float64{1, -2}, Cov: mat.NewSymDense(2, []float64{2, 1, 1, 3})}
	y, cross, err := Unscented(func(x, _ []float64) []float64 { return x })(x, nil)
	check(t, err)
	near(t, "mean", y.Mean, x.Mean, 1e-14)
	near(t, "covariance", covs([]Gaussian{y}), covs([]Gaussian{x}), 1e-14)
	near(t, "cross", cross.RawMatrix().Data, covs([]Gaussian{x}), 1e-14)
}

// TestFiltersFollowPendulum estimates the angle of a pendulum that swings so far that sin θ differs from θ, from noisy
// observations of sin θ. Both filters must estimate the angle better than the arcsine of the observation, and their
// errors must be of the size that they claim.
func TestFiltersFollowPendulum(t *testing.T) {
	const dt, g, steps = 0.05, 9.81, 400
	move := func(x, _ []float64) []float64 {
		return []float64{x[0] + dt*x[1], x[1] - dt*g*math.Sin(x[0])}
	}
	moveSlope := func(x, _ []float64) *mat.Dense {
		return mat.NewDense(2, 2, []float64{1, dt, -dt * g * math.Cos(x[0]), 1})
	}
	see := func(x, _ []float64) []float64 { return []float64{math.Sin(x[0])} }
	seeSlope := func(x, _ []float64) *mat.Dense { return mat.NewDense(1, 2, []float64{math.Cos(x[0]), 0}) }
	q := mat.NewSymDense(2, []float64{1e-5, 0, 0, 1e-3})
	r := mat.NewSymDense(1, []float64{0.04})

	rng := rand.New(rand.NewPCG(1, 2))
	x := []float64{1.2, 0}
	var truth, seen [][]float64
	var naive float64
	for range steps {
		truth = append(truth, x)
		y := math.Sin(x[0]) + 0.2*rng.NormFloat64()
		seen = append(seen, []float64{y})
		naive += math.Pow(math.Asin(max(-1, min(1, y)))-x[0], 2) / steps
		x = move(x, nil)
		x[0] += math.Sqrt(1e-5) * rng.NormFloat64()
		x[1] += math.Sqrt(1e-3) * rng.NormFloat64()
	}
	prior := Gaussian{Mean: []float64{1, 0}, Cov: mat.NewSymDense(2, []float64{0.1, 0, 0, 0.1})}
	for name, m := range map[string]*Kalman{
		"extended":  {Move: Extended(move, moveSlope), See: Extended(see, seeSlope), Q: q, R: r},
		"unscented": {Move: Unscented(move), See: Unscented(see), Q: q, R: r},
	} {
		track, err := m.Filter(prior, nil, seen)
		check(t, err)
		smooth, err := track.Smooth()
		check(t, err)
		score := func(beliefs []Gaussian) (square, normalized float64) {
			for k, b := range beliefs {
				d := b.Mean[0] - truth[k][0]
				square += d * d / steps
				normalized += d * d / b.Cov.At(0, 0) / steps
			}
			return square, normalized
		}
		filtered, believed := score(track.Filtered)
		smoothed, _ := score(smooth)
		if filtered > naive/4 || smoothed > filtered {
			t.Errorf("%s: mean square error %.4g, smoothed %.4g, of arcsine %.4g", name, filtered, smoothed, naive)
		}
		if believed < 0.4 || believed > 2 { // 1 for a perfect filter; some tens of independent swings
			t.Errorf("%s: squared error over believed variance is %.3g, want about 1", name, believed)
		}
	}
}

func TestKalmanErrors(t *testing.T) {
	one := mat.NewDense(1, 1, []float64{1})
	zero := mat.NewSymDense(1, nil)
	x := Gaussian{Mean: []float64{0}, Cov: zero}
	id := func(x, _ []float64) []float64 { return x }
	if _, _, err := Unscented(id)(x, nil); err == nil || !strings.Contains(err.Error(), "not positive definite") {
		t.Errorf("unscented without covariance: %v", err)
	}
	sure := &Kalman{Move: LinearMap(one, nil), See: LinearMap(one, nil), Q: zero, R: zero}
	if _, err := sure.Filter(x, nil, [][]float64{{1}}); err == nil ||
		!strings.Contains(err.Error(), "not positive definite (step 0)") {
		t.Errorf("seen without noise: %v", err)
	}
	bad := &Kalman{Move: Unscented(id), See: LinearMap(one, nil), Q: zero, R: mat.NewSymDense(1, []float64{1})}
	if _, err := bad.Filter(x, nil, [][]float64{{1}}); err == nil ||
		!strings.Contains(err.Error(), "ssm: unscented: the covariance is not positive definite (step 0)") {
		t.Errorf("moved without covariance: %v", err)
	}
	still := &Kalman{Move: LinearMap(one, nil), See: LinearMap(one, nil), Q: zero, R: mat.NewSymDense(1, []float64{1})}
	track, err := still.Filter(x, nil, [][]float64{{1}, {1}})
	check(t, err)
	if _, err := track.Smooth(); err == nil || !strings.Contains(err.Error(), "step 1 is not positive definite") {
		t.Errorf("smoothed without covariance: %v", err)
	}

	unit := mat.NewSymDense(1, []float64{1})
	good := func() *Kalman {
		return &Kalman{Move: LinearMap(one, one), See: LinearMap(one, nil), Q: unit, R: unit}
	}
	x.Cov = unit
	inputs, y := [][]float64{{1}}, [][]float64{{1}}
	if _, err := good().Filter(x, inputs, y); err != nil {
		t.Errorf("sizes that fit: %v", err)
	}
	two, pair := mat.NewDense(2, 2, nil), mat.NewSymDense(2, []float64{1, 0, 0, 1})
	for want, run := range map[string]func() error{
		"a mean of 1 numbers, its covariance of 2": func() error {
			_, err := good().Filter(Gaussian{Mean: x.Mean, Cov: pair}, inputs, y)
			return err
		},
		"2 inputs for 1 observations": func() error {
			_, err := good().Filter(x, [][]float64{{1}, {1}}, y)
			return err
		},
		"condition a state of 1 on 2 numbers": func() error {
			_, err := good().Filter(x, inputs, [][]float64{{1, 2}})
			return err
		},
		"linear map: B is (1, 1), want (1, 2)": func() error {
			_, err := good().Filter(x, [][]float64{{1, 2}}, y)
			return err
		},
		"an observation of 1 numbers, R of 2": func() error {
			m := good()
			m.R = pair
			_, err := m.Filter(x, inputs, y)
			return err
		},
		"linear map of a state of 1: A has 2": func() error {
			m := good()
			m.See = LinearMap(two, nil)
			_, err := m.Filter(x, inputs, y)
			return err
		},
		"the state moved to 2 numbers, want 1": func() error {
			m := good()
			m.Move = LinearMap(mat.NewDense(2, 1, nil), nil)
			_, err := m.Filter(x, inputs, y)
			return err
		},
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

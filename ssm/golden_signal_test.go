package ssm

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

const (
	tolKalman     = 1e-9
	tolOscillator = 1e-10
)

// matrix returns a tensor of two axes.
func matrix(c golden.Case, name string) *mat.Dense {
	shape := c.Shape(name)
	return mat.NewDense(shape[0], shape[1], c.F64(name))
}

func symmetric(c golden.Case, name string) *mat.SymDense {
	return mat.NewSymDense(c.Shape(name)[0], c.F64(name))
}

// rowsOf returns the rows of a tensor of two axes.
func rowsOf(c golden.Case, name string) [][]float64 {
	return slices.Collect(slices.Chunk(c.F64(name), c.Shape(name)[1]))
}

// means and covs return the beliefs (l) as (l, n) and (l, n, n).
func means(beliefs []Gaussian) (x []float64) {
	for _, g := range beliefs {
		x = append(x, g.Mean...)
	}
	return x
}

func covs(beliefs []Gaussian) (x []float64) {
	for _, g := range beliefs {
		x = append(x, mat.DenseCopyOf(g.Cov).RawMatrix().Data...)
	}
	return x
}

func TestGoldenKalman(t *testing.T) {
	golden.Run(t, "09_kalman", func(t *testing.T, c golden.Case) {
		m := &Kalman{
			Move: LinearMap(matrix(c, "in/A"), matrix(c, "in/B")), See: LinearMap(matrix(c, "in/C"), nil),
			Q: symmetric(c, "in/Q"), R: symmetric(c, "in/R"),
		}
		prior := Gaussian{Mean: c.F64("in/m0"), Cov: symmetric(c, "in/P0")}
		u, y := rowsOf(c, "in/u"), rowsOf(c, "in/y")
		track, err := m.Filter(prior, u, y)
		check(t, err)
		smooth, err := track.Smooth()
		check(t, err)
		var gains []float64
		for _, g := range track.Gain {
			gains = append(gains, g.RawMatrix().Data...)
		}
		golden.Close(t, "mean_pred", means(track.Predicted), c.F64("out/mean_pred"), tolKalman)
		golden.Close(t, "cov_pred", covs(track.Predicted), c.F64("out/cov_pred"), tolKalman)
		golden.Close(t, "mean_filt", means(track.Filtered), c.F64("out/mean_filt"), tolKalman)
		golden.Close(t, "cov_filt", covs(track.Filtered), c.F64("out/cov_filt"), tolKalman)
		golden.Close(t, "gain", gains, c.F64("out/gain"), tolKalman)
		golden.Close(t, "loglik", track.LogLik, c.F64("out/loglik"), tolKalman)
		golden.Close(t, "mean_smooth", means(smooth), c.F64("out/mean_smooth"), tolKalman)
		golden.Close(t, "cov_smooth", covs(smooth), c.F64("out/cov_smooth"), tolKalman)

		// The truth must be as far from the estimates as their covariances predict: the squared distance (x-m)ᵀ P⁻¹
		// (x-m) has the mean n over steps, with a standard error of √(2n/steps).
		truth := rowsOf(c, "out/x_true")
		n, distance := len(prior.Mean), 0.0
		for k, g := range track.Filtered {
			d := mat.NewVecDense(n, slices.Clone(truth[k]))
			d.SubVec(d, mat.NewVecDense(n, g.Mean))
			var solved mat.VecDense
			check(t, solved.SolveVec(g.Cov, d))
			distance += mat.Dot(d, &solved) / float64(len(truth))
		}
		if off := math.Abs(distance - float64(n)); off > 3*math.Sqrt(2*float64(n)/float64(len(truth))) {
			t.Errorf("the truth is at %.3g from the filtered means, want about %d", distance, n)
		}

		// The covariances do not depend on the observations: any long run reaches the steady state.
		long := slices.Repeat(y, 50)
		track, err = m.Filter(prior, slices.Repeat(u, 50), long)
		check(t, err)
		steady := track.Predicted[len(long)-1:]
		golden.Close(t, "steady cov_pred", covs(steady), c.F64("out/cov_pred_steady_state"), tolKalman)
	})
}

func TestGoldenOscillator(t *testing.T) {
	golden.Run(t, "09_oscillator", func(t *testing.T, c golden.Case) {
		var config struct {
			Mass, B, K, Dt float64
			L              int
		}
		c.Config(&config)
		spring := Spring{Mass: config.Mass, Friction: config.B, Stiffness: config.K}
		sys := spring.System()
		golden.Close(t, "A", sys.A.RawMatrix().Data, c.F64("in/A"), tolOscillator)
		golden.Close(t, "B", sys.B, c.F64("in/B"), tolOscillator)
		golden.Close(t, "C", sys.C, c.F64("in/C"), tolOscillator)
		u, x0 := c.F64("in/u"), c.F64("in/x0")

		for _, m := range []Method{Bilinear, ZOH, Euler, BackwardEuler} {
			s, err := sys.Discretize(config.Dt, m)
			check(t, err)
			golden.Close(t, m.String()+"/Ad", s.Abar.RawMatrix().Data, c.F64(m.String()+"/Ad"), tolOscillator)
			golden.Close(t, m.String()+"/Bd", s.Bbar, c.F64(m.String()+"/Bd"), tolOscillator)
			golden.Close(t, m.String()+"/kernel", s.Kernel(config.L), c.F64(m.String()+"/kernel"), tolOscillator)
			golden.Close(t, m.String()+"/y", s.Scan(nil, u), c.F64(m.String()+"/y"), tolOscillator)
			golden.Close(t, m.String()+"/y by convolution", s.Convolve(nil, u), c.F64(m.String()+"/y"), tolOscillator)

			var states, free []float64
			x, f := make([]float64, 2), slices.Clone(x0)
			for _, uk := range u {
				s.Step(x, uk)
				s.Step(f, 0)
				states, free = append(states, x...), append(free, f...)
			}
			golden.Close(t, m.String()+"/states", states, c.F64(m.String()+"/states"), tolOscillator)
			golden.Close(t, m.String()+"/free_states", free, c.F64(m.String()+"/free_states"), tolOscillator)
		}
		var exact []float64
		for k := range config.L {
			exact = append(exact, spring.Free(x0, float64(k+1)*config.Dt)...)
		}
		golden.Close(t, "exact/free_states", exact, c.F64("exact/free_states"), tolOscillator)
	})
}

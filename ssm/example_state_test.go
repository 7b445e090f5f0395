package ssm_test

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/ssm"
)

// A mass on a spring with friction comes to rest.
func ExampleSpring() {
	s := ssm.Spring{Mass: 1, Friction: 0.5, Stiffness: 40}
	for _, t := range []float64{0, 0.5, 1, 2, 4} {
		fmt.Printf("t = %.1f: position %+.3f\n", t, s.Free([]float64{1, 0}, t)[0])
	}
	fmt.Printf("resonance at %.3f turns per unit of time\n", s.Resonance()/(2*math.Pi))
	// Output:
	// t = 0.0: position +1.000
	// t = 0.5: position -0.883
	// t = 1.0: position +0.779
	// t = 2.0: position +0.607
	// t = 4.0: position +0.366
	// resonance at 1.005 turns per unit of time
}

// Ten samples per second show at most five turns per second. Faster ones look like slower ones.
func ExampleAlias() {
	for _, f := range []float64{3, 7, 13} {
		fmt.Printf("%2v looks like %v\n", f, ssm.Alias(f, 0.1))
	}
	// Output:
	//  3 looks like 3
	//  7 looks like -3
	// 13 looks like 3
}

// A constant is observed four times with noise of variance 1. The filter's estimate is the mean, pulled slightly toward
// the prior.
func ExampleKalman() {
	one := mat.NewDense(1, 1, []float64{1})
	m := &ssm.Kalman{
		Move: ssm.LinearMap(one, nil), See: ssm.LinearMap(one, nil),
		Q: mat.NewSymDense(1, nil), R: mat.NewSymDense(1, []float64{1}),
	}
	prior := ssm.Gaussian{Mean: []float64{0}, Cov: mat.NewSymDense(1, []float64{100})}
	track, err := m.Filter(prior, nil, [][]float64{{5.2}, {4.9}, {5.4}, {4.7}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, x := range track.Filtered {
		fmt.Printf("%.3f ± %.3f\n", x.Mean[0], math.Sqrt(x.Cov.At(0, 0)))
	}
	// Output:
	// 5.149 ± 0.995
	// 5.025 ± 0.705
	// 5.150 ± 0.576
	// 5.037 ± 0.499
}

// Sixteen numbers, updated at each step, hold the last unit of time of a signal.
func ExampleMemorize() {
	const dt = 1e-3
	signal := func(t float64) float64 { return math.Sin(9*t) + t*t }
	f := make([]float64, 2000)
	for k := range f {
		f[k] = signal((float64(k) + 0.5) * dt)
	}
	a, b := ssm.LegT(16)
	c, err := ssm.Memorize(a, b, f, dt, ssm.ZOH)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := []float64{0.1, 0.5, 0.9} // of the window from 1 to 2
	for k, v := range ssm.Reconstruct(ssm.Legendre, c[len(f)-1], at) {
		fmt.Printf("at %.1f: %.4f, was %.4f\n", 1+at[k], v, signal(1+at[k]))
	}
	// Output:
	// at 1.1: 0.7525, was 0.7525
	// at 1.5: 3.0538, was 3.0538
	// at 1.9: 2.6259, was 2.6259
}

// LegS as a diagonal matrix minus one of rank 1. The modes rotate at very different speeds.
func ExampleNPLR() {
	s, _, err := ssm.NPLR("legs", 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	for k, lambda := range s.Lambda {
		fmt.Printf("Λ %.4f  |P|² %.4f\n", lambda, real(s.P[0][k])*real(s.P[0][k])+imag(s.P[0][k])*imag(s.P[0][k]))
	}
	// Output:
	// Λ (-0.5000-19.8574i)  |P|² 13.2902
	// Λ (-0.5000-5.3542i)  |P|² 1.6999
	// Λ (-0.5000-1.9578i)  |P|² 0.6903
	// Λ (-0.5000-0.4275i)  |P|² 0.3196
}

// S4 trains C~, which gives the kernel of one chosen length directly. The recurrence needs C itself.
func ExampleDPLR_CauchyKernel() {
	s, _, err := ssm.NPLR("legs", 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Dt, s.C = 0.1, []complex128{1, 1i}
	fmt.Printf("%.5f\n", s.Kernel(4))
	s.C = s.TruncatedC(4)
	fmt.Printf("%.5f\n", s.CauchyKernel(4))
	// Output:
	// [0.01945 0.14846 0.15743 0.11645]
	// [0.01945 0.14846 0.15743 0.11645]
}

// A selective model that forgets everything if its step is long and nothing if it is 0: it copies the marked inputs.
func ExampleSelective() {
	s := &ssm.Selective{A: []complex128{-50}}
	u := []float64{7, 1, 2, 9, 3, 3}
	for _, marked := range []bool{true, false, false, true, false, false} {
		dt := 0.0
		if marked {
			dt = 1
		}
		s.Dt, s.B, s.C = append(s.Dt, dt), append(s.B, []complex128{1}), append(s.C, []complex128{1})
	}
	fmt.Printf("%.0f\n", s.Scan(nil, u))
	// Output: [7 7 7 9 9 9]
}

package ssm

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Spring is a mass on a spring with friction, pushed by u:
//
//	Mass·v' + Friction·v + Stiffness·p = u,  v = p'
//
// Its state is position and speed (p, v), and its output the position.
type Spring struct {
	Mass, Friction, Stiffness float64
}

// System returns A = [0 1; -k/m -b/m], B = (0, 1/m), C = (1, 0).
func (s Spring) System() *Continuous {
	return &Continuous{
		A: mat.NewDense(2, 2, []float64{0, 1, -s.Stiffness / s.Mass, -s.Friction / s.Mass}),
		B: []float64{0, 1 / s.Mass},
		C: []float64{1, 0},
	}
}

// Free returns the state after a time t without a push, from x0 (2). With γ = b/2m and ω² = k/m - γ²
//
//	exp(tA) = exp(-γt) (cos ωt I + sin ωt/ω (A + γI))
//
// which oscillates for ω² > 0. For ω² < 0, with too much friction, cos ωt and sin ωt/ω become cosh |ω|t and sinh
// |ω|t/|ω|. For ω = 0 they become 1 and t.
func (s Spring) Free(x0 []float64, t float64) []float64 {
	gamma := s.Friction / (2 * s.Mass)
	square := s.Stiffness/s.Mass - gamma*gamma
	omega := math.Sqrt(math.Abs(square))
	cos, sinc := 1.0, t // sinc is sin ωt/ω
	switch {
	case square > 0:
		cos, sinc = math.Cos(omega*t), math.Sin(omega*t)/omega
	case square < 0:
		cos, sinc = math.Cosh(omega*t), math.Sinh(omega*t)/omega
	}
	slope := mulVec(s.System().A, x0)
	floats.AddScaled(slope, gamma, x0)
	x := make([]float64, 2)
	floats.AddScaled(x, math.Exp(-gamma*t)*cos, x0)
	floats.AddScaled(x, math.Exp(-gamma*t)*sinc, slope)
	return x
}

// Response returns H(ω) = 1/(k - mω² + ibω): a push of cos ωt leads to the motion Re H exp(iωt), of amplitude |H|.
func (s Spring) Response(omega float64) complex128 {
	return 1 / complex(s.Stiffness-s.Mass*omega*omega, s.Friction*omega)
}

// Resonance returns the angular frequency at which |[Spring.Response]| is largest, √(k/m - b²/2m²), or 0 if friction
// leaves no peak.
func (s Spring) Resonance() float64 {
	r := s.Friction / s.Mass
	return math.Sqrt(max(0, s.Stiffness/s.Mass-r*r/2))
}

// Alias returns the frequency, between -1/(2dt) and 1/(2dt), that has the same samples every dt as freq: freq minus the
// nearest multiple of the sampling rate 1/dt. If freq is between half the rate and the rate, the result is negative: a
// cosine looks slower, and a sine slower and inverted. Above the rate it starts again from 0.
func Alias(freq, dt float64) float64 {
	return math.Remainder(freq, 1/dt)
}

package ssm

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Continuous is x' = Ax + Bu, y = Cx + Du with A (n, n), B (n), C (n).
type Continuous struct {
	A    *mat.Dense
	B, C []float64
	D    float64
}

// Discretize samples s every dt. C and D are unchanged.
func (s *Continuous) Discretize(dt float64, m Method) (*Discrete, error) {
	if len(s.C) != len(s.B) {
		return nil, fmt.Errorf("ssm: discretize: C has %d entries, want %d as B has", len(s.C), len(s.B))
	}
	Abar, Bbar, err := Discretize(s.A, s.B, dt, m)
	if err != nil {
		return nil, err
	}
	return &Discrete{Abar: Abar, Bbar: Bbar, C: s.C, D: s.D}, nil
}

// ImpulseResponse returns h(t) = C exp(tA) B for a finite t ≥ 0. Then y(t) = ∫ h(s) u(t-s) ds + D u(t), and the kernels
// of every method and every dt are samples of h: K_l/dt tends to h(l dt) as dt tends to 0.
func (s *Continuous) ImpulseResponse(t float64) float64 {
	var at mat.Dense
	at.Scale(t, s.A)
	at.Exp(&at)
	return floats.Dot(s.C, mulVec(&at, s.B))
}

// Discrete is x_k = Abar x_{k-1} + Bbar u_k, y_k = C x_k + D u_k with Abar (n, n), Bbar (n), C (n). It may come from
// [Continuous.Discretize] or be given directly. Every state passed to its methods has n entries.
type Discrete struct {
	Abar    *mat.Dense
	Bbar, C []float64
	D       float64
}

// Step advances the state x (n) by one step, in place, and returns the output.
func (s *Discrete) Step(x []float64, u float64) (y float64) {
	copy(x, mulVec(s.Abar, x))
	floats.AddScaled(x, u, s.Bbar)
	return floats.Dot(s.C, x) + s.D*u
}

// Scan steps through u (l) from the state x (n) and replaces x by the state after u. If x is nil, the state starts at
// zero and is not returned.
func (s *Discrete) Scan(x, u []float64) (y []float64) {
	if x == nil {
		x = make([]float64, len(s.Bbar))
	}
	y = make([]float64, len(u))
	for k, uk := range u {
		y[k] = s.Step(x, uk)
	}
	return y
}

// Kernel returns K_j = C Abarʲ Bbar for j < l: the response to u = (1, 0, 0, ...), without D.
func (s *Discrete) Kernel(l int) []float64 {
	kernel := make([]float64, l)
	v := s.Bbar
	for j := range kernel {
		kernel[j] = floats.Dot(s.C, v)
		v = mulVec(s.Abar, v)
	}
	return kernel
}

// ZeroInput returns C Abarᵏ⁺¹ x0 for k < l: the response to the initial state x0 (n) without input.
func (s *Discrete) ZeroInput(x0 []float64, l int) []float64 {
	y := make([]float64, l)
	x := x0
	for k := range y {
		x = mulVec(s.Abar, x)
		y[k] = floats.Dot(s.C, x)
	}
	return y
}

// Convolve returns the y of [Discrete.Scan] by its other definition, y_k = C Abarᵏ⁺¹ x0 + (K * u)_k + D u_k. A nil x0
// stands for zero. x0 is not changed.
func (s *Discrete) Convolve(x0, u []float64) (y []float64) {
	y = Convolve(s.Kernel(len(u)), u)
	if x0 != nil {
		floats.Add(y, s.ZeroInput(x0, len(u)))
	}
	floats.AddScaled(y, s.D, u)
	return y
}

func mulVec(a *mat.Dense, x []float64) []float64 {
	var y mat.VecDense
	y.MulVec(a, mat.NewVecDense(len(x), x))
	return y.RawVector().Data
}

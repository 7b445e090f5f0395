package ssm

// Shift is H3's shift SSM. Its matrix shifts the state down by one, so that x_i gets the value of x_{i-1}, and B u is
// added.
//
//	x_k = shift(x_{k-1}) + B u_k,  y_k = C x_k
//
// With B = e₁ = (1, 0, ..., 0) the state is the last n inputs, newest first, and y their dot product with C: a
// one-dimensional convolution of width n. H3, arXiv:2212.14052, §3.1; in the released models B is trained. B, C and a
// state have n entries each.
type Shift struct {
	B, C []float64
}

// Step advances the state x (n) by one step, in place, and returns the output.
func (s *Shift) Step(x []float64, u float64) (y float64) {
	copy(x[1:], x)
	x[0] = 0
	for i, b := range s.B {
		x[i] += b * u
		y += s.C[i] * x[i]
	}
	return y
}

// Scan steps through u (l) from the state x (n) and replaces x by the state after u. If x is nil, the state starts at
// zero and is not returned.
func (s *Shift) Scan(x, u []float64) (y []float64) {
	if x == nil {
		x = make([]float64, len(s.B))
	}
	y = make([]float64, len(u))
	for k, uk := range u {
		y[k] = s.Step(x, uk)
	}
	return y
}

// Kernel returns K_j = Σ_i B_i C_{i+j} for j < l, zero from j = n on: shifting more than n-1 times empties the state.
func (s *Shift) Kernel(l int) []float64 {
	kernel := make([]float64, l)
	for j := range min(l, len(s.B)) {
		for i, c := range s.C[j:] {
			kernel[j] += s.B[i] * c
		}
	}
	return kernel
}

// KernelGrad returns the gradient of a loss with respect to B and C (n each), given g (l), its gradient with respect to
// Kernel(l):
//
//	dB_i = Σ_j g_j C_{i+j},  dC_i = Σ_{j≤i} g_j B_{i-j},  j < min(l, n)
func (s *Shift) KernelGrad(g []float64) (dB, dC []float64) {
	n := len(s.B)
	dB, dC = make([]float64, n), make([]float64, n)
	for j := range min(len(g), n) {
		for i := range n - j {
			dB[i] += g[j] * s.C[i+j]
			dC[i+j] += g[j] * s.B[i]
		}
	}
	return dB, dC
}

// FinalState returns the state after u (l) from x0 (n) in one sum instead of l steps:
//
//	x_i = x0_{i-l} + Σ_{j≤min(i,l-1)} B_{i-j} u_{l-1-j}
//
// where x0 below index 0 is zero. x0 and u are not changed.
func (s *Shift) FinalState(x0, u []float64) []float64 {
	x := make([]float64, len(s.B))
	for i := range x {
		if i >= len(u) {
			x[i] = x0[i-len(u)]
		}
		for j := range min(i+1, len(u)) {
			x[i] += s.B[i-j] * u[len(u)-1-j]
		}
	}
	return x
}

// ZeroInput returns y_k = Σ_i C_{i+k+1} x0_i for k < l: the response to the initial state x0 (n), zero from k = n-1 on.
func (s *Shift) ZeroInput(x0 []float64, l int) []float64 {
	y := make([]float64, l)
	for k := range min(l, len(s.C)) {
		for i, c := range s.C[k+1:] {
			y[k] += c * x0[i]
		}
	}
	return y
}

package ssm

import (
	"math/cmplx"

	"gonum.org/v1/gonum/mat"
)

// Selective is one channel of Mamba's selective state-space model over l steps. Its dt, B and C depend on the signal:
//
//	x_k = exp(dt_k A) x_{k-1} + dt_k B_k u_k,  y_k = Re Σ_i C_ki x_ki + D u_k
//
// with A (n), Dt (l), B and C (l, n). Abar follows zero-order hold, and Bbar the Euler rule. With Pairs, every mode
// also represents its conjugate, and y_k = 2 Re Σ. Mamba, arXiv:2312.00752, §3.2 and algorithm 2.
type Selective struct {
	A     []complex128
	B, C  [][]complex128
	Dt    []float64
	D     float64
	Pairs bool
}

// Scan steps through u (l) from the state x (n) and replaces x by the state after u. If x is nil, the state starts at
// zero and is not returned.
func (s *Selective) Scan(x []complex128, u []float64) (y []float64) {
	if x == nil {
		x = make([]complex128, len(s.A))
	}
	y = make([]float64, len(u))
	for k, uk := range u {
		step := s.step(k, uk)
		for i := range x {
			x[i] = step.decay[i]*x[i] + step.add[i]
		}
		y[k] = s.output(k, x, uk)
	}
	return y
}

// ParallelScan returns the y of [Selective.Scan] from the state x0 (n), which it does not change, and all states. It
// composes steps in pairs: a step maps x to decay·x + add, the composition of two such maps has the same form, and
// composition is associative. So the l prefixes take about log₂ l rounds on enough cores. Mamba, §3.3.2; Blelloch,
// Prefix sums and their applications, 1990.
func (s *Selective) ParallelScan(x0 []complex128, u []float64) (y []float64, states [][]complex128) {
	steps := make([]affine, len(u))
	for k, uk := range u {
		steps[k] = s.step(k, uk)
	}
	y = make([]float64, len(u))
	states = make([][]complex128, len(u))
	for k, prefix := range prefixes(steps, affine.then) {
		states[k] = prefix.apply(x0)
		y[k] = s.output(k, states[k], u[k])
	}
	return y, states
}

// Matrix returns the M (l, l) with y = M u from a state of zero: M_kj = Re Σ_i C_ki exp(A_i (dt_{j+1} + ... + dt_k))
// dt_j B_ji for j ≤ k, plus D on the diagonal. A selective model is a kind of attention whose matrix is semiseparable.
// Mamba-2, arXiv:2405.21060, §3. l must be positive.
func (s *Selective) Matrix() *mat.Dense {
	l := len(s.Dt)
	m := mat.NewDense(l, l, nil)
	for j := range l {
		x := s.step(j, 1).add
		for k := j; k < l; k++ {
			if k > j {
				x = affine{s.step(k, 0).decay, make([]complex128, len(x))}.apply(x)
			}
			d := 0.0
			if k == j {
				d = 1
			}
			m.Set(k, j, s.output(k, x, d))
		}
	}
	return m
}

// Slice returns the model of the steps from, ..., to-1.
func (s *Selective) Slice(from, to int) *Selective {
	part := *s
	part.B, part.C, part.Dt = s.B[from:to], s.C[from:to], s.Dt[from:to]
	return &part
}

// affine is the map x → decay·x + add of a step, entry by entry.
type affine struct{ decay, add []complex128 }

// then returns f followed by g.
func (f affine) then(g affine) affine {
	joined := affine{make([]complex128, len(f.decay)), g.apply(f.add)}
	for i, d := range g.decay {
		joined.decay[i] = d * f.decay[i]
	}
	return joined
}

func (f affine) apply(x []complex128) []complex128 {
	y := make([]complex128, len(x))
	for i, v := range x {
		y[i] = f.decay[i]*v + f.add[i]
	}
	return y
}

// prefixes returns f_0, f_0 then f_1, ... It composes neighboring pairs, finds the prefixes of those, and fills in
// every second one.
func prefixes[T any](f []T, then func(f, g T) T) []T {
	if len(f) < 2 {
		return f
	}
	joined := make([]T, len(f)/2)
	for k := range joined {
		joined[k] = then(f[2*k], f[2*k+1])
	}
	all := make([]T, len(f))
	all[0] = f[0]
	for k, p := range prefixes(joined, then) {
		all[2*k+1] = p
		if 2*k+2 < len(f) {
			all[2*k+2] = then(p, f[2*k+2])
		}
	}
	return all
}

func (s *Selective) step(k int, u float64) affine {
	f := affine{make([]complex128, len(s.A)), make([]complex128, len(s.A))}
	dt := complex(s.Dt[k], 0)
	for i, a := range s.A {
		f.decay[i] = cmplx.Exp(dt * a)
		f.add[i] = dt * s.B[k][i] * complex(u, 0)
	}
	return f
}

func (s *Selective) output(k int, x []complex128, u float64) float64 {
	y := real(dot(s.C[k], x))
	if s.Pairs {
		y *= 2
	}
	return y + s.D*u
}

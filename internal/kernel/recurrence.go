package kernel

// DiagRecurrence holds diagonal systems of N complex modes, each with Per channels that share its A, B, C and skip.
// Complex numbers are pairs (re, im).
type DiagRecurrence struct {
	Systems, Per, N int
	A, B, C         []float32 // (Systems, N)
	Skip            []float32 // (Systems)
}

// Step advances every channel by one input:
//
//	x ← A·x + B·u,  z = 2 Re Σ_n C·x + skip·u
//
// with the states x (Systems, Per, N), and z and u (Systems, Per).
func (r *DiagRecurrence) Step(z, u, x []float32) {
	systems, per, n := r.Systems, r.Per, r.N
	a, b, c, skip := r.A, r.B, r.C, r.Skip
	z, u, skip = z[:systems*per], u[:systems*per], skip[:systems]
	x, a, b, c = x[:2*n*systems*per], a[:2*n*systems], b[:2*n*systems], c[:2*n*systems]
	if !cpu.has(diagStepsCode) || n == 0 || systems == 0 || per == 0 {
		for i := range z {
			s := i / per
			z[i] = diagStep(x[2*n*i:][:2*n], a[2*n*s:], b[2*n*s:], c[2*n*s:], u[i]) + float32(skip[s]*u[i])
		}
		return
	}
	step := max(1, stepsPerCall/(n*per)) // number of systems in a call of assembly
	for s := 0; s < systems; s += step {
		i := s * per
		vecDiagSteps(min(step, systems-s), per, 2*n, &z[i], &u[i], &skip[s], &x[2*n*i], &a[2*n*s], &b[2*n*s], &c[2*n*s])
	}
}

// stepsPerCall is the number of modes that take about 50 µs when read from memory.
const stepsPerCall = 1 << 15

// diagStep advances one channel and returns 2 Re Σ_n c·x.
func diagStep(x, a, b, c []float32, u float32) float32 {
	a, b, c = a[:len(x)], b[:len(x)], c[:len(x)]
	var y float32
	for i := 0; i+1 < len(x); i += 2 {
		re := float32(a[i]*x[i]) - float32(a[i+1]*x[i+1]) + float32(b[i]*u)
		im := float32(a[i]*x[i+1]) + float32(a[i+1]*x[i]) + float32(b[i+1]*u)
		x[i], x[i+1] = re, im
		y += float32(c[i]*re) - float32(c[i+1]*im)
	}
	return 2 * y
}

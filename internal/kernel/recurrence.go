package kernel

// DiagStep advances one channel's complex modes by one input, x ← a·x + b·u, and returns 2 Re Σ_n c·x. All arrays hold n
// pairs (re, im).
func DiagStep(x, a, b, c []float32, u float32) float32 {
	a, b, c = a[:len(x)], b[:len(x)], c[:len(x)]
	var y float32
	for i := 0; i+1 < len(x); i += 2 {
		re := a[i]*x[i] - a[i+1]*x[i+1] + b[i]*u
		im := a[i]*x[i+1] + a[i+1]*x[i] + b[i+1]*u
		x[i], x[i+1] = re, im
		y += c[i]*re - c[i+1]*im
	}
	return 2 * y
}

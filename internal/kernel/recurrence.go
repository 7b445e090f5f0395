package kernel

// DiagStep advances one channel's complex modes by one input, x ← a·x + b·u, and returns 2 Re Σ_n c·x. All arrays hold n
// pairs (re, im).
func DiagStep(x, a, b, c []float32, u float32) float32 {
	a, b, c = a[:len(x)], b[:len(x)], c[:len(x)]
	if cpu != generic && len(x) > 1 {
		return vecDiagStep(len(x)&^1, &x[0], &a[0], &b[0], &c[0], u)
	}
	var y float32
	for i := 0; i+1 < len(x); i += 2 {
		re := float32(a[i]*x[i]) - float32(a[i+1]*x[i+1]) + float32(b[i]*u)
		im := float32(a[i]*x[i+1]) + float32(a[i+1]*x[i]) + float32(b[i+1]*u)
		x[i], x[i+1] = re, im
		y += float32(c[i]*re) - float32(c[i+1]*im)
	}
	return 2 * y
}

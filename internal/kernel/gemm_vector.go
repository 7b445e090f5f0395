package kernel

// Dot returns Σ_i x[i]·y[i] for the length of x. Several partial sums, over the elements with equal i mod 4 or over
// vectors, are added at the end: the order depends only on the length.
func Dot(x, y []float32) float32 {
	y = y[:len(x)]
	if cpu.has(dotCode) && len(x) > 0 {
		return vecDot(len(x), &x[0], &y[0])
	}
	var s0, s1, s2, s3 float32
	i := 0
	for ; i < len(x)-3; i += 4 {
		s0 += float32(x[i] * y[i])
		s1 += float32(x[i+1] * y[i+1])
		s2 += float32(x[i+2] * y[i+2])
		s3 += float32(x[i+3] * y[i+3])
	}
	for ; i < len(x); i++ {
		s0 += float32(x[i] * y[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// Axpy adds a·x[i] to y[i] for the length of x; levels above generic round once.
func Axpy(a float32, x, y []float32) {
	y = y[:len(x)]
	if cpu.has(axpyCode) && len(x) > 0 {
		vecAxpy(len(x), a, &x[0], &y[0])
		return
	}
	for i, v := range x {
		y[i] += float32(v * a)
	}
}

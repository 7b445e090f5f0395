package kernel

// powers sets re + i·im to c·z^j for j < len(re), a positive multiple of powerLanes.
func powers(re, im []float32, c, z complex128) {
	if cpu == generic {
		powersPortable(re, im, c, z)
	} else {
		powersAVX2(&re[0], &im[0], len(re), real(c), imag(c), real(z), imag(z))
	}
}

// polynomials evaluates polynomialLanes polynomials of u and of w at y: see polynomialsPortable.
func polynomials(s *[4][polynomialLanes]float64, u, w []float32, ld, im, n int, y *[2][polynomialLanes]float64) {
	if cpu == generic {
		polynomialsPortable(s, u, w, ld, im, n, y)
	} else {
		polynomialsAVX2(&s[0][0], &u[0], &w[0], ld, im, n, &y[0][0])
	}
}

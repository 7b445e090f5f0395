//go:build !amd64

package kernel

// There is no assembly for Vandermonde products on this architecture.

// powers sets re + i·im to c·z^j for j < len(re), a positive multiple of powerLanes.
func powers(re, im []float32, c, z complex128) { powersPortable(re, im, c, z) }

// polynomials evaluates polynomialLanes polynomials of u and of w at y: see polynomialsPortable.
func polynomials(s *[4][polynomialLanes]float64, u, w []float32, ld, im, n int, y *[2][polynomialLanes]float64) {
	polynomialsPortable(s, u, w, ld, im, n, y)
}

package kernel

// ShiftStep advances shift SSMs by one step, as when decoding a token: for channels i < len(x), with states s and B, C
// (channels, n),
//
//	s'[i,0] = B[i,0] x[i],   s'[i,j] = s[i,j-1] + B[i,j] x[i],   y[i] = Σ_j C[i,j] s'[i,j] + D[i] x[i]
//
// s' overwrites s. y must not overlap the others.
func ShiftStep(s, b, c, x, d, y []float32, n int) {
	channels := len(x)
	s, b, c, d, y = s[:channels*n], b[:channels*n], c[:channels*n], d[:channels], y[:channels]
	if channels > 0 && n > 0 && n%16 == 0 && directShiftStep(s, b, c, x, d, y, n) {
		return
	}
	for i, u := range x {
		s, b, c := s[i*n:][:n], b[i*n:][:n], c[i*n:][:n]
		sum := float32(0)
		for j := n - 1; j >= 0; j-- {
			before := float32(0)
			if j > 0 {
				before = s[j-1]
			}
			s[j] = before + float32(b[j]*u)
			sum += float32(c[j] * s[j])
		}
		y[i] = sum + float32(d[i]*u)
	}
}

// directShiftStep computes ShiftStep in assembly, and reports whether there is any. n is a multiple of 16; there is at
// least one channel.
func directShiftStep(s, b, c, x, d, y []float32, n int) bool {
	if !cpu.has(shiftStepCode) {
		return false
	}
	const floats = 1 << 17 // in a call, some 40 µs
	channels := max(1, floats/n)
	for i := 0; i < len(x); i += channels {
		m, at := min(channels, len(x)-i), i*n
		vecShiftStep(m, n, &s[at], &b[at], &c[at], &x[i], &d[i], &y[i])
	}
	return true
}

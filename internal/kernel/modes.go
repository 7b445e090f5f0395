package kernel

// ModeLanes divides the number of modes of a channel, which is rounded up, because the kernels work on ModeLanes modes
// at a time.
const ModeLanes = 16

// Modes are complex numbers in float64, one for each mode of a channel: n real parts, then n imaginary parts, where n
// is a multiple of ModeLanes. Padding is zero.
type Modes []float64

// N returns n.
func (m Modes) N() int { return len(m) / 2 }

func (m Modes) at(i int) complex128 { return complex(m[i], m[len(m)/2+i]) }

func (m Modes) set(i int, x complex128) { m[i], m[len(m)/2+i] = real(x), imag(x) }

// room returns a slice of n elements, in the memory of s if that is large enough.
func room[T ~[]E, E any](s T, n int) T {
	if cap(s) < n {
		return make(T, n)
	}
	return s[:n]
}

// Mul sets m = a·x·y, mode by mode; m may be x or y.
func (m Modes) Mul(a float64, x, y Modes) {
	n := m.N()
	if cpu.has(modesMulCode) {
		vecModesMul(n, &m[0], &x[:2*n][0], &y[:2*n][0], a)
		return
	}
	re, im, xr, xi, yr, yi := m[:n], m[n:][:n], x[:n], x[n:][:n], y[:n], y[n:][:n]
	for i := range re {
		a0, a1, b0, b1 := xr[i], xi[i], yr[i], yi[i]
		re[i] = a * (float64(a0*b0) - float64(a1*b1))
		im[i] = a * (float64(a0*b1) + float64(a1*b0))
	}
}

// MulConj sets m = a·x·conj(y), mode by mode; m may be x or y.
func (m Modes) MulConj(a float64, x, y Modes) {
	n := m.N()
	if cpu.has(modesMulConjCode) {
		vecModesMulConj(n, &m[0], &x[:2*n][0], &y[:2*n][0], a)
		return
	}
	re, im, xr, xi, yr, yi := m[:n], m[n:][:n], x[:n], x[n:][:n], y[:n], y[n:][:n]
	for i := range re {
		a0, a1, b0, b1 := xr[i], xi[i], yr[i], yi[i]
		re[i] = a * (float64(a0*b0) + float64(a1*b1))
		im[i] = a * (float64(a1*b0) - float64(a0*b1))
	}
}

// AddConjMul adds a·conj(x·y) to m, mode by mode: the form of most gradients.
func (m Modes) AddConjMul(a float64, x, y Modes) {
	n := m.N()
	if cpu.has(modesAddConjMulCode) {
		vecModesAddConjMul(n, &m[0], &x[:2*n][0], &y[:2*n][0], a)
		return
	}
	re, im, xr, xi, yr, yi := m[:n], m[n:][:n], x[:n], x[n:][:n], y[:n], y[n:][:n]
	for i := range re {
		a0, a1, b0, b1 := xr[i], xi[i], yr[i], yi[i]
		re[i] += float64(a * (float64(a0*b0) - float64(a1*b1)))
		im[i] -= float64(a * (float64(a0*b1) + float64(a1*b0)))
	}
}

// Add adds a·x to m.
func (m Modes) Add(a float64, x Modes) {
	x = x[:len(m)]
	for i, v := range x {
		m[i] += float64(a * v)
	}
}

// Power sets m = x^l, l ≥ 0, by squaring; scratch is as long as m. They must not overlap.
func (m Modes) Power(x Modes, l int, scratch Modes) {
	for i := range m.N() {
		m[i], m[m.N()+i] = 1, 0
	}
	copy(scratch, x)
	for ; l > 0; l /= 2 {
		if l%2 == 1 {
			m.Mul(1, m, scratch)
		}
		scratch.Mul(1, scratch, scratch)
	}
}

// times returns x·y with each product rounded before the sum. The operator * may fuse them on some machines.
func times(x, y complex128) complex128 {
	a, b, c, d := real(x), imag(x), real(y), imag(y)
	return complex(float64(a*c)-float64(b*d), float64(a*d)+float64(b*c))
}

// scaled returns a·x, each product rounded: see times.
func scaled(a float64, x complex128) complex128 {
	return complex(float64(a*real(x)), float64(a*imag(x)))
}

// realConj returns Re(x·conj(y)).
func realConj(x, y complex128) float64 {
	return float64(real(x)*real(y)) + float64(imag(x)*imag(y))
}

// conj sets m = conj(x), mode by mode; m may be x.
func (m Modes) conj(x Modes) {
	n := m.N()
	copy(m[:n], x)
	for i, y := range x[n:] {
		m[n+i] = -y
	}
}

package reference

import "math"

// matrix is a square matrix, stored as its rows.
type matrix [][]float64

func zeros(n int) matrix {
	m := make(matrix, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}

func identity(n int) matrix {
	m := zeros(n)
	for i := range m {
		m[i][i] = 1
	}
	return m
}

// plus returns m + s·k.
func (m matrix) plus(s float64, k matrix) matrix {
	y := zeros(len(m))
	for i, row := range m {
		for j, v := range row {
			y[i][j] = v + s*k[i][j]
		}
	}
	return y
}

func (m matrix) times(k matrix) matrix {
	y := zeros(len(m))
	for i, row := range m {
		for j, v := range row {
			for c, w := range k[j] {
				y[i][c] += v * w
			}
		}
	}
	return y
}

func (m matrix) transposed() matrix {
	y := zeros(len(m))
	for i, row := range m {
		for j, v := range row {
			y[j][i] = v
		}
	}
	return y
}

// power returns m to the power of n, by repeated squaring.
func (m matrix) power(n int) matrix {
	y := identity(len(m))
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			y = y.times(m)
		}
		m = m.times(m)
	}
	return y
}

// inverse returns m⁻¹ by Gauss-Jordan elimination: the row operations that turn m into the identity turn the identity
// into m⁻¹.
func (m matrix) inverse() matrix {
	n := len(m)
	m, y := m.plus(0, m), identity(n)
	for c := range n {
		pivot := c
		for i := c; i < n; i++ {
			if math.Abs(m[i][c]) > math.Abs(m[pivot][c]) {
				pivot = i
			}
		}
		m[c], m[pivot], y[c], y[pivot] = m[pivot], m[c], y[pivot], y[c]
		for i := range n {
			if i == c {
				continue
			}
			f := m[i][c] / m[c][c]
			for j := range n {
				m[i][j] -= f * m[c][j]
				y[i][j] -= f * y[c][j]
			}
		}
		f := 1 / m[c][c]
		for j := range n {
			m[c][j] *= f
			y[c][j] *= f
		}
	}
	return y
}

// of returns the product m·x.
func (m matrix) of(x []float64) []float64 {
	y := make([]float64, len(m))
	for i, row := range m {
		y[i] = dot(row, x)
	}
	return y
}

// addOuter adds x·yᵀ to m.
func (m matrix) addOuter(x, y []float64) {
	for i, row := range m {
		for j := range row {
			row[j] += x[i] * y[j]
		}
	}
}

package reference

// Complex numbers lie in tensors (…, 2) as pairs of a real and an imaginary part. The gradient g of a complex number z
// is ∂/∂Re z + i·∂/∂Im z, so that
//
//	y = f(z) analytic:  g_z = g_y·conj(f'(z)),     y = 2 Re z:  g_z = 2 g_y

// pair returns complex number i in x.
func pair(x []float64, i int) complex128 { return complex(x[2*i], x[2*i+1]) }

// setPair sets complex number i in x.
func setPair(x []float64, i int, z complex128) { x[2*i], x[2*i+1] = real(z), imag(z) }

// addPair adds z to complex number i in x.
func addPair(x []float64, i int, z complex128) { setPair(x, i, pair(x, i)+z) }

// pairs returns all complex numbers in x.
func pairs(x []float64) []complex128 {
	z := make([]complex128, len(x)/2)
	for i := range z {
		z[i] = pair(x, i)
	}
	return z
}

// unpaired is the inverse of pairs.
func unpaired(z []complex128) []float64 {
	x := make([]float64, 2*len(z))
	for i, v := range z {
		setPair(x, i, v)
	}
	return x
}

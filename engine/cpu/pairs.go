package cpu

// Complex numbers lie in tensors as pairs of real part and imaginary part.

func pair(x []float32, i int) complex128 { return complex(float64(x[2*i]), float64(x[2*i+1])) }

func addPair(x []float32, i int, v complex128) {
	if x != nil {
		x[2*i] += float32(real(v))
		x[2*i+1] += float32(imag(v))
	}
}

func setPair(x []float32, i int, v complex128) { x[2*i], x[2*i+1] = float32(real(v)), float32(imag(v)) }

package ssm

// ScanPieces computes y of [Diagonal.Scan] over u (l) piece by piece, as FlashConv computes a signal that is too long
// for one transform. The output of each piece of size inputs has two parts: own, the convolution of the piece with the
// kernel by FFT, and past, the response to the state that the earlier pieces have left. Only this state is passed from
// one piece to the next.
//
//	y = own + past,  own = K * u[piece],  past_k = Re Σ_i C_i Abar_iᵏ⁺¹ x_i, twice that with Pairs
//
// states (pieces, n) holds the states at the beginning of each piece. size must be positive. H3, arXiv:2212.14052,
// §4.2.
func (s *Diagonal) ScanPieces(m Method, u []float64, size int) (own, past []float64, states [][]complex128) {
	kernel := s.Kernel(m, min(size, len(u)))
	x := make([]complex128, len(s.A))
	for from := 0; from < len(u); from += size {
		piece := u[from:min(from+size, len(u))]
		states = append(states, append([]complex128(nil), x...))
		own = append(own, ConvolveFFT(kernel[:len(piece)], piece)[:len(piece)]...)
		past = append(past, s.ZeroInput(m, x, len(piece))...)
		s.Scan(m, x, piece)
	}
	return own, past, states
}

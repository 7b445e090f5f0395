package kernel

// The shift SSM of H3 (arXiv:2212.14052 §3.1): s ← shift(s) + B x, y = C·s + D x, where shift moves entry j to j+1. Its
// impulse response is h[i] = Σ_j B[j] C[i+j], zero for i ≥ n. Activations are (l, d), channels last; B, C and states
// are (d, n); taps are (n, d).

// ShiftFilter holds the first M ≤ N taps of the impulse responses of D channels.
type ShiftFilter struct {
	B, C    []float32 // (D, N)
	D, N, M int
}

// Taps fills taps[i·d + c] = Σ_j B[c,j] C[c,i+j] for i < M and the channels c in [lo, hi).
func (f *ShiftFilter) Taps(taps []float32, lo, hi int) {
	d, n := f.D, f.N
	for ch := lo; ch < hi; ch++ {
		bc, cc := f.B[ch*n:][:n], f.C[ch*n:][:n]
		for i := range f.M {
			taps[i*d+ch] = Dot(bc[:n-i], cc[i:])
		}
	}
}

// Grad adds the gradients of B and C given dtaps, the gradients of the taps: dB[j] += Σ_i dh[i] C[i+j],
// dC[i+j] += Σ_i dh[i] B[j].
func (f *ShiftFilter) Grad(db, dc, dtaps []float32, lo, hi int) {
	d, n := f.D, f.N
	for ch := lo; ch < hi; ch++ {
		bc, cc := f.B[ch*n:][:n], f.C[ch*n:][:n]
		dbc, dcc := db[ch*n:][:n], dc[ch*n:][:n]
		for i := range f.M {
			g := dtaps[i*d+ch]
			Axpy(g, cc[i:], dbc[:n-i])
			Axpy(g, bc[:n-i], dcc[i:])
		}
	}
}

// ShiftCarry is one channel over a chunk of L inputs.
type ShiftCarry struct {
	B, C []float32 // (n)
	S    []float32 // the state before the chunk (n)
	X    []float32 // the inputs
	L    int
	Step int // distance between inputs or outputs, in floats
}

// Run adds the contribution of the old state to the outputs, y[t] += Σ_{j>t} C[j] s[j-t-1], then it writes the state
// after the chunk,
//
//	next[j] = s[j-l] + Σ_{m≤j, j-m<l} B[m] x[l-1-(j-m)]
//
// next may be S itself.
func (k *ShiftCarry) Run(next, y []float32) {
	b, c, s, x, d, n, l := k.B, k.C, k.S, k.X, k.Step, len(k.B), k.L
	for t := range min(l, n-1) {
		y[t*d] += Dot(c[t+1:n], s[:n-t-1])
	}
	copy(next[min(l, n):n], s[:n-min(l, n)])
	clear(next[:min(l, n)])
	for i := range min(l, n) { // the input i steps before the last has moved by i
		Axpy(x[(l-1-i)*d], b[:n-i], next[i:n])
	}
}

// ShiftCarryGrads holds the gradients of B, C, S and X. That of S may be nil.
type ShiftCarryGrads struct{ B, C, S, X []float32 }

// Grad is the backward pass of Run: given dnext (n, may be nil) and dy it adds to all of g.
func (k *ShiftCarry) Grad(g ShiftCarryGrads, dnext, dy []float32) {
	b, c, s, x, d, n, l := k.B, k.C, k.S, k.X, k.Step, len(k.B), k.L
	db, dc, ds, dx := g.B, g.C, g.S, g.X
	for t := range min(l, n-1) {
		g := dy[t*d]
		Axpy(g, s[:n-t-1], dc[t+1:n])
		if ds != nil {
			Axpy(g, c[t+1:n], ds[:n-t-1])
		}
	}
	if dnext == nil {
		return
	}
	if ds != nil && l < n {
		Add(ds[:n-l], dnext[l:n])
	}
	for i := range min(l, n) {
		at := (l - 1 - i) * d
		dx[at] += Dot(b[:n-i], dnext[i:n])
		Axpy(x[at], dnext[i:n], db[:n-i])
	}
}

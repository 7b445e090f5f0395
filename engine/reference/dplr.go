package reference

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// dense holds a channel of a DPLRSystem as matrices. A state of n complex numbers, each of which also stands for its
// conjugate, is a vector of 2n real ones as in tensors: real part, imaginary part. For these vectors, multiplication by
// λ_i is a block ((Re, -Im), (Im, Re)) on the diagonal, p_r^* x is 2 p_r·x, and 2 Re Σ C x is c·x with c of pairs (2 Re
// C, -2 Im C). c~ is derived from C~ as c from C:
//
//	A = λ - 2 Σ_r p_r p_rᵀ,   Q = (I - A)⁻¹,   Ā = Q (I + A),   B̄ = 2 Q b,   c = c~ (I - Ā^L)⁻¹
//
// Differentials follow from each other by
//
//	dĀ = Q dA (I + Ā),   dB̄ = Q (2 db + dA B̄),   dc = (dc~ + Σ_k c Ā^k dĀ Ā^(L-1-k)) (I - Ā^L)⁻¹
//
// and therefore backward, given the gradients of Ā, B̄ and c:
//
//	r = (I - Ā^L)⁻¹ g_c,   g_c~ = r,   g_Ā += Σ_k (c Ā^k)ᵀ (Ā^(L-1-k) r)ᵀ  over k < L
//	g_A = Qᵀ g_Ā (I + Ā)ᵀ + Qᵀ g_B̄ B̄ᵀ,   g_b = 2 Qᵀ g_B̄,   g_p_r = -2 (g_A + g_Aᵀ) p_r
//	g_Re λ_i = g_A[2i, 2i] + g_A[2i+1, 2i+1],   g_Im λ_i = g_A[2i+1, 2i] - g_A[2i, 2i+1]
type dense struct {
	Q, Abar, last matrix // last is (I - Ā^L)⁻¹
	Bbar, c       []float64

	gAbar     matrix // the gradients, zeros at first
	gBbar, gc []float64
}

// matrices returns the matrices of all channels of s.
func (eng *Engine) matrices(s *engine.DPLRSystem) []*dense {
	if kept, ok := s.Private.([]*dense); ok && !eng.Recording {
		return kept
	}
	systems := make([]*dense, s.H)
	for h := range systems {
		systems[h] = eng.dense(s, h)
	}
	return systems
}

// dense returns the matrices of channel h of s.
func (eng *Engine) dense(s *engine.DPLRSystem, h int) *dense {
	n := 2 * s.N
	λ, A := eng.values(s.Lambda)[h*n:], zeros(n)
	for i := 0; i < n; i += 2 {
		A[i][i], A[i][i+1] = λ[i], -λ[i+1]
		A[i+1][i], A[i+1][i+1] = λ[i+1], λ[i]
	}
	for r := range s.Rank {
		p := eng.values(s.P)[(r*s.H+h)*n:][:n]
		for i := range n {
			for j := range n {
				A[i][j] -= 2 * p[i] * p[j]
			}
		}
	}
	I := identity(n)
	m := &dense{Q: I.plus(-1, A).inverse(), gAbar: zeros(n), gBbar: make([]float64, n), gc: make([]float64, n)}
	m.Abar = m.Q.times(I.plus(1, A))
	m.last = I.plus(-1, m.Abar.power(s.L)).inverse()
	b, ct := make([]float64, n), make([]float64, n) // 2b and c~
	for i := range n {
		b[i] = 2 * eng.values(s.B)[h*n+i]
		ct[i] = 2 * eng.values(s.Ct)[h*n+i]
		if i%2 == 1 {
			ct[i] = -ct[i]
		}
	}
	m.Bbar, m.c = m.Q.of(b), m.last.transposed().of(ct)
	return m
}

// back propagates the gradients of Ā, B̄ and c to those of the system.
func (m *dense) back(eng *Engine, s *engine.DPLRSystem, h int) {
	n := 2 * s.N
	dλ, db, dCt := eng.gradOf(s.Lambda)[h*n:], eng.gradOf(s.B)[h*n:], eng.gradOf(s.Ct)[h*n:]
	dp := eng.grad(s.P, s.Rank*s.H*n)
	r := m.last.of(m.gc)
	for i, v := range r {
		if i%2 == 1 {
			v = -v
		}
		dCt[i] += 2 * v
	}
	right := make([][]float64, s.L) // Ā^k r
	for k := range right {
		right[k] = r
		r = m.Abar.of(r)
	}
	left, transposed := m.c, m.Abar.transposed() // c Ā^k
	for k := range s.L {
		m.gAbar.addOuter(left, right[s.L-1-k])
		left = transposed.of(left)
	}
	Qt := m.Q.transposed()
	gA := Qt.times(m.gAbar).times(identity(n).plus(1, m.Abar).transposed())
	through := Qt.of(m.gBbar)
	gA.addOuter(through, m.Bbar)
	for i, v := range through {
		db[i] += 2 * v
	}
	for r := range s.Rank {
		p := eng.values(s.P)[(r*s.H+h)*n:][:n]
		for i := range n {
			for j := range n {
				dp[(r*s.H+h)*n+i] -= 2 * (gA[i][j] + gA[j][i]) * p[j]
			}
		}
	}
	for i := 0; i < n; i += 2 {
		dλ[i] += gA[i][i] + gA[i+1][i+1]
		dλ[i+1] += gA[i+1][i] - gA[i][i+1]
	}
}

// run steps x' = Ā x + B̄ u, y = c x' through u from the state x. It returns y, and the states before each step and
// after the last.
func (m *dense) run(x, u []float64) (y []float64, states [][]float64) {
	states = [][]float64{x}
	for _, u := range u {
		x = m.Abar.of(x)
		for i, b := range m.Bbar {
			x[i] += b * u
		}
		y, states = append(y, dot(m.c, x)), append(states, x)
	}
	return y, states
}

// runBack is the backward pass of run, with g the gradient of the state after a step, at first that of the last state:
//
//	g += dy cᵀ,   g_c += dy x',   g_B̄ += g u,   g_Ā += g xᵀ,   du = g·B̄,   g ← Āᵀ g
//
// It returns du and the gradient of the first state.
func (m *dense) runBack(dy, u, g []float64, states [][]float64) (du, first []float64) {
	du = make([]float64, len(u))
	g = slices.Clone(g)
	transposed := m.Abar.transposed()
	for t := len(u) - 1; t >= 0; t-- {
		for i := range g {
			g[i] += dy[t] * m.c[i]
			m.gc[i] += dy[t] * states[t+1][i]
			m.gBbar[i] += g[i] * u[t]
		}
		m.gAbar.addOuter(g, states[t])
		du[t] = dot(g, m.Bbar)
		g = transposed.of(g)
	}
	return du, g
}

// DPLRKernel is the impulse response of each system, (l, h): K[j] = c Ā^j B̄.
func (eng *Engine) DPLRKernel(s *engine.DPLRSystem, l int) *tensor.Tensor {
	k := eng.New(l, s.H)
	K, impulse, zero := eng.values(k), make([]float64, l), make([]float64, 2*s.N)
	impulse[0] = 1
	systems, states := eng.matrices(s), make([][][]float64, s.H)
	for h, m := range systems {
		var y []float64
		y, states[h] = m.run(zero, impulse)
		for j, v := range y {
			K[j*s.H+h] = v
		}
	}
	eng.record("DPLRKernel", list{k}, list{s.Lambda, s.B, s.P, s.Ct}, func() {
		dK := eng.gradOf(k)
		for h, m := range systems {
			m.runBack(column(dK, h, s.H, l), impulse, zero, states[h])
			m.back(eng, s, h)
		}
	})
	return k
}

// DPLRSSM computes y = SSM(u) + D u. Each row and channel is stepped by its dense system, whatever the row's length.
func (eng *Engine) DPLRSSM(u *tensor.Tensor, s *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	n, d := 2*s.N, s.H
	y := eng.like(u)
	us, ys, D := eng.values(u), eng.values(y), eng.start(skip, d)
	carried := eng.carry(slots, r, d*n)
	systems, states := eng.matrices(s), make([][][]float64, r.Count()*d)
	for row := range r.Count() {
		from, l, after := r.From(row)*d, r.Len(row), carried.after(row)
		for h, m := range systems {
			in, x := column(us[from:], h, d, l), after[h*n:][:n]
			out, steps := m.run(slices.Clone(x), in)
			for t, v := range out {
				ys[from+t*d+h] = v + D[h]*in[t]
			}
			states[row*d+h] = steps
			copy(x, steps[l])
		}
	}
	eng.recordRows("DPLRSSM", list{y}, list{u, s.Lambda, s.B, s.P, s.Ct, skip}, carried, func() {
		dy, du, dD := eng.gradOf(y), eng.gradOf(u), eng.grad(skip, d)
		for h, m := range systems {
			for row := range r.Count() {
				from, l := r.From(row)*d, r.Len(row)
				dstate, dnext := carried.grads(row)
				in, out := column(us[from:], h, d, l), column(dy[from:], h, d, l)
				through, first := m.runBack(out, in, dnext[h*n:][:n], states[row*d+h])
				for t := range l {
					du[from+t*d+h] += through[t] + D[h]*out[t]
					dD[h] += out[t] * in[t]
				}
				for i, v := range first {
					dstate[h*n+i] += v
				}
			}
			m.back(eng, s, h)
		}
	})
	return y
}

// column returns column c of l rows of the given width.
func column(x []float64, c, width, l int) []float64 {
	y := make([]float64, l)
	for t := range y {
		y[t] = x[t*width+c]
	}
	return y
}

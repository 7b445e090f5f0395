package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// decayedGrad runs backward through the chunks of a head, from the last to the first. With dN and dd the gradients of N
// and d, dS and dz those of the state after the chunk, and KW = L[n]·u·K,
//
//	dW = dN Vᵀ + dd,   dQ = (L ⊙ dW)(u·K) + e^A·(dN Sᵀ + dd zᵀ),   dV = Wᵀ dN + KW dS
//	d(u·K) = (L ⊙ dW)ᵀ Q + L[n]·(V dSᵀ + 1 dzᵀ),   dS ← e^A[n]·dS + (e^A·Q)ᵀ dN,   dz ← e^A[n]·dz + (e^A·Q)ᵀ dd
//
// The gradient of a step a is the sum over all exponents that contain it.
type decayedGrad struct {
	*decayed
	dq, dk, dv     []float32 // to add to, laid out as q, k and v
	dsteps, dwrite []float32 // (l), of steps and of write
	down           []float32 // (l), of own, nil if own is nil
	ds, dz         []float32
	dw, de, dstart []float32 // scratch: dW (n, n), rows (n, e) and the gradient of A (n)
	sums, ends     []float32 // (n)
}

// lend gives the head and its gradients memory, and returns more floats for the caller. It must be given back with
// putFloats.
func (g *decayedGrad) lend(more int) []float32 {
	c := g.ranks * min(g.positions(), len(g.steps))
	rest := g.decayed.lend(c*c + c*g.e + 3*c + more)
	for _, x := range []struct {
		to *[]float32
		n  int
	}{{&g.dw, c * c}, {&g.de, c * g.e}, {&g.dstart, c}, {&g.sums, c}, {&g.ends, c}} {
		*x.to, rest = rest[:x.n:x.n], rest[x.n:]
	}
	return rest
}

// back runs backward through the loaded positions [t0, t1). dn (n, m) has rows ld floats apart; dd (n) is nil without a
// normalizer.
func (g *decayedGrad) back(t0, t1 int, dn []float32, ld int, dd []float32) {
	n, e, m := g.n, g.e, g.m
	q, k, v := g.rows(g.q, g.qStep, t0), g.rows(g.k, g.qStep, t0), g.rows(g.v, g.vStep, t0)
	dq, dk, dv := g.rows(g.dq, g.qStep, t0), g.rows(g.dk, g.qStep, t0), g.rows(g.dv, g.vStep, t0)
	gemm := kernel.GemmInline
	gemm(kernel.Product{Op: kernel.NT, M: n, N: n, K: m, A: dn, LDA: ld, B: v, LDB: g.vStep, C: g.dw, LDC: n})
	for i, d := range dd {
		kernel.Axpy(d, linearOnes[:n], g.dw[i*n:][:n])
	}
	gemm(kernel.Product{Op: kernel.TN, M: n, N: m, K: n, A: g.w, LDA: n, B: dn, LDB: ld, C: dv, LDC: g.vStep,
		Add: true})
	gemm(kernel.Product{Op: kernel.NN, M: n, N: m, K: e, A: g.kw, LDA: e, B: g.ds, LDB: m, C: dv, LDC: g.vStep,
		Add: true})
	if g.own != nil {
		g.backOwn(t0, q, k, dq, dk)
	}
	// W is no longer needed: it becomes the gradient of the exponents of L, and then dW becomes L ⊙ dW.
	kernel.Mul(g.w[:n*n], g.dw[:n*n])
	kernel.Mul(g.dw[:n*n], g.l[:n*n])
	gemm(kernel.Product{Op: kernel.NN, M: n, N: e, K: n, A: g.dw, LDA: n, B: g.ku, LDB: e, C: dq, LDC: g.qStep,
		Add: true})
	g.backStart(q, dq, dn, ld, dd)
	gemm(kernel.Product{Op: kernel.NT, M: n, N: e, K: m, A: v, LDA: g.vStep, B: g.ds, LDB: m, C: g.de, LDC: e})
	for i, weight := range g.end[:n] {
		row := g.de[i*e:][:e]
		if g.dz != nil {
			kernel.Add(row, g.dz)
		}
		kernel.Scale(row, weight)
		g.ends[i] = kernel.Dot(row, g.ku[i*e:][:e])
	}
	gemm(kernel.Product{Op: kernel.TN, M: n, N: e, K: n, A: g.dw, LDA: n, B: q, LDB: g.qStep, C: g.de, LDC: e,
		Add: true})
	for i := range n {
		row, t := g.de[i*e:][:e], t0+i/g.ranks
		g.dwrite[t] += kernel.Dot(row, k[i*g.qStep:][:e])
		kernel.Axpy(g.weight[i], row, dk[i*g.qStep:][:e])
	}
	g.backSteps(t0)
	kernel.Scale(g.ds, g.start[n-1])
	gemm(kernel.Product{Op: kernel.TN, M: e, N: m, K: n, A: g.qe, LDA: e, B: dn, LDB: ld, C: g.ds, LDC: m, Add: true})
	if g.dz != nil {
		kernel.Scale(g.dz, g.start[n-1])
		for i, d := range dd {
			kernel.Axpy(d, g.qe[i*e:][:e], g.dz)
		}
	}
}

// backOwn is the backward pass of the reads of a position from its own keys. It removes their part from W.
func (g *decayedGrad) backOwn(t0 int, q, k, dq, dk []float32) {
	g.eachOwn(func(i, j int) {
		t, d := t0+i/g.ranks, g.dw[i*g.n+j]
		qi, kj := q[i*g.qStep:][:g.e], k[j*g.qStep:][:g.e]
		g.down[t] += float32(d * kernel.Dot(qi, kj))
		kernel.Axpy(d*g.own[t], kj, dq[i*g.qStep:][:g.e])
		kernel.Axpy(d*g.own[t], qi, dk[j*g.qStep:][:g.e])
		g.w[i*g.n+j] = 0
	})
}

// backStart is the backward pass of the contribution of the state before the chunk: (e^A·Q) S.
func (g *decayedGrad) backStart(q, dq, dn []float32, ld int, dd []float32) {
	n, e := g.n, g.e
	clear(g.dstart[:n])
	if g.zero {
		return
	}
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: n, N: e, K: g.m, A: dn, LDA: ld, B: g.s, LDB: g.m, C: g.de,
		LDC: e})
	for i := range n {
		row := g.de[i*e:][:e]
		if dd != nil {
			kernel.Axpy(dd[i], g.z, row)
		}
		kernel.Scale(row, g.start[i])
		g.dstart[i] = kernel.Dot(row, q[i*g.qStep:][:e])
		kernel.Add(dq[i*g.qStep:][:e], row)
	}
	through := kernel.Dot(g.ds, g.s)
	if g.dz != nil {
		through += kernel.Dot(g.dz, g.z)
	}
	g.dstart[n-1] += g.start[n-1] * through
}

// backSteps computes the gradients of steps from those of the exponents: of L, which w holds now, of A, dstart, and of
// the decays to the end of the chunk, ends.
func (g *decayedGrad) backSteps(t0 int) {
	n := g.n
	sums := g.sums[:n]
	clear(sums)
	before := 0.0 // ends of the rows before i
	for _, v := range g.ends[:n] {
		before += float64(v)
	}
	after := 0.0 // dstart of the rows from i on
	for i := n - 1; i >= 0; i-- {
		after += float64(g.dstart[i])
		before -= float64(g.ends[i])
		kernel.Add(sums[:i], g.w[i*n:][:i])
		if i%g.ranks == 0 {
			g.dsteps[t0+i/g.ranks] = kernel.Dot(sums[:i], linearOnes[:i]) + float32(after+before)
		}
	}
}

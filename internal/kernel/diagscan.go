package kernel

// DiagScan is a channel of a diagonal system with n complex modes, whose positions are at uneven times:
//
//	x[t] = decay·x[t-1] + gain·u[t],   y[t] = 2 Re Σ_n C x[t] + skip·u[t]
//
// with the decay and the gain of the time between two positions from a table. Complex vectors are n real parts, then n
// imaginary ones.
type DiagScan struct {
	N     int
	Table []float32 // for each time, 2n floats of decays and 2n of gains
	C     []float32
	Skip  float32
}

// Step steps the state x by entry k of the table and returns the output.
func (s *DiagScan) Step(x []float32, k int, u float32) float32 {
	n := s.N
	e, xr, xi, cr, ci := s.Table[4*n*k:][:4*n], x[:n], x[n:][:n], s.C[:n], s.C[n:][:n]
	dr, di, gr, gi := e[:n], e[n:][:n], e[2*n:][:n], e[3*n:][:n]
	var sum float32
	for i, re := range xr {
		im := xi[i]
		a := float32(dr[i]*re) - float32(di[i]*im) + float32(gr[i]*u)
		b := float32(dr[i]*im) + float32(di[i]*re) + float32(gi[i]*u)
		xr[i], xi[i] = a, b
		sum += float32(cr[i]*a) - float32(ci[i]*b)
	}
	return 2*sum + float32(s.Skip*u)
}

// DiagScanGrads holds the gradients of a DiagScan's table and of its C, in float64 because they are summed over many
// positions.
type DiagScanGrads struct{ Table, C []float64 }

// Back is the backward pass of Step: from the state before, the state after, and the gradient dy of the output. g, the
// gradient of the state after, is replaced by that of the state before. Back adds to d, and returns the gradient of u
// without the part of the skip.
func (s *DiagScan) Back(d *DiagScanGrads, g, before, after []float32, k int, u, dy float32) (du float32) {
	n := s.N
	e, t := s.Table[4*n*k:][:4*n], d.Table[4*n*k:][:4*n]
	dr, di, gr, gi := e[:n], e[n:][:n], e[2*n:][:n], e[3*n:][:n]
	tdr, tdi, tgr, tgi := t[:n], t[n:][:n], t[2*n:][:n], t[3*n:][:n]
	cr, ci, dcr, dci := s.C[:n], s.C[n:][:n], d.C[:n], d.C[n:][:n]
	br, bi, ar, ai := before[:n], before[n:][:n], after[:n], after[n:][:n]
	re, im := g[:n], g[n:][:n]
	out := 2 * dy
	for i := range re {
		a, b := re[i]+float32(out*cr[i]), im[i]-float32(out*ci[i])
		dcr[i] += float64(out * ar[i])
		dci[i] -= float64(out * ai[i])
		tdr[i] += float64(float32(a*br[i]) + float32(b*bi[i])) // g·conj(x)
		tdi[i] += float64(float32(b*br[i]) - float32(a*bi[i]))
		tgr[i] += float64(a * u)
		tgi[i] += float64(b * u)
		du += float32(a*gr[i]) + float32(b*gi[i])                                           // Re g·conj(gain)
		re[i], im[i] = float32(a*dr[i])+float32(b*di[i]), float32(b*dr[i])-float32(a*di[i]) // g·conj(decay)
	}
	return du
}

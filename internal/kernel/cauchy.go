package kernel

// Cauchy holds the terms of CauchySums, set by Mode and Term. There are M sums, each with one term for each of n modes
// λ_i; a mode stands for itself and its conjugate:
//
//	S_j(s) = Σ_i v_ij/(s - λ_i) + conj(v_ij)/(s - conj λ_i)
//
// These are products with a Cauchy matrix. On the imaginary axis let s = i·t, T = t² and S_j = X_j + i·t·Y_j. Both
// fractions over a common denominator, expanded by its conjugate, give X_j and Y_j real numerators and denominators:
//
//	X_j = Σ_i (a_ij + b_ij·T)·u_i,  Y_j = Σ_i (c_ij + d_ij·T)·u_i,  u_i = 1/((|λ_i|² - T)² + (2 Re λ_i)²·T)
//
// That costs one division per mode and a product with a real matrix. Near a mode it loses as many digits as Im λ/Re λ
// has, which float64 can afford.
type Cauchy struct {
	M          int
	Norm, Damp []float64 // (n): |λ|² and (2 Re λ)²
	Coef       []float64 // (n, M, 4): a, b, c and d
}

// Resize gives c room for n modes and m sums. The values are undefined.
func (c *Cauchy) Resize(n, m int) {
	c.M = m
	for _, x := range []struct {
		of *[]float64
		n  int
	}{{&c.Norm, n}, {&c.Damp, n}, {&c.Coef, 4 * n * m}} {
		if cap(*x.of) < x.n {
			*x.of = make([]float64, x.n)
		}
		*x.of = (*x.of)[:x.n]
	}
}

// Clear sets c to zero, so that gradients can be added to it.
func (c *Cauchy) Clear() {
	clear(c.Norm)
	clear(c.Damp)
	clear(c.Coef)
}

// Mode sets λ_i.
func (c *Cauchy) Mode(i int, lambda complex128) {
	re, im := real(lambda), imag(lambda)
	c.Norm[i], c.Damp[i] = re*re+im*im, 4*re*re
}

// Term sets v_ij, after Mode(i, lambda). With α = 2 Re v and β = 2 Re(v·conj λ) the fractions are (α·s - β)/(s² - 2 Re
// λ·s + |λ|²).
func (c *Cauchy) Term(i, j int, lambda, v complex128) {
	re, norm := real(lambda), c.Norm[i]
	alpha, beta := 2*real(v), 2*(real(v)*re+imag(v)*imag(lambda))
	x := c.Coef[4*(i*c.M+j):][:4]
	x[0], x[1], x[2], x[3] = -beta*norm, beta-2*alpha*re, alpha*norm-2*beta*re, -alpha
}

// ModeGrad returns the gradient by λ_i (d/dRe + i·d/dIm) of a loss that comes through Mode, where d holds the gradients
// by the numbers of c.
func (c *Cauchy) ModeGrad(d *Cauchy, i int, lambda complex128) complex128 {
	return complex(2*d.Norm[i], 0)*lambda + complex(8*d.Damp[i]*real(lambda), 0)
}

// TermGrad returns the gradients by λ_i and v_ij that come through Term.
func (c *Cauchy) TermGrad(d *Cauchy, i, j int, lambda, v complex128) (dLambda, dv complex128) {
	re, norm := real(lambda), c.Norm[i]
	alpha, beta := 2*real(v), 2*(real(v)*re+imag(v)*imag(lambda))
	x := d.Coef[4*(i*c.M+j):][:4]
	dAlpha := norm*x[2] - x[3] - 2*re*x[1]
	dBeta := x[1] - norm*x[0] - 2*re*x[2]
	dNorm, dRe := alpha*x[2]-beta*x[0], -2*(alpha*x[1]+beta*x[2])
	dLambda = complex(2*dNorm*re+2*dBeta*real(v)+dRe, 2*dNorm*imag(lambda)+2*dBeta*imag(v))
	return dLambda, complex(2*dAlpha+2*dBeta*re, 2*dBeta*imag(lambda))
}

// CauchySums computes the sums of c at points with the squares T = t[k]: X_j to s[2j·len(t):], Y_j to
// s[(2j+1)·len(t):]. T² must be finite, and i·√T must not equal any λ_i.
func CauchySums(s, t []float64, c *Cauchy) {
	if !cpu.has(cauchySums2Code) || len(c.Norm) == 0 {
		cauchySumsPortable(s, t, c)
		return
	}
	cauchySums(s, t, c)
}

func cauchySumsPortable(s, t []float64, c *Cauchy) {
	n, rows := len(t), 2*c.M
	clear(s[:rows*n])
	for i, norm := range c.Norm {
		damp, coef := c.Damp[i], c.Coef[2*i*rows:][:2*rows]
		for k, t := range t {
			u := 1 / ((norm-t)*(norm-t) + damp*t)
			for j := range rows {
				s[j*n+k] += coef[2*j]*u + coef[2*j+1]*(t*u)
			}
		}
	}
}

// CauchySumsGrad is the backward pass of CauchySums: g, laid out like s, holds the derivatives of a loss by X_j and
// Y_j. The derivatives by c are added to d.
func CauchySumsGrad(d *Cauchy, g, t []float64, c *Cauchy) {
	if !cpu.has(cauchyGrad2Code) {
		cauchySumsGradPortable(d, g, t, c)
		return
	}
	cauchySumsGrad(d, g, t, c)
}

func cauchySumsGradPortable(d *Cauchy, g, t []float64, c *Cauchy) {
	n, rows := len(t), 2*c.M
	for i, norm := range c.Norm {
		damp, coef, dCoef := c.Damp[i], c.Coef[2*i*rows:][:2*rows], d.Coef[2*i*rows:][:2*rows]
		for k, t := range t {
			u := 1 / ((norm-t)*(norm-t) + damp*t)
			du := 0.0
			for j := range rows {
				g := g[j*n+k]
				dCoef[2*j] += g * u
				dCoef[2*j+1] += g * (t * u)
				du += g * (coef[2*j] + coef[2*j+1]*t)
			}
			du *= -u * u
			d.Norm[i] += 2 * (norm - t) * du
			d.Damp[i] += t * du
		}
	}
}

// cauchyPerCall is the number of points in one call of assembly: about 40 µs with 32 modes.
const cauchyPerCall = 1024

// maxCauchyLanes is the number of lanes of the longest vector.
const maxCauchyLanes = 8

// cauchyShape returns the number of lanes of a vector, and the number of rows of sums whose accumulators are in
// registers.
func cauchyShape() (lanes, group int) {
	if cpu.has(cauchySums8Code) {
		return maxCauchyLanes, 8
	}
	return 4, 2
}

// cauchyRest holds the last vector of points, padded by repeating the last point, and a group of rows of sums.
type cauchyRest struct {
	t    [maxCauchyLanes]float64
	rows [8 * maxCauchyLanes]float64
}

func (r *cauchyRest) points(t []float64) {
	for i := range r.t {
		r.t[i] = t[min(i, len(t)-1)]
	}
}

func cauchySums(s, t []float64, c *Cauchy) {
	n, rows := len(t), 2*c.M
	lanes, group := cauchyShape()
	whole := n &^ (lanes - 1)
	for j := 0; j < rows; {
		m := 2
		if rows-j >= group {
			m = group
		}
		for at := 0; at < whole; at += cauchyPerCall {
			cauchySumsGroup(m, &s[j*n+at], &t[at], min(cauchyPerCall, whole-at), n, c, j)
		}
		if whole < n {
			var rest cauchyRest
			rest.points(t[whole:])
			cauchySumsGroup(m, &rest.rows[0], &rest.t[0], lanes, maxCauchyLanes, c, j)
			for r := range m {
				copy(s[(j+r)*n+whole:][:n-whole], rest.rows[r*maxCauchyLanes:])
			}
		}
		j += m
	}
}

func cauchySumsGroup(m int, s, t *float64, n, ld int, c *Cauchy, j int) {
	norm, damp, coef, modes, stride := &c.Norm[0], &c.Damp[0], &c.Coef[2*j], len(c.Norm), 4*c.M
	if m == 8 {
		vecCauchySums8(s, t, n, ld, norm, damp, coef, modes, stride)
	} else {
		vecCauchySums2(s, t, n, ld, norm, damp, coef, modes, stride)
	}
}

func cauchySumsGrad(d *Cauchy, g, t []float64, c *Cauchy) {
	n, rows := len(t), 2*c.M
	lanes, group := cauchyShape()
	whole := n &^ (lanes - 1)
	for j := 0; j < rows; {
		m := 2
		if rows-j >= group {
			m = group
		}
		for at := 0; at < whole; at += cauchyPerCall {
			for i := range c.Norm {
				cauchyGradGroup(m, d, &g[j*n+at], &t[at], min(cauchyPerCall, whole-at), n, c, i, j)
			}
		}
		if whole < n {
			var rest cauchyRest // the zeros that pad its rows contribute nothing
			rest.points(t[whole:])
			for r := range m {
				copy(rest.rows[r*maxCauchyLanes:], g[(j+r)*n+whole:][:n-whole])
			}
			for i := range c.Norm {
				cauchyGradGroup(m, d, &rest.rows[0], &rest.t[0], lanes, maxCauchyLanes, c, i, j)
			}
		}
		j += m
	}
}

func cauchyGradGroup(m int, d *Cauchy, g, t *float64, n, ld int, c *Cauchy, i, j int) {
	norm, damp, coef := &c.Norm[i], &c.Damp[i], &c.Coef[2*(2*i*c.M+j)]
	dNorm, dDamp, dCoef := &d.Norm[i], &d.Damp[i], &d.Coef[2*(2*i*c.M+j)]
	if m == 8 {
		vecCauchyGrad8(g, t, n, ld, norm, damp, coef, dNorm, dDamp, dCoef)
	} else {
		vecCauchyGrad2(g, t, n, ld, norm, damp, coef, dNorm, dDamp, dCoef)
	}
}

package compose

import "github.com/hippo-ssm/hippo/engine"

// Convolver is a core that convolves by spectra. Columns are those of views (b, l, h, q) along l, in places of which
// the others hold zeros.
type Convolver interface {
	// Points is the size of spectra for l + taps - 1 places, which l results depend on, 0 where windows cost less.
	Points(l, taps int) int
	// Spectrum returns the spectrum of each column of x. Its first position is at place at.
	Spectrum(x engine.View, at, points int) engine.Buffer
	// Inverse sets to to the columns of spectra, which it uses up, from place at on.
	Inverse(to engine.View, z engine.Buffer, at, points int)
	// Filter is Inverse of the products of Spectrum(x, 0) with filters of the heads h.
	Filter(to, x engine.View, filters engine.Buffer, at, points int)
	// Products are the spectra of columns in a shape, each times that of the filter of its head, reversed or not.
	Products(x, filters engine.Buffer, shape []int, points int, reversed bool) engine.Buffer
	// SumOfProducts are the spectra of h sums over b and q, of columns of x times those of y, reversed.
	SumOfProducts(x, y engine.Buffer, shape []int, points int) engine.Buffer
}

// spectrumOf says of what a spectrum is.
type spectrumOf struct {
	n          *node
	at, points int
	shape      [2]int
}

// spectrum returns the spectra of kernels k (m, h). An operation makes them once and keeps them until Reset.
func (e *Engine) spectrum(c Convolver, k *val, points int) engine.Buffer {
	of := spectrumOf{k.n, k.at, points, [2]int{k.dim(0), k.dim(1)}}
	z := e.now.spectra[of]
	if z == nil {
		z = e.adopt(c.Spectrum(k.columns(), 0, points))
		if e.now.spectra == nil {
			e.now.spectra = map[spectrumOf]*node{}
		}
		e.now.spectra[of] = z
	}
	return z.buf
}

// columns is the view of kernels (m, h) as (1, m, h, 1).
func (v *val) columns() engine.View { return v.unsqueeze(0).unsqueeze(3).view() }

// bySpectra is the last l positions of the convolution of v (b, n, h, q) with k (m, h). Its gradients are convolutions
// with k reversed, and of what came out with v reversed.
func (v *val) bySpectra(c Convolver, k *val, l, points int) *val {
	e, n := v.e, v.dim(1)
	filters, y := e.spectrum(c, k, points), e.fresh(v.dim(0), l, v.dim(2), v.dim(3))
	c.Filter(y.view(), v.view(), filters, n-l, points)
	return y.record(func() {
		dy := c.Spectrum(y.dy().view(), n-l, points)
		defer e.core.Free(dy)
		if v.grad {
			dv := e.fresh(v.shape...)
			c.Inverse(dv.view(), c.Products(dy, filters, v.shape, points, true), 0, points)
			v.addGrad(dv)
		}
		if k.grad {
			z, dk := c.Spectrum(v.view(), 0, points), e.fresh(k.shape...)
			c.Inverse(dk.columns(), c.SumOfProducts(dy, z, v.shape, points), 0, points)
			e.core.Free(z)
			k.addGrad(dk)
		}
	}, v, k)
}

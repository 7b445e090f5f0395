package compose

import "github.com/hippo-ssm/hippo/engine"

// Convolver is implemented by a core that convolves by spectra. Columns are those of views (b, l, h, q) along l. They
// are placed into an array of which the other elements are zeros.
type Convolver interface {
	// Points returns the size of spectra for the l + taps - 1 elements on which l results depend, or 0 if windows cost
	// less.
	Points(l, taps int) int
	// Spectrum returns the spectrum of each column of x, whose first position is placed at index at.
	Spectrum(x engine.View, at, points int) engine.Buffer
	// Inverse sets to to the columns of spectra from index at on. It frees z.
	Inverse(to engine.View, z engine.Buffer, at, points int)
	// Filter is Inverse of the products of Spectrum(x, 0) with the filters of the heads h.
	Filter(to, x engine.View, filters engine.Buffer, at, points int)
	// Products returns the spectra of columns in a shape, each multiplied by the spectrum of the filter of its head,
	// which may be reversed.
	Products(x, filters engine.Buffer, shape []int, points int, reversed bool) engine.Buffer
	// SumOfProducts returns the spectra of h sums over b and q: of columns of x times the reversed columns of y.
	SumOfProducts(x, y engine.Buffer, shape []int, points int) engine.Buffer
}

// spectrumOf identifies the kernels and the size of a spectrum.
type spectrumOf struct {
	n          *node
	at, points int
	shape      [2]int
}

// spectrum returns the spectra of kernels k (m, h). An operation computes them once and keeps them until Reset.
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

// columns returns kernels (m, h) as a view (1, m, h, 1).
func (v *val) columns() engine.View { return v.unsqueeze(0).unsqueeze(3).view() }

// bySpectra returns the last l positions of the convolution of v (b, n, h, q) with k (m, h). Its gradients are
// convolutions of the gradient of the result with k reversed, and with v reversed.
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

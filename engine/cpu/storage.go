package cpu

import (
	"math"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// wide is storage of complex numbers in float64, for the coefficients of systems: tensors (…, 2). It also has their
// gradients (d/dRe + i·d/dIm), which are zeros when the system is made.
type wide interface {
	tensor.Storage
	at(i int) complex128
	set(i int, v complex128)
	// gradient returns storage over the gradient, or nil if there is none.
	gradient() wide
}

// modes is wide storage in the layout of kernel.Modes: for each of h channels the real parts of n numbers, padded to
// whole vectors, then the imaginary parts.
type modes struct {
	n, width int
	x, grad  kernel.Modes
}

func (m *modes) place(i int) int     { return i/m.n*m.width + i%m.n }
func (m *modes) at(i int) complex128 { p := m.place(i); return complex(m.x[p], m.x[p+m.width/2]) }
func (m *modes) set(i int, v complex128) {
	p := m.place(i)
	m.x[p], m.x[p+m.width/2] = real(v), imag(v)
}
func (m *modes) Len() int                  { return 2 * m.n * len(m.x) / m.width }
func (m *modes) Bytes() int                { return 8 * len(m.x) }
func (m *modes) Read(dst []float32)        { readWide(m, dst) }
func (m *modes) Write(src []float32)       { writeWide(m, src) }
func (m *modes) Like(n int) tensor.Storage { return &complexes{x: make([]complex128, n/2)} }
func (m *modes) gradient() wide {
	if m.grad == nil {
		return nil
	}
	return &modes{n: m.n, width: m.width, x: m.grad}
}

// Copy copies whole complex numbers.
func (m *modes) Copy(to int, from tensor.Storage, at, n int) { copyWide(m, to, from, at, n) }

// complexes is wide storage as complex128.
type complexes struct{ x, grad []complex128 }

func (c *complexes) at(i int) complex128       { return c.x[i] }
func (c *complexes) set(i int, v complex128)   { c.x[i] = v }
func (c *complexes) Len() int                  { return 2 * len(c.x) }
func (c *complexes) Bytes() int                { return 16 * len(c.x) }
func (c *complexes) Read(dst []float32)        { readWide(c, dst) }
func (c *complexes) Write(src []float32)       { writeWide(c, src) }
func (c *complexes) Like(n int) tensor.Storage { return &complexes{x: make([]complex128, n/2)} }
func (c *complexes) gradient() wide {
	if c.grad == nil {
		return nil
	}
	return &complexes{x: c.grad}
}

// Copy copies whole complex numbers.
func (c *complexes) Copy(to int, from tensor.Storage, at, n int) { copyWide(c, to, from, at, n) }

func readWide(w wide, dst []float32) {
	for i := range w.Len() / 2 {
		setPair(dst, i, w.at(i))
	}
}

func writeWide(w wide, src []float32) {
	for i := range w.Len() / 2 {
		w.set(i, pair(src, i))
	}
}

func copyWide(w wide, to int, from tensor.Storage, at, n int) {
	source := from.(wide)
	for i := range n / 2 {
		w.set(to/2+i, source.at(at/2+i))
	}
}

// wideOf returns the storage of x if it is wide, else nil.
func wideOf(x *tensor.Tensor) wide {
	w, _ := x.Storage().(wide)
	return w
}

// finiteWide reports whether w holds neither NaN nor infinity.
func finiteWide(w wide) bool {
	for i := range w.Len() / 2 {
		if v := w.at(i); !finite(real(v)) || !finite(imag(v)) {
			return false
		}
	}
	return true
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

package kernel

import "math"

// callLength is the largest number of elements in a call of assembly, which cannot be interrupted. It is less than 100
// µs of work, even from memory.
const callLength = 1 << 15

// AllFinite reports whether x holds neither NaN nor infinity.
func AllFinite(x []float32) bool {
	if cpu.has(zerosCode) {
		for lo := 0; lo < len(x); lo += callLength {
			if vecZeros(min(callLength, len(x)-lo), &x[lo]) != 0 {
				return false
			}
		}
		return true
	}
	for _, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

// Exp returns e^x in float32 with a relative error below 2e-7: 2^k times a polynomial on [-ln2/2, ln2/2] (the
// coefficients are those of Cephes expf). It returns 0 below -103, +Inf above 88.7, NaN for NaN. math.Exp in float64
// takes four times as long.
func Exp(x float32) float32 {
	if x > 88.72283 {
		return float32(math.Inf(1))
	}
	if !(x >= -103) {
		if x != x {
			return x
		}
		return 0
	}
	const (
		log2e = 1.44269504088896341
		ln2hi = 0.693359375
		ln2lo = -2.12194440e-4
		round = 1.5 * (1 << 23) // adding and subtracting it rounds to the nearest integer
	)
	f := float32(float32(x*log2e)+round) - round
	r := x - float32(f*ln2hi) - float32(f*ln2lo)
	p := float32(1.9875691500e-4)
	p = float32(p*r) + 1.3981999507e-3
	p = float32(p*r) + 8.3334519073e-3
	p = float32(p*r) + 4.1665795894e-2
	p = float32(p*r) + 1.6666665459e-1
	p = float32(p*r) + 5.0000001201e-1
	y := float32(p*r*r) + r + 1
	k := int32(f)
	if k < -126 { // the result is denormal: scale in two steps
		return y * math.Float32frombits(uint32(k+64+127)<<23) * math.Float32frombits((127-64)<<23)
	}
	if k > 127 {
		return y * 2 * math.Float32frombits(uint32(k-1+127)<<23)
	}
	return y * math.Float32frombits(uint32(k+127)<<23)
}

// GLU computes y = a·sigmoid(g).
func GLU(y, a, g []float32) {
	a, g = a[:len(y)], g[:len(y)]
	if cpu.has(gluCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecGlu(min(callLength, len(y)-lo), &y[lo], &a[lo], &g[lo])
		}
		return
	}
	for i := range y {
		y[i] = a[i] * Sigmoid(g[i])
	}
}

// GLUGrad adds the gradients of GLU: da += dy·σ(g), dg += dy·a·σ(g)(1-σ(g)).
func GLUGrad(da, dg, dy, a, g []float32) {
	n := len(dy)
	da, dg, a, g = da[:n], dg[:n], a[:n], g[:n]
	if cpu.has(gluGradCode) {
		for lo := 0; lo < n; lo += callLength {
			vecGluGrad(min(callLength, n-lo), &da[lo], &dg[lo], &dy[lo], &a[lo], &g[lo])
		}
		return
	}
	for i, v := range dy {
		s := Sigmoid(g[i])
		da[i] += float32(v * s)
		dg[i] += float32(v * a[i] * s * (1 - s))
	}
}

// ExpShift computes x = e^(x-shift)·scale. At levels above generic a power below 2^-125 counts as 0.
func ExpShift(x []float32, shift, scale float32) {
	if cpu.has(expShiftCode) {
		for lo := 0; lo < len(x); lo += callLength {
			vecExpShift(min(callLength, len(x)-lo), &x[lo], shift, scale)
		}
		return
	}
	for i, v := range x {
		x[i] = Exp(v-shift) * scale
	}
}

// Add computes y += x.
func Add(y, x []float32) {
	x = x[:len(y)]
	if cpu.has(addCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecAdd(min(callLength, len(y)-lo), &y[lo], &x[lo])
		}
		return
	}
	for i := range y {
		y[i] += x[i]
	}
}

// SumRows adds the rows of x (r, d) to y (d), many short rows per call. It sums at most 512 rows at a time and adds
// these sums one after the other.
func SumRows(y, x []float32) {
	d := len(y)
	for part := min(len(x), len(manyOnes)*d); len(x) > 0; part = min(len(x), len(manyOnes)*d) {
		GemmInline(Product{
			Op: NN, M: 1, N: d, K: part / d, A: manyOnes[:], LDA: len(manyOnes), B: x, LDB: d, C: y, LDC: d, Add: true,
		})
		x = x[part:]
	}
}

var manyOnes = func() (x [512]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// Scale computes x *= a.
func Scale(x []float32, a float32) {
	if cpu.has(scaleCode) {
		for lo := 0; lo < len(x); lo += callLength {
			vecScale(min(callLength, len(x)-lo), &x[lo], a)
		}
		return
	}
	for i := range x {
		x[i] *= a
	}
}

// Mul computes y *= x.
func Mul(y, x []float32) {
	x = x[:len(y)]
	if cpu.has(multiplyCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecMultiply(min(callLength, len(y)-lo), &y[lo], &x[lo])
		}
		return
	}
	for i := range y {
		y[i] *= x[i]
	}
}

// AddInto computes y = a+b element by element.
func AddInto(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	if cpu.has(addIntoCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecAddInto(min(callLength, len(y)-lo), &y[lo], &a[lo], &b[lo])
		}
		return
	}
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

// MulInto computes y = a·b element by element.
func MulInto(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	if cpu.has(mulIntoCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecMulInto(min(callLength, len(y)-lo), &y[lo], &a[lo], &b[lo])
		}
		return
	}
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

// MulAdd computes y += a·b element by element; levels above generic round once.
func MulAdd(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	if cpu.has(mulAddCode) {
		for lo := 0; lo < len(y); lo += callLength {
			vecMulAdd(min(callLength, len(y)-lo), &y[lo], &a[lo], &b[lo])
		}
		return
	}
	for i := range y {
		y[i] += float32(a[i] * b[i])
	}
}

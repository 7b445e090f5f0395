package checkpoint

import "math"

// appendK appends a block of Q4_K or Q5_K of 256 values: x is about d·f·q - m·g with f and g of 6 bits for each 32.
func appendK(b []byte, x []float32, bits int) []byte {
	most := 1<<bits - 1
	var scale, least [8]float32
	for j := range scale {
		scale[j], least[j] = fitLine(x[32*j:][:32], most)
	}
	d, f := sixBits(scale[:])
	m, g := sixBits(least[:])
	b = appendHalf(appendHalf(b, d), m)
	d, m = fromHalf(toHalf(d)), fromHalf(toHalf(m))
	var q [256]byte
	var packed [12]byte
	for j := range scale {
		if j < 4 {
			packed[j], packed[j+4] = f[j], g[j]
		} else {
			packed[j+4] = f[j]&15 | g[j]<<4
			packed[j-4] |= f[j] >> 4 << 6
			packed[j] |= g[j] >> 4 << 6
		}
		step, offset := float32(d*float32(f[j])), float32(m*float32(g[j]))
		if step == 0 {
			continue
		}
		for i, v := range x[32*j:][:32] {
			q[32*j+i] = byte(nearest((v+offset)/step, 0, most))
		}
	}
	b = append(b, packed[:]...)
	if bits == 5 {
		var high [32]byte
		for i, v := range q {
			high[i%32] |= v >> 4 << (i / 32)
		}
		b = append(b, high[:]...)
	}
	for i := range 128 {
		at := i/32*64 + i%32
		b = append(b, q[at]&15|q[at+32]<<4)
	}
	return b
}

// sixBits returns numbers ≥ 0 as multiples f of a unit, which is 1/63 of the largest.
func sixBits(x []float32) (unit float32, f [8]byte) {
	top := float32(0)
	for _, v := range x {
		top = max(top, v)
	}
	if top == 0 {
		return 0, f
	}
	for i, v := range x {
		f[i] = byte(nearest(63/top*v, 0, 63))
	}
	return top / 63, f
}

// whole is a float32 number with no bits below 1: adding and subtracting it rounds a number to the nearest integer,
// ties to even. llama.cpp rounds this way, and it is fast.
const whole = 3 << 22

// fitLine searches for the s and m ≥ 0 with the least error Σ w (s·q - m - x)², with q from 0 to most. w is |x| +
// √(mean x²), so that large values count for more. It tries several steps around the one with which q spans the values
// from -m on. For each step, it takes the nearest integers, and then the best s and m for these.
func fitLine(x []float32, most int) (s, m float32) {
	lo, hi, squares := x[0], x[0], float32(0)
	for _, v := range x {
		lo, hi, squares = min(lo, v), max(hi, v), squares+float32(v*v)
	}
	lo = min(lo, 0)
	if hi <= lo {
		return 0, -lo
	}
	var f lineFit
	mean := float32(math.Sqrt(float64(squares / float32(len(x)))))
	for i, v := range x {
		w := mean + abs(v)
		f.x[i], f.w[i] = v, w
		f.sumW, f.sumX = f.sumW+w, f.sumX+float32(w*v)
	}
	first, steps := float32(-1), 20
	if most > 15 {
		first, steps = -0.5, 15
	}
	top := float32(most)
	f.round(top/(hi-lo), lo, top)
	s, m = (hi-lo)/top, -lo
	best := f.off(s, m)
	for i := range steps + 1 {
		f.round((first+float32(0.1*float32(i))+top)/(hi-lo), lo, top)
		if s2, m2, ok := f.best(); ok {
			if off := f.off(s2, m2); off < best {
				best, s, m, lo = off, s2, m2, -m2
			}
		}
	}
	return s, m
}

// lineFit is the state of fitLine: values, weights and integers.
type lineFit struct {
	x, w, q    [32]float32
	sumW, sumX float32 // Σ w, Σ w·x
}

// round sets the integers to the nearest integers to inverse·(x - lo), from 0 to top.
func (f *lineFit) round(inverse, lo, top float32) {
	for i, v := range &f.x {
		f.q[i] = min(max(float32(inverse*(v-lo))+whole-whole, 0), top)
	}
}

// best returns the best s and m ≥ 0 for the integers, and false if all integers are equal.
func (f *lineFit) best() (s, m float32, ok bool) {
	var sumQ, sumQQ, sumXQ float32
	for i, q := range &f.q {
		wq := float32(f.w[i] * q)
		sumQ, sumQQ, sumXQ = sumQ+wq, sumQQ+float32(wq*q), sumXQ+float32(wq*f.x[i])
	}
	d := float32(f.sumW*sumQQ) - float32(sumQ*sumQ)
	if !(d > 0) {
		return 0, 0, false
	}
	s = (float32(f.sumW*sumXQ) - float32(f.sumX*sumQ)) / d
	if m = (float32(sumQ*sumXQ) - float32(sumQQ*f.sumX)) / d; m < 0 {
		s, m = sumXQ/sumQQ, 0
	}
	return s, m, true
}

// off returns the error of s and m.
func (f *lineFit) off(s, m float32) (sum float32) {
	for i, q := range &f.q {
		e := float32(s*q) - m - f.x[i]
		sum += float32(f.w[i] * float32(e*e))
	}
	return sum
}

// appendQ6K appends a block of Q6_K of 256 values: x is about d·f·(q - 32) with f of 8 bits for each 16.
func appendQ6K(b []byte, x []float32) []byte {
	var scale [16]float32
	for g := range scale {
		scale[g] = fitFactor(x[16*g:][:16], 32)
	}
	top := farthest(scale[:])
	var low [128]byte
	var high [64]byte
	var factors [16]byte
	d := float32(0)
	if abs(top) >= tiny {
		d = top / -128
	}
	rounded, inverse := fromHalf(toHalf(d)), inverseOf(d)
	for g, s := range scale {
		f := nearest(inverse*s, -128, 127)
		factors[g] = byte(f)
		step := rounded * float32(f)
		for i, v := range x[16*g:][:16] {
			q := 32
			if step != 0 {
				q += nearest(v/step, -32, 31)
			}
			half, part, at := g/8, g%8/2, g%2*16+i
			low[64*half+part%2*32+at] |= byte(q) & 15 << (part / 2 * 4)
			high[32*half+at] |= byte(q) >> 4 << (2 * part)
		}
	}
	b = append(append(append(b, low[:]...), high[:]...), factors[:]...)
	return appendHalf(b, d)
}

// tiny is the size below which a factor counts as 0.
const tiny = 1e-15

// fitFactor searches for the s with the least error Σ x² (s·q - x)², with q from -most to most - 1. It tries 19 steps
// around the one with which the value farthest from 0 is -most.
func fitFactor(x []float32, most int) (s float32) {
	top := farthest(x)
	if abs(top) < tiny {
		return 0
	}
	best, least := float32(0), float32(most)
	for i := range 19 {
		i = (i + 1) / 2 * (1 - i%2*2) // 0, -1, 1, -2, 2 …
		inverse := -(least + float32(0.1*float32(i))) / top
		var xq, qq float32
		for _, v := range x {
			q := min(max(float32(inverse*v)+whole-whole, -least), least-1)
			wq := float32(float32(v*v) * q)
			xq, qq = xq+float32(wq*v), qq+float32(wq*q)
		}
		if qq > 0 && float32(xq*xq) > float32(best*qq) {
			s = xq / qq
			best = s * xq
		}
	}
	return s
}

// nearest returns the nearest integer within the bounds, ties to even, and the lower bound for NaN.
func nearest(x float32, least, most int) int {
	r := math.RoundToEven(float64(x))
	switch {
	case r >= float64(most):
		return most
	case r >= float64(least):
		return int(r)
	}
	return least
}

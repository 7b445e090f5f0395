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
		step, offset := d*float32(f[j]), m*float32(g[j])
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

// sixBits are numbers from 0 on as multiples of 1/63 of the largest.
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

// fitLine returns the s and m ≥ 0 of the least error Σ w (s·q - m - x)² that a search finds, with q of 0 to most. w is
// |x| + √(mean x²): what is large counts for more. Around the step with which q spans the values from -m on, others are
// tried. For each, integers are the nearest, and then s and m the best for these.
func fitLine(x []float32, most int) (s, m float32) {
	lo, hi, squares := x[0], x[0], float32(0)
	for _, v := range x {
		lo, hi, squares = min(lo, v), max(hi, v), squares+float32(v*v)
	}
	lo = min(lo, 0)
	if hi <= lo {
		return 0, -lo
	}
	mean := float32(math.Sqrt(float64(squares / float32(len(x)))))
	var sumW, sumX float64
	for _, v := range x {
		w := float64(mean + abs(v))
		sumW, sumX = sumW+w, sumX+float64(w*float64(v))
	}
	span := float32(most) / (hi - lo)
	try := func(inverse, s, m float32, fit bool) (float64, float32, float32) {
		var sumQ, sumQQ, sumXQ float64
		var q [32]float32
		for i, v := range x {
			q[i] = float32(nearest(inverse*(v-lo), 0, most))
			w, a := float64(mean+abs(v)), float64(q[i])
			sumQ, sumQQ, sumXQ = sumQ+float64(w*a), sumQQ+float64(w*a*a), sumXQ+float64(w*a*float64(v))
		}
		if d := float64(sumW*sumQQ) - float64(sumQ*sumQ); fit && d > 0 {
			s = float32((float64(sumW*sumXQ) - float64(sumX*sumQ)) / d)
			m = float32((float64(sumQ*sumXQ) - float64(sumQQ*sumX)) / d)
			if m < 0 {
				s, m = float32(sumXQ/sumQQ), 0
			}
		} else if fit {
			return math.Inf(1), 0, 0
		}
		off := 0.0
		for i, v := range x {
			e := float64(float32(s*q[i]) - m - v)
			off += float64(float64(mean+abs(v)) * e * e)
		}
		return off, s, m
	}
	best, s, m := try(span, 1/span, -lo, false)
	first := float32(-1)
	steps := 20
	if most > 15 {
		first, steps = -0.5, 15
	}
	for i := range steps + 1 {
		inverse := (first + float32(0.1*float32(i)) + float32(most)) / (hi - lo)
		if off, s2, m2 := try(inverse, 0, 0, true); off < best {
			best, s, m, lo = off, s2, m2, -m2
		}
	}
	return s, m
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

// tiny is the size below which a factor is taken for 0.
const tiny = 1e-15

// fitFactor returns the s of the least error Σ x² (s·q - x)² that a search finds, with q from -most to most - 1: 19
// steps around the one with which the value farthest from 0 is -most.
func fitFactor(x []float32, most int) (s float32) {
	top := farthest(x)
	if abs(top) < tiny {
		return 0
	}
	best := 0.0
	for i := range 19 {
		i = (i + 1) / 2 * (1 - i%2*2) // 0, -1, 1, -2, 2 …
		inverse := -(float32(most) + float32(0.1*float32(i))) / top
		var xq, qq float64
		for _, v := range x {
			q, w := float64(nearest(inverse*v, -most, most-1)), float64(v)*float64(v)
			xq, qq = xq+float64(w*q*float64(v)), qq+float64(w*q*q)
		}
		if qq > 0 && xq*xq > best*qq {
			s, best = float32(xq/qq), xq*xq/qq
		}
	}
	return s
}

// nearest is the nearest integer, ties to even, within bounds; the lower bound for NaN.
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

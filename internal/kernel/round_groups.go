package kernel

import "math"

// rowExponent returns the exponent of the power of two that multiplies the factors of a row, where top is its largest
// magnitude: the exponent of top less 7. So factors and least numbers fit into float16 for any weights.
func rowExponent(top float32) int {
	_, exponent := math.Frexp(float64(top))
	return max(exponent-7, -126)
}

// roundGroup rounds x at Int8 or Int4Min (see setInt4), at most groupTerms numbers, to integers times a factor, which,
// like the least number, is to be multiplied by 2^exponent. Elements past x are 0.
func (p Precision) roundGroup(u *[groupTerms]uint8, x []float32, exponent int) (factor, least uint16) {
	if p == Int8 {
		return roundInt8(u, x, float32(math.Ldexp(1, exponent))), 0
	}
	var buf [groupTerms]float32
	c := float32(math.Ldexp(1, -exponent))
	for i, v := range x {
		buf[i] = v * c
	}
	return roundInt4Min(u, buf[:len(x)])
}

// roundInt8 rounds with a factor for which the largest number becomes 127, or nearly so.
func roundInt8(u *[groupTerms]uint8, x []float32, c float32) uint16 {
	var q [groupTerms]int8
	top := largest(x)
	factor := narrow16(top / 127 / c)
	if 127.4*widen16(factor)*c < top { // the factor is so small that it has few bits
		factor++
	}
	if inverse := 1 / (widen16(factor) * c); inverse <= math.MaxFloat32 {
		roundInto(q[:], x, inverse)
	} else {
		factor = 0
	}
	for i, v := range q {
		u[i] = uint8(int(v) + 128)
	}
	return factor
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// nearest returns the integer nearest to x, ties to even, clamped to [least, most], which are small.
func nearest(x, least, most float32) float32 {
	const round = 3 << 22
	n := float32(x+round) - round
	if n < least { // rare: a branch costs less than a minimum of two numbers that may be NaN
		return least
	}
	if n > most {
		return most
	}
	return n
}

// int4MinTries lists the numbers of steps to try between the least and the largest number. The integers cut off steps
// past 15.
var int4MinTries = [...]float32{15, 16}

// roundInt4Min rounds with a factor and a least number.
func roundInt4Min(u *[groupTerms]uint8, x []float32) (factor, least uint16) {
	low, high := x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	best := float32(math.Inf(1))
	var q [groupTerms]float32
	n := float32(len(x))
	for _, steps := range int4MinTries {
		inverse := steps / (high - low)
		if !(inverse <= math.MaxFloat32) {
			inverse = 0
		}
		var xs, qs, xq, qq float32
		middle := (15 - steps) / 2 // steps that are cut off at either end
		for i, v := range x {
			q[i] = nearest(float32((v-low)*inverse)+middle, 0, 15)
			xs, qs, xq, qq = xs+v, qs+q[i], xq+float32(v*q[i]), qq+float32(q[i]*q[i])
		}
		d := float32(n*qq) - float32(qs*qs)
		f, m := float32(0), xs/n
		if d > 0 {
			f, m = (float32(n*xq)-float32(qs*xs))/d, (float32(qq*xs)-float32(qs*xq))/d
		}
		f16, m16 := narrow16(f), narrow16(m)
		f, m = widen16(f16), widen16(m16)
		inverse = 0
		if f > 0 {
			inverse = 1 / f
		}
		errors := float32(0)
		var try [groupTerms]uint8
		for i, v := range x {
			to := nearest((v-m)*inverse, 0, 15)
			e := v - m - float32(f*to)
			errors += float32(e * e)
			try[i] = uint8(int32(to))
		}
		if errors < best {
			best, factor, least, *u = errors, f16, m16, try
		}
	}
	return factor, least
}

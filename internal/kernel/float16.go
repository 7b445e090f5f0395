package kernel

import "math"

// widen16 returns the value of a float16.
func widen16(bits uint16) float32 {
	exponent, fraction := uint32(bits>>10&31), uint32(bits&1023)
	var x float32
	switch exponent {
	case 0:
		x = float32(fraction) * (1.0 / (1 << 24))
	case 31:
		x = math.Float32frombits(0x7f800000 | fraction<<13)
	default:
		x = math.Float32frombits((exponent+127-15)<<23 | fraction<<13)
	}
	return math.Float32frombits(math.Float32bits(x) | uint32(bits>>15)<<31)
}

// narrow16 rounds a number of magnitude below 65,504 to the nearest float16, ties to even.
func narrow16(x float32) uint16 {
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	bits := math.Float32bits(x) &^ (1 << 31)
	if bits < (127-14)<<23 { // below the smallest normal number: a multiple of 2^-24, the last bit of 0.5
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-math.Float32bits(0.5))
	}
	bits += 0xfff + bits>>13&1
	return sign | uint16(bits>>13-(127-15)<<10)
}

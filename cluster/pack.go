package cluster

import (
	"encoding/binary"
	"math"
)

// packBlock is how many 8-bit numbers share a power of two. It divides every chunk.
const packBlock = 64

// Bits of a number in a message.
const (
	float32Bits = 32
	bf16Bits    = 16
	int8Bits    = 8
)

// RoundTo rounds numbers in place to values that fit into 16 or 8 bits, so that they lose nothing when they are sent.
// 16 bits are bf16. For 8 bits, the numbers of a block of 64 become integers from -127 to 127 times 2^k, with the least
// k that reaches the largest of them. 32 bits change nothing. Rounding again changes nothing. The numbers must be
// finite.
func RoundTo(v []float32, bits int) {
	switch bits {
	case bf16Bits:
		for i, x := range v {
			u := math.Float32bits(x)
			u += 0x7fff + u>>16&1 // to the nearest, ties to even
			v[i] = math.Float32frombits(u &^ 0xffff)
		}
	case int8Bits:
		for at := 0; at < len(v); at += packBlock {
			b := v[at:min(at+packBlock, len(v))]
			scale := math.Ldexp(1, exponent(b))
			for i, x := range b {
				b[i] = float32(math.RoundToEven(float64(x)/scale) * scale)
			}
		}
	}
}

// exponent returns the least k such that all numbers of a block are at most 127·2^k in magnitude and 2^k is a normal
// float32.
func exponent(b []float32) int {
	most := float32(0)
	for _, x := range b {
		most = max(most, x, -x)
	}
	frac, k := math.Frexp(float64(most)) // most = frac·2^k, frac from 1/2 to below 1
	k -= 7
	if frac > 127./128 {
		k++
	}
	return min(max(k, -126), 127)
}

// pack encodes numbers that RoundTo has rounded to the same bits. A bf16 number takes 2 bytes. An 8-bit number takes
// one, and each block begins with a byte for its k.
func pack(v []float32, bits int) (body []byte) {
	if bits == bf16Bits {
		for _, x := range v {
			body = binary.LittleEndian.AppendUint16(body, uint16(math.Float32bits(x)>>16))
		}
		return body
	}
	for at := 0; at < len(v); at += packBlock {
		b := v[at:min(at+packBlock, len(v))]
		k := exponent(b)
		body = append(body, byte(k))
		for _, x := range b {
			body = append(body, byte(int8(math.Ldexp(float64(x), -k))))
		}
	}
	return body
}

// packed returns the number of bytes that pack writes for n numbers.
func packed(n, bits int) int {
	if bits == bf16Bits {
		return 2 * n
	}
	return n + (n+packBlock-1)/packBlock
}

// unpack decodes n numbers that pack encoded. It returns nil if body does not have their length.
func unpack(body []byte, n, bits int) (v []float32) {
	if len(body) != packed(n, bits) {
		return nil
	}
	v = make([]float32, n)
	if bits == bf16Bits {
		for i := range v {
			v[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(body[2*i:])) << 16)
		}
		return v
	}
	for at := 0; at < n; at += packBlock {
		k := int(int8(body[0]))
		body = body[1:]
		b := v[at:min(at+packBlock, n)]
		for i := range b {
			b[i] = float32(math.Ldexp(float64(int8(body[i])), k))
		}
		body = body[len(b):]
	}
	return v
}

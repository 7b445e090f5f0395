package checkpoint

import (
	"encoding/binary"
	"fmt"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// The element types of GGUF that quantize blocks of a row (llama.cpp, ggml-quants.c). A number is d·q, or d·q + m, with
// an integer q of few bits and factors that a block shares. In the K types, the factors in a block of 256 are products
// of integers and of the block's d or m.
const (
	Q4_0 DType = "Q4_0" // 32: f16 d; q of 4 bits, minus 8
	Q4_1 DType = "Q4_1" // 32: f16 d, m; q of 4 bits
	Q5_0 DType = "Q5_0" // 32: f16 d; q of 5 bits, minus 16
	Q5_1 DType = "Q5_1" // 32: f16 d, m; q of 5 bits
	Q8_0 DType = "Q8_0" // 32: f16 d; q of 8 bits
	Q2_K DType = "Q2_K" // 256: 16 factors of 4 bits of d and of m; q of 2 bits; f16 d, m
	Q3_K DType = "Q3_K" // 256: q of 3 bits, minus 4; 16 factors of 6 bits, minus 32; f16 d
	Q4_K DType = "Q4_K" // 256: f16 d, m; 8 factors of 6 bits of each; q of 4 bits
	Q5_K DType = "Q5_K" // 256: as Q4_K, with q of 5 bits
	Q6_K DType = "Q6_K" // 256: q of 6 bits, minus 32; 16 factors of 8 bits; f16 d
)

// Block returns the number of elements that are stored together, and their number of bytes: 1 and Size for a type that
// does not quantize blocks, and 0 and 0 for an unknown type.
func (d DType) Block() (elements, bytes int) {
	b := blocks[d]
	return b.elements, b.bytes
}

// blocks holds the number of elements that are stored together, and their number of bytes.
var blocks = map[DType]struct{ elements, bytes int }{
	F64: {1, 8}, I64: {1, 8}, F32: {1, 4}, I32: {1, 4}, F16: {1, 2}, BF16: {1, 2}, I16: {1, 2}, I8: {1, 1}, U8: {1, 1},
	Bool: {1, 1},
	Q4_0: {32, 2 + 16},
	Q4_1: {32, 4 + 16},
	Q5_0: {32, 2 + 4 + 16},
	Q5_1: {32, 4 + 4 + 16},
	Q8_0: {32, 2 + 32},
	Q2_K: {256, 16 + 64 + 4},
	Q3_K: {256, 32 + 64 + 12 + 2},
	Q4_K: {256, 4 + 12 + 128},
	Q5_K: {256, 4 + 12 + 32 + 128},
	Q6_K: {256, 128 + 64 + 16 + 2},
}

// bytes returns the memory of n elements, which must be whole blocks of a known type.
func (d DType) bytes(n int) int {
	elements, size := d.Block()
	return n / elements * size
}

// Quantized reports whether the type stores blocks of integers with common factors.
func (d DType) Quantized() bool {
	n, _ := d.Block()
	return n > 1
}

// readBlocks converts the elements of a quantized tensor into out. Products and sums are those of llama.cpp, in
// float32.
func readBlocks[T float32 | float64](t *Tensor, out []T) error {
	if err := t.checkInto(len(out)); err != nil {
		return err
	}
	n, size := t.DType.Block()
	err := disk.Guard(func() {
		var y [256]float32
		for b := 0; b*n < len(out); b++ {
			t.DType.unpack(y[:n], t.Data[b*size:][:size])
			for i, v := range y[:n] {
				out[b*n+i] = T(v)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// unpack sets y to the elements of a block.
func (d DType) unpack(y []float32, b []byte) {
	switch d {
	case Q4_0:
		unpack4(y, b[2:], halfAt(b, 0), -8, 0)
	case Q4_1:
		unpack4(y, b[4:], halfAt(b, 0), 0, halfAt(b, 2))
	case Q5_0:
		unpack5(y, b[2:], halfAt(b, 0), -16, 0)
	case Q5_1:
		unpack5(y, b[4:], halfAt(b, 0), 0, halfAt(b, 2))
	case Q8_0:
		scale := halfAt(b, 0)
		for i := range y {
			y[i] = scale * float32(int8(b[2+i]))
		}
	case Q2_K:
		unpack2K(y, b)
	case Q3_K:
		unpack3K(y, b)
	case Q4_K:
		unpackK(y, b, b[16:], nil)
	case Q5_K:
		unpackK(y, b, b[48:], b[16:48])
	case Q6_K:
		unpack6K(y, b)
	}
}

// halfAt returns the f16 number at b[at:].
func halfAt(b []byte, at int) float32 { return fromHalf(binary.LittleEndian.Uint16(b[at:])) }

// unpack4 sets y to d·(q + shift) + m with the 4-bit integers q in b. The low bits hold the first half of y.
func unpack4(y []float32, b []byte, d float32, shift int, m float32) {
	for i := range 16 {
		y[i] = float32(d*float32(int(b[i]&15)+shift)) + m
		y[i+16] = float32(d*float32(int(b[i]>>4)+shift)) + m
	}
}

// unpack5 is unpack4 with a fifth bit for each q in the first four bytes.
func unpack5(y []float32, b []byte, d float32, shift int, m float32) {
	high := binary.LittleEndian.Uint32(b)
	for i := range 16 {
		lo := int(b[4+i]&15) | int(high>>i&1)<<4
		hi := int(b[4+i]>>4) | int(high>>(i+16)&1)<<4
		y[i] = float32(d*float32(lo+shift)) + m
		y[i+16] = float32(d*float32(hi+shift)) + m
	}
}

// unpack2K unpacks a block of Q2_K: d·f·q - m·g. Each of 16 bytes holds the factor f of 16 elements in its low half and
// g in its high half.
func unpack2K(y []float32, b []byte) {
	factors, low, d, m := b[:16], b[16:80], halfAt(b, 80), halfAt(b, 82)
	for g, f := range factors { // 16 elements each
		scale, offset := float32(d*float32(f&15)), float32(m*float32(f>>4))
		for i, v := range low[g/8*32+g%2*16:][:16] {
			y[16*g+i] = float32(scale*float32(v>>(g%8/2*2)&3)) - offset
		}
	}
}

// unpack3K unpacks a block of Q3_K: d·(f - 32)·q. The two low bits of q are stored as in Q2_K, and the third in a mask.
// If the third is 0, q is less by 4.
func unpack3K(y []float32, b []byte) {
	mask, low, factors, d := b[:32], b[32:96], b[96:108], halfAt(b, 108)
	for g := range 16 {
		f := factors[g%8]>>(g/8*4)&15 | factors[8+g%4]>>(g/4*2)&3<<4
		scale := float32(d * float32(int(f)-32))
		for i, v := range low[g/8*32+g%2*16:][:16] {
			q := int(v>>(g%8/2*2)&3) + int(mask[g%2*16+i]>>(g/2)&1)*4 - 4
			y[16*g+i] = scale * float32(q)
		}
	}
}

// unpackK sets y to d·f·q - m·g with factors f and g for each 32 elements. q has 4 bits in low and, unless high is nil,
// a fifth bit in high: bit j of its bytes belongs to the j-th 32 elements.
func unpackK(y []float32, b, low, high []byte) {
	d, m, factors := halfAt(b, 0), halfAt(b, 2), b[4:16]
	for j := range 8 {
		f, g := kFactors(factors, j)
		scale, offset := float32(d*float32(f)), float32(m*float32(g))
		q := low[j/2*32:][:32]
		for i := range 32 {
			v := q[i] >> (j % 2 * 4) & 15
			if high != nil {
				v |= high[i] >> j & 1 << 4
			}
			y[32*j+i] = float32(scale*float32(v)) - offset
		}
	}
}

// kFactors returns pair j of the 8 pairs of 6-bit factors that 12 bytes hold.
func kFactors(b []byte, j int) (f, g byte) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

// unpack6K unpacks a block of Q6_K.
func unpack6K(y []float32, b []byte) {
	low, high, factors, d := b[:128], b[128:192], b[192:208], halfAt(b, 208)
	for half := range 2 {
		l, h, f := low[64*half:], high[32*half:], factors[8*half:]
		for part := range 4 { // 32 elements each
			for i := range 32 {
				q := l[part%2*32+i] >> (part / 2 * 4) & 15
				q |= h[i] >> (2 * part) & 3 << 4
				scale := float32(d * float32(int8(f[2*part+i/16])))
				y[128*half+32*part+i] = scale * float32(int(q)-32)
			}
		}
	}
}

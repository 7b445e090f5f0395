package checkpoint

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRoundedTypes checks that half and bfloat16 are rounded to the nearest number, and that numbers of Q8_0 have an
// error of at most half a step.
func TestRoundedTypes(t *testing.T) {
	for h := range 1 << 16 {
		if x := fromHalf(uint16(h)); x == x && toHalf(x) != uint16(h) {
			t.Fatalf("%#x is %g, which becomes %#x", h, x, toHalf(x))
		}
	}
	for _, c := range []struct {
		x    float32
		want uint16
	}{
		{65519.996, 0x7bff}, {65520, 0x7c00}, {-1e9, 0xfc00}, {1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02},
		{0x1p-25, 0}, {0x1.8p-25, 1}, {0x1.ffep-15, 0x0400}, {float32(math.NaN()), 0x7e00},
	} {
		if got := toHalf(c.x); got != c.want {
			t.Errorf("%g becomes %#x, want %#x", c.x, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 32*50)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Exp(3*rng.NormFloat64()))
	}
	for kind, steps := range map[DType]float64{Q8_0: 127, Q4_0: 8} {
		q, err := ConvertTensor("x", kind, []int{50, 32}, x)
		if err != nil {
			t.Fatal(err)
		}
		y, err := q.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for b := 0; b < len(x); b += 32 {
			most, sign := 0.0, 1.0
			for _, v := range x[b : b+32] {
				if a := math.Abs(float64(v)); a > most {
					most, sign = a, math.Copysign(1, float64(v))
				}
			}
			for i, v := range x[b : b+32] {
				// The bound is half a step, plus the change of the largest number when the factor is rounded to 11
				// bits. Q4_0 has 7 steps on the side opposite to the largest.
				bound := most * (0.5/steps + 1.0/2048)
				if kind == Q4_0 && float64(v)*sign < -most*7.5/8 {
					bound = most * (1.0/8 + 1.0/2048)
				}
				if e := math.Abs(float64(v - y[b+i])); e > bound {
					t.Fatalf("%s, block %d: %g became %g, the largest is %g", kind, b/32, v, y[b+i], most)
				}
			}
		}
	}
}

// blockMaker creates blocks of quantized types from known integers and factors.
type blockMaker struct{ rng *rand.Rand }

const blockScale, blockOffset = 0.5, -0.25

func half(b []byte, x float32) []byte { return binary.LittleEndian.AppendUint16(b, toHalf(x)) }

func (m blockMaker) ints(n, below int) []int {
	q := make([]int, n)
	for i := range q {
		q[i] = m.rng.IntN(below)
	}
	return q
}

// small returns a block of 32 of Q4_0, Q4_1, Q5_0 or Q5_1.
func (m blockMaker) small(bits, shift int, offset float32) (b []byte, want []float32) {
	q := m.ints(32, 1<<bits)
	b = half(b, blockScale)
	if offset != 0 {
		b = half(b, offset)
	}
	if bits == 5 {
		high := uint32(0)
		for i, v := range q {
			high |= uint32(v>>4) << i
		}
		b = binary.LittleEndian.AppendUint32(b, high)
	}
	for i := range 16 {
		b = append(b, byte(q[i]&15|q[i+16]&15<<4))
	}
	for _, v := range q {
		want = append(want, blockScale*float32(v+shift)+offset)
	}
	return b, want
}

// large returns a block of 256 of Q4_K or Q5_K.
func (m blockMaker) large(bits int) (b []byte, want []float32) {
	q, f, g := m.ints(256, 1<<bits), m.ints(8, 64), m.ints(8, 64)
	packed := make([]byte, 12)
	for j := range 4 {
		packed[j] = byte(f[j] | f[j+4]>>4<<6)
		packed[j+4] = byte(g[j] | g[j+4]>>4<<6)
		packed[j+8] = byte(f[j+4]&15 | g[j+4]&15<<4)
	}
	b = append(half(half(b, blockScale), blockOffset), packed...)
	if bits == 5 {
		high := make([]byte, 32)
		for i, v := range q {
			high[i%32] |= byte(v >> 4 << (i / 32))
		}
		b = append(b, high...)
	}
	for i := range 128 {
		at := i/32*64 + i%32
		b = append(b, byte(q[at]&15|q[at+32]&15<<4))
	}
	for i, v := range q {
		want = append(want, blockScale*float32(f[i/32])*float32(v)-blockOffset*float32(g[i/32]))
	}
	return b, want
}

// six returns a block of Q6_K.
func (m blockMaker) six() (b []byte, want []float32) {
	q, f := m.ints(256, 64), m.ints(16, 256)
	low, high := make([]byte, 128), make([]byte, 64)
	for i, v := range q {
		h, part, at := i/128, i%128/32, i%32
		low[64*h+part%2*32+at] |= byte(v & 15 << (part / 2 * 4))
		high[32*h+at] |= byte(v >> 4 << (2 * part))
	}
	b = append(low, high...)
	for _, v := range f {
		b = append(b, byte(v))
	}
	for i, v := range q {
		want = append(want, blockScale*float32(int8(f[i/16]))*float32(v-32))
	}
	return half(b, blockScale), want
}

// element returns element i of a block, in float64, by the layouts of ggml-common.h and the formulas of ggml-quants.c
// (dequantize_row_*).
func element(kind DType, b []byte, i int) float64 {
	half := func(at int) float64 { return float64(halfAt(b, at)) }
	low := func(from, bits, i int) int { // field i of the fields of the given bits in each byte
		return int(b[from+i/(8/bits)]) >> (i % (8 / bits) * bits) & (1<<bits - 1)
	}
	fifth := func(from int) int { return int(binary.LittleEndian.Uint32(b[from:])>>i&1) << 4 }
	nibble := func(from int) int { return low(from, 4, i%16*2+i/16) }
	group, at := i/32, i%32
	switch kind {
	case Q4_0:
		return half(0) * float64(nibble(2)-8)
	case Q4_1:
		return half(0)*float64(nibble(4)) + half(2)
	case Q5_0:
		return half(0) * float64(nibble(6)+fifth(2)-16)
	case Q5_1:
		return half(0)*float64(nibble(8)+fifth(4)) + half(2)
	case Q8_0:
		return half(0) * float64(int8(b[2+i]))
	case Q2_K:
		q := low(16, 2, (i/128*32+at)*4+group%4)
		return half(80)*float64(b[i/16]&15)*float64(q) - half(82)*float64(b[i/16]>>4)
	case Q3_K:
		q := low(32, 2, (i/128*32+at)*4+group%4) - 4 + 4*low(0, 1, at*8+group)
		g := i / 16
		f := low(96, 4, g%8*2+g/8) + low(104, 2, g%4*4+g/4)<<4
		return half(108) * float64(f-32) * float64(q)
	case Q4_K, Q5_K:
		f, m := int(b[4+group%4])&63, int(b[8+group%4])&63
		if group > 3 {
			f = low(12, 4, 2*(group-4)) + int(b[group])>>6<<4
			m = low(12, 4, 2*(group-4)+1) + int(b[group+4])>>6<<4
		}
		q := 0
		if kind == Q4_K {
			q = low(16, 4, (group/2*32+at)*2+group%2)
		} else {
			q = low(48, 4, (group/2*32+at)*2+group%2) + low(16, 1, at*8+group)<<4
		}
		return half(0)*float64(f)*float64(q) - half(2)*float64(m)
	case Q6_K:
		q := low(0, 4, (i/128*64+i%64)*2+i%128/64) + low(128, 2, (i/128*32+at)*4+group%4)<<4
		return half(208) * float64(int8(b[192+i/16])) * float64(q-32)
	}
	panic(kind)
}

// FuzzBlocks checks that any bytes, read as blocks of each type, give the values of the definition in float64.
func FuzzBlocks(f *testing.F) {
	m := blockMaker{rand.New(rand.NewPCG(7, 8))}
	for range 3 {
		b := make([]byte, 210)
		for i := range b {
			b[i] = byte(m.rng.Uint32())
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range ggufTypes {
			n, size := kind.Block()
			if !kind.Quantized() || len(data) < size {
				continue
			}
			x := Tensor{Name: "x", DType: kind, Shape: []int{n}, Data: data[:size]}
			got, err := x.Float32()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				want := element(kind, data, i)
				// There are three rounding errors of products, whose sum may cancel. So the bound is relative to the
				// parts, which are at most the largest factors times 63·31 and f16's largest number times 63.
				most := 0x1p-22 * (math.Abs(want) + 63*largestHalf(data[:size]))
				finite := math.Abs(want) < math.Inf(1)
				if d := math.Abs(float64(v) - want); finite && !(d <= most) || !finite && d == d {
					t.Fatalf("%s: element %d is %g, want %g", kind, i, v, want)
				}
			}
		}
	})
}

// largestHalf returns the largest f16 number that two neighboring bytes hold.
func largestHalf(b []byte) (most float64) {
	for i := range b[:len(b)-1] {
		if v := math.Abs(float64(halfAt(b, i))); v <= 65504 {
			most = max(most, v)
		}
	}
	return most
}

// two returns a block of Q2_K.
func (m blockMaker) two() (b []byte, want []float32) {
	q, f, g := m.ints(256, 4), m.ints(16, 16), m.ints(16, 16)
	for i := range f {
		b = append(b, byte(f[i]|g[i]<<4))
	}
	b = append(b, make([]byte, 64)...)
	for i, v := range q {
		b[16+i/128*32+i%32] |= byte(v << (i % 128 / 32 * 2))
		want = append(want, blockScale*float32(f[i/16])*float32(v)-blockOffset*float32(g[i/16]))
	}
	return half(half(b, blockScale), blockOffset), want
}

// three returns a block of Q3_K.
func (m blockMaker) three() (b []byte, want []float32) {
	q, f := m.ints(256, 8), m.ints(16, 64)
	b = make([]byte, 108)
	for i, v := range q {
		b[i%32] |= byte(v >> 2 << (i / 32))
		b[32+i/128*32+i%32] |= byte(v & 3 << (i % 128 / 32 * 2))
		want = append(want, blockScale*float32(f[i/16]-32)*float32(v-4))
	}
	for i, v := range f {
		b[96+i%8] |= byte(v & 15 << (i / 8 * 4))
		b[104+i%4] |= byte(v >> 4 << (i / 4 * 2))
	}
	return half(b, blockScale), want
}

// TestBlocks checks that the elements of each quantized type are those of its definition.
func TestBlocks(t *testing.T) {
	m := blockMaker{rand.New(rand.NewPCG(5, 6))}
	for dtype, block := range map[DType]func() ([]byte, []float32){
		Q4_0: func() ([]byte, []float32) { return m.small(4, -8, 0) },
		Q4_1: func() ([]byte, []float32) { return m.small(4, 0, blockOffset) },
		Q5_0: func() ([]byte, []float32) { return m.small(5, -16, 0) },
		Q5_1: func() ([]byte, []float32) { return m.small(5, 0, blockOffset) },
		Q2_K: m.two,
		Q3_K: m.three,
		Q4_K: func() ([]byte, []float32) { return m.large(4) },
		Q5_K: func() ([]byte, []float32) { return m.large(5) },
		Q6_K: m.six,
	} {
		x := Tensor{Name: "x", DType: dtype}
		var want []float32
		for range 3 {
			b, w := block()
			x.Data, want = append(x.Data, b...), append(want, w...)
		}
		x.Shape = []int{3, len(want) / 3}
		got, err := x.Float32()
		if err != nil {
			t.Errorf("%s: %v", dtype, err)
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", dtype, got[:8], want[:8])
		}
		if _, err := x.Int64(); err == nil {
			t.Errorf("%s can be read as whole numbers", dtype)
		}
	}
}

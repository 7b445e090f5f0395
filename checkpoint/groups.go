package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// GroupTypes returns the types of integer rows that hold all elements of t exactly, the smallest first: Int8, Int4 or
// Int4Min, or none. As an exception, such a row keeps only the first 11 of the 17 bits of the factors and least values
// of Q4_K.
func (t *Tensor) GroupTypes() []DType {
	if t.order != nil && t.columns/len(t.order)%groupLen != 0 {
		return nil
	}
	switch t.DType {
	case Q4_0, Int4:
		return []DType{Int4, Int8}
	case Q5_0, Q8_0, Int8:
		return []DType{Int8}
	case Q4_1, Q4_K, Int4Min:
		return []DType{Int4Min}
	}
	return nil
}

// ReadGroups sets q to the integers of row j, which is as long as the last axis. It sets factor and least to the
// factors and least values of each 32 of them, as float16, and returns the scale. An element is scale·(factor·q +
// least). ReadGroups is for types that have GroupTypes. It returns an error if a factor is not finite.
func (t *Tensor) ReadGroups(j int, q []int8, factor, least []uint16) (scale float32, err error) {
	err = disk.Guard(func() {
		if t.DType.integers() {
			size := t.DType.RowBytes(len(q))
			scale = readIntegerRow(t.DType, t.Data[j*size:][:size], q, factor, least)
			return
		}
		block, size := t.DType.Block()
		n := len(q) / block * size
		scale = readBlockRow(t.DType, t.Data[j*n:][:n], q, factor, least)
	})
	if err == nil {
		err = checkGroups(j, scale, factor, least)
	}
	if err == nil && t.order != nil {
		reorder(q, t.order)
		reorder(factor, t.order)
		reorder(least, t.order)
	}
	if err != nil {
		return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return scale, nil
}

// checkGroups returns an error if the elements would not be finite with the given factors.
func checkGroups(j int, scale float32, factor, least []uint16) error {
	if !(scale >= 0) {
		return fmt.Errorf("row %d: found the scale %v, want a number from 0 on", j, scale)
	}
	const infinite = 0x7c00
	most, mostLeast := uint16(0), uint16(0) // bits of magnitudes, which sort as the magnitudes do
	for g := range factor {
		most, mostLeast = max(most, factor[g]&0x7fff), max(mostLeast, least[g]&0x7fff)
	}
	if most >= infinite || mostLeast >= infinite {
		g := slices.IndexFunc(factor, func(f uint16) bool { return f&0x7fff >= infinite })
		if g < 0 {
			g = slices.IndexFunc(least, func(f uint16) bool { return f&0x7fff >= infinite })
		}
		return fmt.Errorf("row %d, group %d: found the factor %v and the least number %v, want finite numbers", j, g,
			fromHalf(factor[g]), fromHalf(least[g]))
	}
	if x := scale * (128*fromHalf(most) + fromHalf(mostLeast)); !(x <= math.MaxFloat32) {
		return fmt.Errorf("row %d: found the scale %v, with which numbers may be infinite", j, scale)
	}
	return nil
}

// readIntegerRow is ReadGroups for the bytes of a row of integers.
func readIntegerRow(d DType, b []byte, q []int8, factor, least []uint16) (scale float32) {
	scale = math.Float32frombits(binary.LittleEndian.Uint32(b))
	b = b[4:]
	for g := range factor {
		factor[g], least[g] = binary.LittleEndian.Uint16(b[2*g:]), 0
	}
	b = b[2*len(factor):]
	zero := int8(8)
	if d == Int4Min {
		zero = 0
		for g := range least {
			least[g] = binary.LittleEndian.Uint16(b[2*g:])
		}
		b = b[2*len(least):]
	}
	if d == Int8 {
		for i := range q {
			q[i] = int8(b[i])
		}
		return scale
	}
	n := len(q) / 2
	for i, v := range b[:n] {
		two := q[2*i : 2*i+2 : 2*i+2]
		two[0], two[1] = int8(v&15)-zero, int8(v>>4)-zero
	}
	if len(q)%2 == 1 {
		q[2*n] = int8(b[n]&15) - zero
	}
	return scale
}

// AppendGroups appends a row of integers of type d to b. Its arguments are the results of ReadGroups.
func AppendGroups(b []byte, d DType, scale float32, q []int8, factor, least []uint16) []byte {
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(scale))
	for _, f := range factor {
		b = binary.LittleEndian.AppendUint16(b, f)
	}
	zero := int8(8)
	if d == Int4Min {
		zero = 0
		for _, f := range least {
			b = binary.LittleEndian.AppendUint16(b, f)
		}
	}
	if d == Int8 {
		for _, v := range q {
			b = append(b, byte(v))
		}
		return b
	}
	for i := 0; i < len(q); i += 2 {
		v := byte(q[i] + zero)
		if i+1 < len(q) {
			v |= byte(q[i+1]+zero) << 4
		}
		b = append(b, v)
	}
	return b
}

// readBlockRow is ReadGroups for the blocks of a row of a GGUF file.
func readBlockRow(d DType, b []byte, q []int8, factor, least []uint16) (scale float32) {
	if d == Q4_K {
		return readRowK(b, q, factor, least)
	}
	_, size := d.Block()
	for g := range factor {
		block, to := b[g*size:][:size], q[g*groupLen:][:groupLen]
		factor[g], least[g] = binary.LittleEndian.Uint16(block), 0
		switch d {
		case Q4_0:
			splitNibbles(to, block[2:], -8)
		case Q4_1:
			least[g] = binary.LittleEndian.Uint16(block[2:])
			splitNibbles(to, block[4:], 0)
		case Q5_0:
			high := binary.LittleEndian.Uint32(block[2:])
			splitNibbles(to, block[6:], -16)
			for i := range to {
				to[i] += int8(high >> i & 1 << 4)
			}
		case Q8_0:
			for i := range to {
				to[i] = int8(block[2+i])
			}
		}
	}
	return 1
}

// splitNibbles sets q to the halves of 16 bytes plus zero, the low halves first.
func splitNibbles(q []int8, b []byte, zero int8) {
	for i := range 16 {
		q[i], q[i+16] = int8(b[i]&15)+zero, int8(b[i]>>4)+zero
	}
}

// readRowK is readBlockRow for Q4_K. The scale is a power of two that keeps the largest factor or least value of the
// row far from the limits of float16.
func readRowK(b []byte, q []int8, factor, least []uint16) (scale float32) {
	const block, size = 256, 144
	const groups = block / groupLen
	pair := func(g int) (f, m float32) {
		at := b[g/groups*size:]
		i, j := kFactors(at[4:16], g%groups)
		return float32(halfAt(at, 0) * float32(i)), -float32(halfAt(at, 2) * float32(j))
	}
	top := 0.0
	for g := range factor {
		f, m := pair(g)
		top = max(top, math.Abs(float64(f)), math.Abs(float64(m))) // a NaN remains a NaN
	}
	_, exponent := math.Frexp(top)
	exponent = max(exponent-7, -126)
	if !(top <= math.MaxFloat32) {
		exponent = 0
	}
	for g := range factor {
		f, m := pair(g)
		factor[g] = toHalf(float32(math.Ldexp(float64(f), -exponent)))
		least[g] = toHalf(float32(math.Ldexp(float64(m), -exponent)))
		low := b[g/groups*size+16+g%groups/2*groupLen:][:groupLen]
		for i, v := range low {
			q[g*groupLen+i] = int8(v >> (g % 2 * 4) & 15)
		}
	}
	return float32(math.Ldexp(1, exponent))
}

package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/format"
)

// This file decodes the values of a Parquet page (Apache Parquet, Encodings.md) one by one, so that a page cannot claim
// memory: a run of two billion values is just a count.

// raw is a value of a physical type: bits of numbers, bytes of texts, valid until the next one is read.
type raw struct {
	bits  uint64
	bytes []byte
}

// decoder reads the values of a page that are not missing.
type decoder interface {
	next() (raw, error)
}

// physical is the storage type of a column.
type physical struct {
	kind format.Type
	size int // bytes of a value; 0 if they differ, and of truths
}

// sizeOf returns the bytes of a value of a type.
func sizeOf(kind format.Type, length int) int {
	switch kind {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	case format.Int96:
		return 12
	case format.FixedLenByteArray:
		return length
	}
	return 0
}

// fixed decodes a value of fixed size.
func (p *physical) fixed(b []byte) raw {
	switch p.kind {
	case format.Int32:
		return raw{bits: uint64(int64(int32(binary.LittleEndian.Uint32(b))))}
	case format.Float:
		return raw{bits: uint64(binary.LittleEndian.Uint32(b))}
	case format.Int64, format.Double:
		return raw{bits: binary.LittleEndian.Uint64(b)}
	}
	return raw{bytes: b}
}

// newDecoder returns a decoder of at most n values.
func newDecoder(p *physical, encoding format.Encoding, data []byte, n int) (decoder, error) {
	integers := p.kind == format.Int32 || p.kind == format.Int64
	switch {
	case encoding == format.Plain:
		return &plain{physical: p, data: data}, nil
	case encoding == format.RLE && p.kind == format.Boolean:
		data, _, err := sized(data)
		return &booleans{hybrid{data: data, width: 1}}, err
	case encoding == format.DeltaBinaryPacked && integers:
		d, err := newDelta(data, n)
		return &deltaIntegers{d, p.kind == format.Int32}, err
	case encoding == format.DeltaLengthByteArray && p.kind == format.ByteArray:
		return newDeltaLength(data, n)
	case encoding == format.DeltaByteArray && (p.kind == format.ByteArray || p.kind == format.FixedLenByteArray):
		return newDeltaBytes(p, data, n)
	case encoding == format.ByteStreamSplit && p.size > 0 && p.kind != format.Int96:
		return &split{physical: p, data: data, n: len(data) / p.size, value: make([]byte, p.size)}, nil
	}
	return nil, fmt.Errorf("found %s values encoded as %s (%d), which is not read", p.kind, encoding, int(encoding))
}

// sized splits off data that is preceded by its length in four bytes.
func sized(data []byte) (part, rest []byte, err error) {
	if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
		return nil, nil, errCutOff
	}
	n := binary.LittleEndian.Uint32(data)
	return data[4 : 4+n], data[4+n:], nil
}

// plain decodes PLAIN: values one after another, booleans as bits, texts after their lengths.
type plain struct {
	*physical
	data []byte
	bit  uint
}

func (d *plain) next() (raw, error) {
	switch {
	case d.kind == format.Boolean:
		if len(d.data) == 0 {
			return raw{}, errCutOff
		}
		v := raw{bits: uint64(d.data[0]>>d.bit) & 1}
		if d.bit++; d.bit == 8 {
			d.data, d.bit = d.data[1:], 0
		}
		return v, nil
	case d.kind == format.ByteArray:
		text, rest, err := sized(d.data)
		d.data = rest
		return raw{bytes: text}, err
	case len(d.data) < d.size:
		return raw{}, errCutOff
	}
	v := d.fixed(d.data[:d.size])
	d.data = d.data[d.size:]
	return v, nil
}

// hybrid decodes RLE: runs of one value, and groups of eight bit-packed values.
type hybrid struct {
	data   []byte
	width  uint   // bits of a value, at most 32
	run    uint64 // values that are left of a run
	packed bool
	value  uint64 // of a run of one value
	bits   uint64 // that have been taken from data
	have   uint   // of bits
}

// mostRun is the limit on the values of a run, so that their number times a width does not overflow.
const mostRun = 1 << 40

func (h *hybrid) next() (uint64, error) {
	for h.run == 0 {
		head, n := binary.Uvarint(h.data)
		if n <= 0 || head>>1 > mostRun {
			return 0, errCutOff
		}
		h.data = h.data[n:]
		h.run, h.packed, h.bits, h.have = head>>1, head&1 == 1, 0, 0
		if h.packed {
			h.run *= 8
			continue
		}
		h.value = 0
		for i := range (h.width + 7) / 8 {
			if len(h.data) == 0 {
				return 0, errCutOff
			}
			h.value |= uint64(h.data[0]) << (8 * i)
			h.data = h.data[1:]
		}
	}
	h.run--
	if !h.packed {
		return h.value, nil
	}
	for h.have < h.width {
		if len(h.data) == 0 {
			return 0, errCutOff
		}
		h.bits |= uint64(h.data[0]) << h.have
		h.have += 8
		h.data = h.data[1:]
	}
	v := h.bits & (1<<h.width - 1)
	h.bits >>= h.width
	h.have -= h.width
	return v, nil
}

// booleans decodes booleans as RLE.
type booleans struct{ hybrid }

func (d *booleans) next() (raw, error) {
	bits, err := d.hybrid.next()
	return raw{bits: bits}, err
}

// split decodes BYTE_STREAM_SPLIT: the first bytes of all values, then the second ones, and so on.
type split struct {
	*physical
	data  []byte
	at, n int
	value []byte
}

func (d *split) next() (raw, error) {
	if d.at >= d.n {
		return raw{}, errCutOff
	}
	for i := range d.value {
		d.value[i] = d.data[i*d.n+d.at]
	}
	d.at++
	return d.fixed(d.value), nil
}

// halfFloat decodes a number of 16 bits (IEEE 754).
func halfFloat(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10)&31, float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		return math.NaN() // or infinite: both are missing
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// errNoDictionary is the error of a page of places in a dictionary that is not there.
var errNoDictionary = errors.New("found places in a dictionary, but no dictionary before them")

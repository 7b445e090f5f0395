package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/format"
)

// This file decodes the values of a Parquet page (Apache Parquet, Encodings.md) one by one, so that a page cannot claim
// much memory: a run of two billion values is just a count.

// raw is a value of a physical type: the bits of a number or the bytes of a text. It is valid until the next value is
// read.
type raw struct {
	bits  uint64
	bytes []byte
}

// decoder reads the values of a page. Missing values are not stored.
type decoder interface {
	next() (raw, error)
}

// physical is the storage type of a column.
type physical struct {
	kind format.Type
	size int // bytes per value; 0 for varying lengths and for booleans
}

// sizeOf returns the size of a value of a type in bytes, or 0 if the type has no fixed size.
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

// newDecoder returns a decoder for at most n values.
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

// sized splits off data that is preceded by its length as four bytes.
func sized(data []byte) (part, rest []byte, err error) {
	if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
		return nil, nil, errCutOff
	}
	n := binary.LittleEndian.Uint32(data)
	return data[4 : 4+n], data[4+n:], nil
}

// plain decodes PLAIN: consecutive values; booleans are bits, texts follow their lengths.
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

// hybrid decodes RLE: runs of one repeated value, and groups of eight bit-packed values.
type hybrid struct {
	data   []byte
	width  uint   // bits per value, at most 32
	run    uint64 // number of remaining values in the run
	packed bool
	value  uint64 // the repeated value
	bits   uint64 // bits taken from data
	have   uint   // number of bits
}

// mostRun is the maximum number of values in a run. It prevents an overflow when that number is multiplied by a width.
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

// booleans decodes booleans stored as RLE.
type booleans struct{ hybrid }

func (d *booleans) next() (raw, error) {
	bits, err := d.hybrid.next()
	return raw{bits: bits}, err
}

// split decodes BYTE_STREAM_SPLIT: the first bytes of all values, then all second bytes, and so on.
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

// halfFloat decodes a 16-bit number (IEEE 754).
func halfFloat(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10)&31, float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		return math.NaN() // an infinite number is missing, too
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// errNoDictionary reports that a page holds indices into a dictionary, but no dictionary came before it.
var errNoDictionary = errors.New("found places in a dictionary, but no dictionary before them")

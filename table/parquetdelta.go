package table

import (
	"encoding/binary"
	"fmt"
)

// delta decodes DELTA_BINARY_PACKED: blocks of differences, minus the minimum of the block.
type delta struct {
	data   []byte
	block  int // number of values in a block
	minis  int // parts per block, each with its own bit width
	left   int // number of remaining values
	first  bool
	value  int64
	least  int64
	widths []byte // bit widths of the remaining parts of the block
	mini   int    // number of remaining values in the part
	part   []byte // bits of the current part
	width  uint
	bit    uint // position in part
}

// mostBlock is the maximum number of values in a block.
const mostBlock = 1 << 16

func newDelta(data []byte, most int) (*delta, error) {
	d := &delta{data: data, first: true}
	var heads [3]uint64
	for i := range heads {
		x, n := binary.Uvarint(d.data)
		if n <= 0 {
			return nil, errCutOff
		}
		heads[i], d.data = x, d.data[n:]
	}
	first, n := binary.Varint(d.data)
	if n <= 0 {
		return nil, errCutOff
	}
	d.data, d.value = d.data[n:], first
	block, minis, count := heads[0], heads[1], heads[2]
	if block > mostBlock || block%128 != 0 || minis < 1 || minis > block || block%minis != 0 || block/minis%32 != 0 {
		return nil, fmt.Errorf("found blocks of %d differences in %d parts, want at most %d in parts of 32 or more",
			block, minis, mostBlock)
	}
	if count > uint64(most) {
		return nil, fmt.Errorf("found %d differences, want at most %d", count, most)
	}
	d.block, d.minis, d.left = int(block), int(minis), int(count)
	return d, nil
}

// nextPart advances to the next part of a block.
func (d *delta) nextPart() error {
	if len(d.widths) == 0 {
		least, n := binary.Varint(d.data)
		if n <= 0 || len(d.data)-n < d.minis {
			return errCutOff
		}
		d.least, d.data = least, d.data[n:]
		d.widths, d.data = d.data[:d.minis], d.data[d.minis:]
	}
	d.width, d.widths = uint(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return fmt.Errorf("found differences of %d bits, want at most 64", d.width)
	}
	d.mini, d.bit = d.block/d.minis, 0
	size := d.mini * int(d.width) / 8
	if size > len(d.data) {
		return errCutOff
	}
	d.part, d.data = d.data[:size], d.data[size:]
	return nil
}

func (d *delta) next() (int64, error) {
	if d.left == 0 {
		return 0, errCutOff
	}
	d.left--
	if d.first {
		d.first = false
		return d.value, nil
	}
	if d.mini == 0 {
		if err := d.nextPart(); err != nil {
			return 0, err
		}
	}
	d.mini--
	x := uint64(0)
	for got := uint(0); got < d.width; {
		take := min(8-d.bit%8, d.width-got)
		x |= uint64(d.part[d.bit/8]>>(d.bit%8)) & (1<<take - 1) << got
		got, d.bit = got+take, d.bit+take
	}
	d.value += d.least + int64(x)
	return d.value, nil
}

// rest returns the data after all values.
func (d *delta) rest() ([]byte, error) {
	end := *d
	if end.first && end.left > 0 {
		end.first = false
		end.left--
	}
	for end.left > end.mini {
		end.left -= end.mini
		if err := end.nextPart(); err != nil {
			return nil, err
		}
	}
	return end.data, nil
}

// deltaIntegers decodes integers stored as differences.
type deltaIntegers struct {
	*delta
	narrow bool // integers have 32 bits
}

func (d *deltaIntegers) next() (raw, error) {
	x, err := d.delta.next()
	if d.narrow {
		x = int64(int32(x))
	}
	return raw{bits: uint64(x)}, err
}

// deltaLength decodes DELTA_LENGTH_BYTE_ARRAY: the lengths of all texts, then the texts.
type deltaLength struct {
	lengths *delta
	data    []byte
}

func newDeltaLength(data []byte, n int) (*deltaLength, error) {
	lengths, err := newDelta(data, n)
	if err != nil {
		return nil, err
	}
	rest, err := lengths.rest()
	return &deltaLength{lengths, rest}, err
}

func (d *deltaLength) next() (raw, error) {
	n, err := d.lengths.next()
	if err != nil {
		return raw{}, err
	}
	if n < 0 || n > int64(len(d.data)) {
		return raw{}, errCutOff
	}
	v := raw{bytes: d.data[:n]}
	d.data = d.data[n:]
	return v, nil
}

// deltaBytes decodes DELTA_BYTE_ARRAY: the lengths of the prefixes shared with the previous text, then the suffixes.
type deltaBytes struct {
	*physical
	shared *delta
	rest   *deltaLength
	text   []byte
}

func newDeltaBytes(p *physical, data []byte, n int) (*deltaBytes, error) {
	shared, err := newDelta(data, n)
	if err != nil {
		return nil, err
	}
	rest, err := shared.rest()
	if err != nil {
		return nil, err
	}
	texts, err := newDeltaLength(rest, n)
	return &deltaBytes{physical: p, shared: shared, rest: texts}, err
}

func (d *deltaBytes) next() (raw, error) {
	n, err := d.shared.next()
	if err != nil {
		return raw{}, err
	}
	more, err := d.rest.next()
	if err != nil {
		return raw{}, err
	}
	if n < 0 || n > int64(len(d.text)) {
		return raw{}, fmt.Errorf("found a text that begins with %d bytes of one of %d", n, len(d.text))
	}
	d.text = append(d.text[:n], more.bytes...)
	if d.size > 0 && len(d.text) != d.size {
		return raw{}, fmt.Errorf("found a value of %d bytes, want %d", len(d.text), d.size)
	}
	return raw{bytes: d.text}, nil
}

package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// This file decodes the frames of FLAC (RFC 9639, section 9).

// flacBits reads bits, the most significant of each byte first, and computes the checksums of all bytes read.
type flacBits struct {
	r     *bufio.Reader
	have  uint64 // bits that have been read, starting at the most significant
	n     uint   // number of bits in have
	crc8  byte
	crc16 uint16
	err   error // the first error; after it, all bits are 0
}

// flacCRC8 and flacCRC16 contain the checksums of each byte: CRC-8 by x⁸+x²+x+1, CRC-16 by x¹⁶+x¹⁵+x²+1.
var flacCRC8, flacCRC16 = func() (short [256]byte, long [256]uint16) {
	for i := range 256 {
		a, b := byte(i), uint16(i)<<8
		for range 8 {
			a = a<<1 ^ 0x07*(a>>7)
			b = b<<1 ^ 0x8005*(b>>15)
		}
		short[i], long[i] = a, b
	}
	return short, long
}()

// fill reads bytes until n bits are available, at most 57.
func (b *flacBits) fill(n uint) {
	for b.n < n && b.err == nil {
		c, err := b.r.ReadByte()
		if err != nil {
			b.err = err
			return
		}
		b.crc8 = flacCRC8[b.crc8^c]
		b.crc16 = b.crc16<<8 ^ flacCRC16[byte(b.crc16>>8)^c]
		b.have |= uint64(c) << (56 - b.n)
		b.n += 8
	}
}

// read reads a number with n bits, at most 57.
func (b *flacBits) read(n uint) uint64 {
	if b.fill(n); b.err != nil || n == 0 {
		return 0
	}
	x := b.have >> (64 - n)
	b.have <<= n
	b.n -= n
	return x
}

// signed reads a number with n bits in two's complement.
func (b *flacBits) signed(n uint) int64 {
	x := b.read(n)
	if n == 0 {
		return 0
	}
	return int64(x<<(64-n)) >> (64 - n)
}

// mostUnary is the maximum of unary numbers.
const mostUnary = 1 << 32

// unary counts the zeros before the next one.
func (b *flacBits) unary() (zeros uint64) {
	for {
		if b.fill(1); b.err != nil {
			return 0
		}
		if k := uint(bits.LeadingZeros64(b.have)); k < b.n {
			b.have <<= k + 1
			b.n -= k + 1
			return zeros + uint64(k)
		}
		zeros += uint64(b.n)
		b.have, b.n = 0, 0
		if zeros > mostUnary {
			b.err = errors.New("found a number that is too large")
		}
	}
}

// align skips the bits up to the next byte.
func (b *flacBits) align() {
	b.have <<= b.n % 8
	b.n -= b.n % 8
}

// flacInfo is the metadata of a file.
type flacInfo struct {
	rate, channels, bits int
	samples              int64 // in each channel; 0 if unknown
	sum                  [16]byte
}

// Codes of frames in which one channel is the difference of both: the second, the first, or the second.
const (
	leftSide  = 8
	sideRight = 9
	midSide   = 10
)

// flacFrame reads a frame into one slice of samples for each channel. It returns io.EOF if there is none.
func flacFrame(b *flacBits, info *flacInfo, out [][]int64) error {
	if _, err := b.r.Peek(1); err == io.EOF {
		return err
	}
	n, channels, err := flacHead(b, info)
	if err != nil {
		return err
	}
	for i := range out {
		depth := uint(info.bits)
		if channels == sideRight && i == 0 || (channels == leftSide || channels == midSide) && i == 1 {
			depth++ // the channel is a difference
		}
		if cap(out[i]) < n {
			out[i] = make([]int64, n)
		}
		out[i] = out[i][:n]
		if err := flacSubframe(b, depth, out[i]); err != nil {
			return err
		}
	}
	b.align()
	sum := b.crc16
	if want := b.read(16); b.err == nil && uint64(sum) != want {
		return fmt.Errorf("found a frame with the checksum %04x, want %04x: the file is damaged", sum, want)
	}
	if b.err != nil {
		return b.err
	}
	for k := range n {
		switch channels {
		case leftSide:
			out[1][k] = out[0][k] - out[1][k]
		case sideRight:
			out[0][k] += out[1][k]
		case midSide:
			mid, side := out[0][k], out[1][k]
			mid = mid<<1 | side&1
			out[0][k], out[1][k] = (mid+side)>>1, (mid-side)>>1
		}
	}
	return nil
}

// flacRates lists the sampling rates that a frame can select by number.
var flacRates = [12]int{0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000}

// flacDepths lists the bits per sample that a frame can select; 0 for those of the file, -1 for invalid.
var flacDepths = [8]int{0, 8, 12, -1, 16, 20, 24, 32}

// flacHead reads the header of a frame: its number of samples, and how its channels are packed.
func flacHead(b *flacBits, info *flacInfo) (n, channels int, err error) {
	b.crc8, b.crc16 = 0, 0
	if sync := b.read(15); b.err == nil && sync != 0x7FFC {
		return 0, 0, fmt.Errorf("found the bits %015b, want the 111111111111100 that a frame begins with", sync)
	}
	b.read(1)
	size, rate := int(b.read(4)), int(b.read(4))
	channels = int(b.read(4))
	depth := flacDepths[b.read(3)]
	b.read(1)
	for more := bits.LeadingZeros8(^uint8(b.read(8))) - 1; more > 0; more-- { // number of the frame
		b.read(8)
	}
	switch {
	case size == 1:
		n = 192
	case size >= 2 && size <= 5:
		n = 576 << (size - 2)
	case size == 6:
		n = int(b.read(8)) + 1
	case size == 7:
		n = int(b.read(16)) + 1
	case size >= 8:
		n = 256 << (size - 8)
	}
	hertz := 0
	switch rate {
	case 12:
		hertz = 1000 * int(b.read(8))
	case 13:
		hertz = int(b.read(16))
	case 14:
		hertz = 10 * int(b.read(16))
	case 15:
		hertz = -1
	default:
		hertz = flacRates[rate]
	}
	sum := b.crc8
	if want := b.read(8); b.err == nil && uint64(sum) != want {
		return 0, 0, fmt.Errorf("found the head of a frame with the checksum %02x, want %02x: the file is damaged", sum,
			want)
	}
	if b.err != nil {
		return 0, 0, b.err
	}
	count := channels + 1
	if channels >= leftSide {
		count = 2
	}
	if n == 0 || channels > midSide || count != info.channels || depth != 0 && depth != info.bits ||
		hertz != 0 && hertz != info.rate {
		return 0, 0, fmt.Errorf("found a frame of %d samples of %d channels (%d) of %d bits at %d Hz, "+
			"want %d channels of %d bits at %d Hz as the head says", n, count, channels, depth, hertz, info.channels,
			info.bits, info.rate)
	}
	return n, channels, nil
}

// flacSubframe reads the samples of a channel, with depth bits.
func flacSubframe(b *flacBits, depth uint, out []int64) error {
	zero, kind := b.read(1), int(b.read(6))
	wasted := uint(0)
	if b.read(1) == 1 {
		wasted = uint(b.unary()) + 1
	}
	if b.err == nil && (zero != 0 || wasted >= depth) {
		return fmt.Errorf("found a channel of %d bits, %d of them unused", depth, wasted)
	}
	depth -= wasted
	switch {
	case b.err != nil:
	case kind == 0:
		x := b.signed(depth)
		for k := range out {
			out[k] = x
		}
	case kind == 1:
		for k := range out {
			out[k] = b.signed(depth)
		}
	case kind >= 8 && kind <= 12:
		if err := flacPredicted(b, depth, kind-8, flacFixed[kind-8], out); err != nil {
			return err
		}
	case kind >= 32:
		if err := flacPredicted(b, depth, kind-31, nil, out); err != nil {
			return err
		}
	default:
		return fmt.Errorf("found a channel of kind %d, which is none", kind)
	}
	if wasted > 0 {
		for k := range out {
			out[k] <<= wasted
		}
	}
	return b.err
}

// flacFixed contains the weights of the fixed predictors: polynomials of order 0 to 4.
var flacFixed = [5][]int64{{}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}}

// flacPredicted reads samples that are predicted from previous ones, with the given weights or, if they are nil, with
// the channel's own.
func flacPredicted(b *flacBits, depth uint, order int, weights []int64, out []int64) error {
	if order > len(out) {
		return fmt.Errorf("found a channel of %d samples predicted from %d", len(out), order)
	}
	for k := range order {
		out[k] = b.signed(depth)
	}
	shift := int64(0)
	if weights == nil {
		precision := uint(b.read(4)) + 1
		if shift = b.signed(5); b.err == nil && (precision > 15 || shift < 0) {
			return fmt.Errorf("found weights of %d bits that are shifted by %d, want at most 15, and 0 or more",
				precision, shift)
		}
		for range order {
			weights = append(weights, b.signed(precision))
		}
	}
	if err := flacRice(b, order, out); err != nil {
		return err
	}
	for k := order; k < len(out) && order > 0; k++ {
		sum := int64(0)
		for j, w := range weights {
			sum += w * out[k-1-j]
		}
		out[k] += sum >> shift
	}
	return nil
}

// flacRice reads the residuals of the samples after the first ones. They are in partitions, each with its own number of
// lower bits. The higher bits are in unary.
func flacRice(b *flacBits, from int, out []int64) error {
	method, parts := b.read(2), 1<<b.read(4)
	if b.err == nil && (method > 1 || len(out)%parts != 0 || len(out)/parts < from) {
		return fmt.Errorf("found %d samples packed by method %d in %d parts", len(out), method, parts)
	}
	wide := uint(4 + method)
	for part := range parts {
		end := len(out) / parts * (part + 1)
		width := uint(b.read(wide))
		if b.err != nil {
			return b.err
		}
		if width == 1<<wide-1 { // uncompressed
			width = uint(b.read(5))
			for ; from < end; from++ {
				out[from] = b.signed(width)
			}
			continue
		}
		for ; from < end; from++ {
			x := b.unary()<<width | b.read(width)
			out[from] = int64(x>>1) ^ -int64(x&1)
		}
	}
	return b.err
}

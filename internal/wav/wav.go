// Package wav reads the header and the samples of WAV files (RIFF, Microsoft and IBM 1991): a header, then chunks, of
// which only "fmt " and "data" matter.
package wav

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The kinds of samples: integers, floating point, and a kind that is given in an extension.
const (
	PCM        = 1
	Float      = 3
	extensible = 0xFFFE
)

// Format is the content of the chunk "fmt ".
type Format struct {
	Kind, Channels uint16
	Rate, Bytes    uint32
	Block, Bits    uint16
}

// mostFormat is the limit for the size of the chunk "fmt ".
const mostFormat = 1 << 16

// ReadHead reads up to the samples, and returns their format and size in bytes. It calls check when the format is
// known. It returns an error if check does, for another file format, for a chunk that is cut off, and for data that is
// missing or comes before its format.
func ReadHead(r io.Reader, check func(f *Format) error) (f *Format, size uint32, err error) {
	var head struct {
		RIFF [4]byte
		Size uint32
		WAVE [4]byte
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, 0, fmt.Errorf("the head of a WAV file: found less than its %d bytes", binary.Size(&head))
	} else if err != nil {
		return nil, 0, fmt.Errorf("the head of a WAV file: %w", err)
	}
	if string(head.RIFF[:]) != "RIFF" || string(head.WAVE[:]) != "WAVE" {
		return nil, 0, fmt.Errorf("found %q and %q, want the RIFF and WAVE of a WAV file", head.RIFF, head.WAVE)
	}
	for {
		var chunk struct {
			Name [4]byte
			Size uint32
		}
		if err := binary.Read(r, binary.LittleEndian, &chunk); err == io.EOF {
			return nil, 0, errors.New("found no chunk of data")
		} else if err != nil {
			return nil, 0, fmt.Errorf("the head of a chunk: %w", err)
		}
		name, to := string(chunk.Name[:]), io.Discard
		var format bytes.Buffer
		switch {
		case name == "data" && f == nil:
			return nil, 0, errors.New("found data before its format")
		case name == "data":
			return f, chunk.Size, nil // later chunks are metadata
		case name == "fmt " && chunk.Size > mostFormat:
			return nil, 0, fmt.Errorf("found a format of %d bytes, want at most %d", chunk.Size, mostFormat)
		case name == "fmt ":
			to = &format
		}
		if n, err := io.CopyN(to, r, int64(chunk.Size)); err != nil {
			return nil, 0, fmt.Errorf("chunk %q: found %d bytes, want %d: %w", name, n, chunk.Size, err)
		}
		if name == "fmt " {
			if f, err = parseFormat(format.Bytes()); err == nil {
				err = check(f)
			}
			if err != nil {
				return nil, 0, err
			}
		}
		if _, err := io.CopyN(io.Discard, r, int64(chunk.Size%2)); err != nil { // chunks begin at even offsets
			return nil, 0, fmt.Errorf("chunk %q: %w", name, err)
		}
	}
}

func parseFormat(data []byte) (*Format, error) {
	f := &Format{}
	if _, err := binary.Decode(data, binary.LittleEndian, f); err != nil {
		return nil, fmt.Errorf("chunk \"fmt \": found %d bytes, want 16 or more", len(data))
	}
	if f.Kind == extensible && len(data) >= 26 {
		f.Kind = binary.LittleEndian.Uint16(data[24:])
	}
	return f, nil
}

// Sample decodes a sample of one channel. Integers are scaled to -1 to 1. Samples of 8 bits are unsigned.
func (f *Format) Sample(b []byte) float64 {
	switch {
	case f.Kind == Float && len(b) == 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case f.Kind == Float:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case len(b) == 1:
		return (float64(b[0]) - 128) / 128
	}
	var v int32
	for i, c := range b { // the last byte becomes the highest, with its sign
		v |= int32(c) << (8 * (4 - len(b) + i))
	}
	return float64(v) / (1 << 31)
}

// File returns a WAV file with one channel of 16-bit samples.
func File(rate uint32, samples []int16) []byte {
	size := uint32(2 * len(samples))
	data, _ := binary.Append([]byte("RIFF"), binary.LittleEndian, size+36) // numbers of fixed size cause no error
	data, _ = binary.Append(append(data, "WAVEfmt "...), binary.LittleEndian, uint32(16))
	data, _ = binary.Append(data, binary.LittleEndian, Format{PCM, 1, rate, 2 * rate, 2, 16})
	data, _ = binary.Append(append(data, "data"...), binary.LittleEndian, size)
	data, _ = binary.Append(data, binary.LittleEndian, samples)
	return data
}

package task

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// wavHead is the content of a chunk "fmt ".
type wavHead struct {
	Kind, Channels uint16
	Rate, Bytes    uint32
	Block, Bits    uint16
}

// The kinds of samples in a WAV file: whole numbers, floating point, and one that says further on which of them.
const (
	wavPlain      = 1
	wavFloat      = 3
	wavExtensible = 0xfffe
)

// readWAV reads the samples of a WAV file of one channel of 16-bit numbers at the given rate. Errors: another format,
// encoding or rate; a chunk that is cut off or missing, or data before its format.
func readWAV(r io.Reader, rate uint32) ([]int16, error) {
	data, _, err := readWAVData(r, func(f *wavHead) error { return checkWAV(f, rate) })
	if err != nil {
		return nil, err
	}
	if len(data)%2 != 0 {
		return nil, fmt.Errorf("chunk \"data\": found %d bytes, want whole samples of 2", len(data))
	}
	samples := make([]int16, len(data)/2)
	for i := range samples {
		samples[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return samples, nil
}

// ReadWAV reads a WAV file: the mean of its channels, where whole numbers become -1 to 1, and samples a second. Numbers
// are of 8, 16, 24 or 32 bits, floating point of 32. Errors: another format, a chunk that is cut off or missing, data
// before its format, no samples or more than most, samples that are not finite.
func ReadWAV(r io.Reader, most int) (samples []float64, rate int, err error) {
	data, f, err := readWAVData(r, func(f *wavHead) error {
		plain := f.Kind == wavPlain && (f.Bits == 8 || f.Bits == 16 || f.Bits == 24 || f.Bits == 32)
		if !plain && (f.Kind != wavFloat || f.Bits != 32) {
			return fmt.Errorf("found the format %d of %d bits, want 1 (plain samples) of 8, 16, 24 or 32 bits, "+
				"or 3 (floating point) of 32", f.Kind, f.Bits)
		}
		if f.Channels == 0 || f.Rate == 0 {
			return fmt.Errorf("found %d channels at %d Hz, want one or more of each", f.Channels, f.Rate)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	width := int(f.Bits) / 8
	all := width * int(f.Channels)
	if len(data) == 0 || len(data)%all != 0 {
		return nil, 0, fmt.Errorf("chunk \"data\": found %d bytes, want whole samples of %d", len(data), all)
	}
	if n := len(data) / all; n > most {
		return nil, 0, fmt.Errorf("found %d samples, want at most %d", n, most)
	}
	samples = make([]float64, len(data)/all)
	for i := range samples {
		for c := range int(f.Channels) {
			v := wavSample(data[i*all+c*width:][:width], f.Kind)
			samples[i] += v / float64(f.Channels)
		}
		if math.IsNaN(samples[i]) || math.IsInf(samples[i], 0) {
			return nil, 0, fmt.Errorf("sample %d: found %v, want a finite number", i+1, samples[i])
		}
	}
	return samples, int(f.Rate), nil
}

// wavSample is a sample of one channel. Samples of 8 bits have no sign.
func wavSample(data []byte, kind uint16) float64 {
	switch {
	case kind == wavFloat:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case len(data) == 1:
		return (float64(data[0]) - 128) / 128
	}
	var v int32
	for i, b := range data { // the last byte comes to the top, with its sign
		v |= int32(b) << (8 * (4 - len(data) + i))
	}
	return float64(v) / (1 << 31)
}

// readWAVData reads a WAV file up to the end of its samples: a header, then chunks, of which only "fmt " and "data"
// matter.
func readWAVData(r io.Reader, check func(f *wavHead) error) (data []byte, f *wavHead, err error) {
	var head struct {
		RIFF [4]byte
		Size uint32
		WAVE [4]byte
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		return nil, nil, fmt.Errorf("the head of a WAV file: %w", err)
	}
	if string(head.RIFF[:]) != "RIFF" || string(head.WAVE[:]) != "WAVE" {
		return nil, nil, fmt.Errorf("found %q and %q, want the RIFF and WAVE of a WAV file", head.RIFF, head.WAVE)
	}
	for {
		var chunk struct {
			Name [4]byte
			Size uint32
		}
		if err := binary.Read(r, binary.LittleEndian, &chunk); err == io.EOF {
			return nil, nil, errors.New("found no chunk of data")
		} else if err != nil {
			return nil, nil, fmt.Errorf("the head of a chunk: %w", err)
		}
		data, err := readExactly(r, int64(chunk.Size))
		if err != nil {
			return nil, nil, fmt.Errorf("chunk %q: %w", chunk.Name, err)
		}
		switch string(chunk.Name[:]) {
		case "fmt ":
			if f, err = parseWAV(data); err != nil {
				return nil, nil, err
			}
			if err := check(f); err != nil {
				return nil, nil, err
			}
		case "data":
			if f == nil {
				return nil, nil, errors.New("found data before its format")
			}
			return data, f, nil // later chunks are metadata
		}
		if chunk.Size%2 == 1 { // chunks begin at even offsets
			if _, err := readExactly(r, 1); err != nil {
				return nil, nil, err
			}
		}
	}
}

// parseWAV reads the content of the chunk "fmt ".
func parseWAV(data []byte) (*wavHead, error) {
	if len(data) < 16 {
		return nil, fmt.Errorf("chunk \"fmt \": found %d bytes, want 16 or more", len(data))
	}
	f := &wavHead{}
	if _, err := binary.Decode(data, binary.LittleEndian, f); err != nil {
		return nil, err
	}
	if f.Kind == wavExtensible && len(data) >= 26 {
		f.Kind = binary.LittleEndian.Uint16(data[24:])
	}
	return f, nil
}

// checkWAV checks that a file is one of recordings of digits.
func checkWAV(f *wavHead, rate uint32) error {
	if f.Kind != wavPlain || f.Channels != 1 || f.Rate != rate || f.Bits != 16 {
		return fmt.Errorf(
			"found the format %d with %d channels of %d bits at %d Hz, "+
				"want 1 (plain samples) with 1 channel of 16 bits at %d Hz", f.Kind, f.Channels, f.Bits, f.Rate, rate)
	}
	return nil
}

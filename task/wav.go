package task

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/hippo-ssm/hippo/internal/wav"
)

// readWAV reads the samples of a WAV file with one channel of 16-bit numbers at the given rate. It returns an error for
// another format, encoding or rate, for a chunk that is cut off or missing, and for data before the format.
func readWAV(r io.Reader, rate uint32) ([]int16, error) {
	data, _, err := readWAVData(r, func(f *wav.Format) error { return checkWAV(f, rate) })
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

// ReadWAV reads a WAV file. It returns the mean of the channels, with integers scaled to -1 to 1, and the number of
// samples a second. Numbers may be integers of 8, 16, 24 or 32 bits or floating-point numbers of 32 bits. It returns an
// error for another format, for a chunk that is cut off or missing, for data before the format, for no samples or more
// than most, and for samples that are not finite.
func ReadWAV(r io.Reader, most int) (samples []float64, rate int, err error) {
	data, f, err := readWAVData(r, func(f *wav.Format) error {
		plain := f.Kind == wav.PCM && (f.Bits == 8 || f.Bits == 16 || f.Bits == 24 || f.Bits == 32)
		if !plain && (f.Kind != wav.Float || f.Bits != 32) {
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
			samples[i] += f.Sample(data[i*all+c*width:][:width]) / float64(f.Channels)
		}
		if math.IsNaN(samples[i]) || math.IsInf(samples[i], 0) {
			return nil, 0, fmt.Errorf("sample %d: found %v, want a finite number", i+1, samples[i])
		}
	}
	return samples, int(f.Rate), nil
}

// readWAVData reads a WAV file up to the end of its samples.
func readWAVData(r io.Reader, check func(f *wav.Format) error) ([]byte, *wav.Format, error) {
	f, size, err := wav.ReadHead(r, check)
	if err != nil {
		return nil, nil, err
	}
	data, err := readExactly(r, int64(size))
	if err != nil {
		return nil, nil, fmt.Errorf("chunk \"data\": %w", err)
	}
	return data, f, nil
}

// checkWAV checks that a file has the format of recordings of digits.
func checkWAV(f *wav.Format, rate uint32) error {
	if f.Kind != wav.PCM || f.Channels != 1 || f.Rate != rate || f.Bits != 16 {
		return fmt.Errorf("found the format %d with %d channels of %d bits at %d Hz, "+
			"want 1 (plain samples) with 1 channel of 16 bits at %d Hz", f.Kind, f.Channels, f.Bits, f.Rate, rate)
	}
	return nil
}

package task

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// TestReadWAVKinds checks that all kinds of samples give the same numbers, and that channels give their mean.
func TestReadWAVKinds(t *testing.T) {
	float := func(x ...float32) []byte {
		data, err := binary.Append(nil, binary.LittleEndian, x)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	extensible := wavFormat(0xfffe, 1, 8000, 16)
	extensible = append(extensible, 22, 0, 16, 0, 0, 0, 0, 0, 1, 0)
	binary.LittleEndian.PutUint32(extensible[4:], uint32(len(extensible)-8))
	for name, c := range map[string]struct {
		format, data []byte
		want         []float64
	}{
		"8 bits":     {wavFormat(1, 1, 8000, 8), []byte{0, 128, 192}, []float64{-1, 0, 0.5}},
		"16 bits":    {wavFormat(1, 1, 8000, 16), []byte{0, 0x80, 0, 0, 0, 0x40}, []float64{-1, 0, 0.5}},
		"24 bits":    {wavFormat(1, 1, 8000, 24), []byte{0, 0, 0x80, 0, 0, 0, 0, 0, 0x40}, []float64{-1, 0, 0.5}},
		"32 bits":    {wavFormat(1, 1, 8000, 32), []byte{0, 0, 0, 0x80, 0, 0, 0, 0x40}, []float64{-1, 0.5}},
		"float":      {wavFormat(3, 1, 8000, 32), float(-1, 0.25), []float64{-1, 0.25}},
		"stereo":     {wavFormat(3, 2, 8000, 32), float(-1, 0.5, 1, 1), []float64{-0.25, 1}},
		"extensible": {extensible, []byte{0, 0x40}, []float64{0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			got, rate, err := ReadWAV(bytes.NewReader(wavFile(c.format, chunk("data", c.data))), 3)
			if err != nil {
				t.Fatal(err)
			}
			if rate != 8000 || !slices.Equal(got, c.want) {
				t.Errorf("found %v at %d Hz, want %v at 8000", got, rate, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"µ-law":      {wavFile(wavFormat(7, 1, 8000, 8)), "found the format 7 of 8 bits, want 1"},
		"long float": {wavFile(wavFormat(3, 1, 8000, 64)), "found the format 3 of 64 bits"},
		"no channel": {wavFile(wavFormat(1, 0, 8000, 16)), "found 0 channels"},
		"no rate":    {wavFile(wavFormat(1, 1, 0, 16)), "at 0 Hz"},
		"long": {wavFile(wavFormat(1, 1, 8000, 8), chunk("data", make([]byte, 4))),
			"found 4 samples, want at most 3"},
		"no samples": {wavFile(wavFormat(1, 1, 8000, 16), chunk("data", nil)),
			"found 0 bytes, want whole samples of 2"},
		"half sample": {wavFile(wavFormat(1, 2, 8000, 16), chunk("data", []byte{1, 2})),
			"found 2 bytes, want whole samples of 4"},
		"NaN": {wavFile(wavFormat(3, 1, 8000, 32), chunk("data", float(0, float32(math.NaN())))),
			"sample 2: found NaN, want a finite number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ReadWAV(bytes.NewReader(c.data), 3)
			wantError(t, err, c.want)
		})
	}
}

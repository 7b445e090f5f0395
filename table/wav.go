package table

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/wav"
)

// WAV is a recording: a row per sample, a column per channel, from -1 to 1.
var WAV = &Format{
	Name: "wav", About: "recordings: a row for each sample; in folders, whose names are the classes",
	Extensions: []string{".wav", ".wave"}, Kin: recordings, Open: openWAV,
}

// recordings is the kin of formats with a row per sample.
const recordings = "recording"

// mostWAV is the limit on a recording in memory.
const mostWAV = 1 << 31

func openWAV(in *Input, _ *Options) (Source, error) {
	f, size, err := wav.ReadHead(in.R, checkWAV)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	data, err := io.ReadAll(io.LimitReader(in.R, min(int64(size), mostWAV)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	return wavSource(in.Name, f, data, int64(size)), nil
}

func checkWAV(f *wav.Format) error {
	known := f.Kind == wav.PCM && f.Bits%8 == 0 && f.Bits >= 8 && f.Bits <= 32 ||
		f.Kind == wav.Float && (f.Bits == 32 || f.Bits == 64)
	if !known || f.Channels < 1 || f.Channels > 256 || f.Rate < 1 {
		return fmt.Errorf("found the format %d with %d channels of %d bits at %d Hz, "+
			"want plain samples of 8, 16, 24 or 32 bits, or floats of 32 or 64, of 1 to 256 channels",
			f.Kind, f.Channels, f.Bits, f.Rate)
	}
	return nil
}

// wavSource returns the samples of a recording.
func wavSource(name string, f *wav.Format, data []byte, want int64) *recordSource {
	size, channels := int(f.Bits)/8, int(f.Channels)
	s := &recordSource{unit: "sample"}
	s.about = About{Columns: numbered("sample", channels), Sequences: true, Recording: true}
	title := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	if want > int64(len(data)) && want != math.MaxUint32 {
		s.notes = append(s.notes, fmt.Sprintf("%s: found %d bytes of samples, want %d: the recording is cut off", name,
			len(data), want))
	}
	s.next = once(&record{
		place: Place{name, "sample", 1}, name: title, step: 1 / float64(f.Rate), n: len(data) / (size * channels),
		cell: func(row, i int) Cell {
			return RealCell(f.Sample(data[(row*channels+i)*size:][:size]))
		},
	})
	return s
}

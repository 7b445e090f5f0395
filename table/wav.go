package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
)

// WAV is a recording: a row per sample, a column per channel, from -1 to 1.
var WAV = &Format{
	Name: "wav", About: "recordings: a row for each sample; in folders, whose names are the classes",
	Extensions: []string{".wav", ".wave"}, Kin: recordings, Open: openWAV,
}

// recordings is the kin of formats with a row per sample.
const recordings = "recording"

// wavFormat is the chunk "fmt ".
type wavFormat struct {
	Kind, Channels uint16
	Rate, Bytes    uint32
	Block, Bits    uint16
}

// The encodings of WAV files.
const (
	wavPCM        = 1
	wavFloat      = 3
	wavExtensible = 0xFFFE
)

// mostWAV is the limit on a recording in memory, and mostChunk on other chunks.
const (
	mostWAV   = 1 << 31
	mostChunk = 1 << 16
)

func openWAV(in *Input, _ *Options) (Source, error) {
	wrong := func(err error) error { return fmt.Errorf("%s: %w", in.Name, err) }
	var head struct {
		RIFF [4]byte
		Size uint32
		WAVE [4]byte
	}
	if err := binary.Read(in.R, binary.LittleEndian, &head); err != nil {
		return nil, wrong(fmt.Errorf("the head of a WAV file: %w", err))
	}
	if string(head.RIFF[:]) != "RIFF" || string(head.WAVE[:]) != "WAVE" {
		return nil, wrong(fmt.Errorf("found %q and %q, want the RIFF and WAVE of a WAV file", head.RIFF, head.WAVE))
	}
	var f *wavFormat
	for {
		var chunk struct {
			Name [4]byte
			Size uint32
		}
		if err := binary.Read(in.R, binary.LittleEndian, &chunk); err != nil {
			return nil, wrong(errors.New("found no chunk of data"))
		}
		size := int64(chunk.Size) + int64(chunk.Size%2) // chunks begin at even offsets
		switch name := string(chunk.Name[:]); {
		case name == "data" && f == nil:
			return nil, wrong(errors.New("found data before its format"))
		case name == "data":
			data, err := io.ReadAll(io.LimitReader(in.R, min(int64(chunk.Size), mostWAV)))
			if err != nil {
				return nil, wrong(err)
			}
			return wavSource(in.Name, f, data, int64(chunk.Size)), nil
		case name == "fmt ":
			if size > mostChunk {
				return nil, wrong(fmt.Errorf("found a format of %d bytes, want at most %d", size, mostChunk))
			}
			data := make([]byte, size)
			if _, err := io.ReadFull(in.R, data); err != nil {
				return nil, wrong(err)
			}
			var err error
			if f, err = readFormat(data); err != nil {
				return nil, wrong(err)
			}
		default:
			if _, err := io.CopyN(io.Discard, in.R, size); err != nil {
				return nil, wrong(fmt.Errorf("chunk %q: %w", chunk.Name, err))
			}
		}
	}
}

// readFormat reads the chunk "fmt ".
func readFormat(data []byte) (*wavFormat, error) {
	f := &wavFormat{}
	if n, err := binary.Decode(data, binary.LittleEndian, f); err != nil || n > len(data) {
		return nil, fmt.Errorf("chunk \"fmt \": found %d bytes, want 16 or more", len(data))
	}
	if f.Kind == wavExtensible && len(data) >= 26 {
		f.Kind = binary.LittleEndian.Uint16(data[24:])
	}
	known := f.Kind == wavPCM && f.Bits%8 == 0 && f.Bits >= 8 && f.Bits <= 32 ||
		f.Kind == wavFloat && (f.Bits == 32 || f.Bits == 64)
	if !known || f.Channels < 1 || f.Channels > 256 || f.Rate < 1 {
		return nil, fmt.Errorf("found the format %d with %d channels of %d bits at %d Hz, want plain samples of 8, "+
			"16, 24 or 32 bits, or floats of 32 or 64, of 1 to 256 channels", f.Kind, f.Channels, f.Bits, f.Rate)
	}
	return f, nil
}

// wavSource returns the samples of a recording.
func wavSource(name string, f *wavFormat, data []byte, said int64) *recordSource {
	size, channels := int(f.Bits)/8, int(f.Channels)
	s := &recordSource{unit: "sample"}
	s.about = About{Columns: numbered("sample", channels), Sequences: true}
	title := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	if said > int64(len(data)) && said != math.MaxUint32 {
		s.notes = append(s.notes, fmt.Sprintf("%s: found %d bytes of samples, want %d: the recording is cut off", name,
			len(data), said))
	}
	s.next = once(&record{
		place: Place{name, "sample", 1}, name: title, step: 1 / float64(f.Rate), n: len(data) / (size * channels),
		cell: func(row, i int) Cell {
			return RealCell(wavSample(data[(row*channels+i)*size:][:size], f.Kind == wavFloat))
		},
	})
	return s
}

// wavSample decodes a sample, from -1 to 1.
func wavSample(b []byte, float bool) float64 {
	switch {
	case float && len(b) == 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case float:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case len(b) == 1:
		return (float64(b[0]) - 128) / 128 // 8 bits have no sign
	}
	x := int32(0)
	for i, c := range b {
		x |= int32(c) << (8 * (4 - len(b) + i))
	}
	return float64(x) / (1 << 31)
}

package table

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/wav"
)

// WAV is a recording: one row per sample, one column per channel, with values from -1 to 1.
var WAV = &Format{
	Name: "wav", About: "recordings: a row for each sample; in folders, whose names are the classes",
	Extensions: []string{".wav", ".wave"}, Kin: recordings, Open: openWAV,
}

// recordings is the kin of formats with one row per sample.
const recordings = "recording"

// wavSource reads the samples of a recording as they are needed.
type wavSource struct {
	described
	name, title string
	format      *wav.Format
	r           io.Reader
	sample      []byte // bytes of one sample of all channels
	n, want     int64  // number of samples read, and number expected
}

func openWAV(in *Input, _ *Options) (Source, error) {
	f, size, err := wav.ReadHead(in.R, checkWAV)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	channels := int(f.Channels)
	s := &wavSource{name: in.Name, title: strings.TrimSuffix(filepath.Base(in.Name), filepath.Ext(in.Name)), format: f,
		r: in.R, sample: make([]byte, channels*int(f.Bits)/8)}
	s.about = About{Columns: numbered("sample", channels), Sequences: true, Recording: true, Rate: int(f.Rate)}
	if s.want = int64(size) / int64(len(s.sample)); size == math.MaxUint32 { // written if the size is unknown
		s.want = math.MaxInt64
	}
	return s, nil
}

// Next reads the next sample of all channels.
func (s *wavSource) Next(row *Row) error {
	if s.n == s.want {
		return io.EOF
	}
	if n, err := io.ReadFull(s.r, s.sample); err == io.EOF || err == io.ErrUnexpectedEOF {
		if s.want < math.MaxInt64 {
			size := int64(len(s.sample))
			s.notes = append(s.notes, fmt.Sprintf("%s: found %d bytes of samples, want %d: the recording is cut off",
				s.name, s.n*size+int64(n), s.want*size))
		}
		s.want = s.n
		return io.EOF
	} else if err != nil {
		return fmt.Errorf("%s, sample %d: %w", s.name, s.n+1, err)
	}
	s.n++
	row.Place, row.Sequence, row.Name = Place{s.name, "sample", s.n}, 0, s.title
	row.Step, row.Cells = 1/float64(s.format.Rate), row.Cells[:0]
	for b, size := s.sample, int(s.format.Bits)/8; len(b) > 0; b = b[size:] {
		row.Cells = append(row.Cells, RealCell(s.format.Sample(b[:size])))
	}
	return nil
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

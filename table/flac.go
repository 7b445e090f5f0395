package table

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"path/filepath"
	"strings"
)

// FLAC is a losslessly compressed recording (RFC 9639) with 4 to 32 bits per sample. Its columns are those of WAV.
var FLAC = &Format{
	Name: "flac", About: "recordings packed without loss, alone or beside WAV files", Extensions: []string{".flac"},
	Kin: recordings, Open: openFLAC,
}

// mostFLAC is the maximum number of samples of a recording: a day of silence takes few bytes.
const mostFLAC = 1 << 32

// flacSource reads the samples of a recording, frame by frame.
type flacSource struct {
	described
	name, title string
	bits        flacBits
	info        *flacInfo
	full        float64   // magnitude of the loudest possible sample
	frame       [][]int64 // by channel
	at          int       // index in the frame
	n           int64     // number of samples so far
	sum         hash.Hash // checksum of all samples
	packed      []byte
	ended       bool
}

func openFLAC(in *Input, _ *Options) (Source, error) {
	info, err := flacInfoOf(in.R)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	return &flacSource{
		name: in.Name, title: strings.TrimSuffix(filepath.Base(in.Name), filepath.Ext(in.Name)), info: info,
		bits: flacBits{r: in.R}, frame: make([][]int64, info.channels),
		full: math.Ldexp(1, info.bits-1), sum: md5.New(),
		described: described{about: About{Columns: numbered("sample", info.channels), Sequences: true,
			Recording: true, Rate: info.rate}},
	}, nil
}

// flacInfoOf reads all metadata before the frames.
func flacInfoOf(r *bufio.Reader) (*flacInfo, error) {
	head, err := r.Peek(10)
	if bytes.HasPrefix(head, []byte("ID3")) && err == nil { // added before the file by a music player
		size := int(head[6])<<21 | int(head[7])<<14 | int(head[8])<<7 | int(head[9])
		if _, err := r.Discard(len(head) + size); err != nil {
			return nil, err
		}
		head, _ = r.Peek(4)
	}
	if !bytes.HasPrefix(head, []byte("fLaC")) {
		return nil, fmt.Errorf("found %q, want the fLaC of a FLAC file", head[:min(4, len(head))])
	}
	wrong := func(err error) error {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("the head of a FLAC file: %w", err)
	}
	if _, err := r.Discard(4); err != nil {
		return nil, wrong(err)
	}
	var info *flacInfo
	for last := false; !last; {
		var block [4]byte
		if _, err := io.ReadFull(r, block[:]); err != nil {
			return nil, wrong(err)
		}
		size := int(block[1])<<16 | int(block[2])<<8 | int(block[3])
		last = block[0]&0x80 != 0
		if info != nil {
			if _, err := r.Discard(size); err != nil {
				return nil, wrong(err)
			}
			continue
		}
		var data [34]byte
		if kind := block[0] & 0x7F; kind != 0 || size != len(data) {
			return nil, wrong(fmt.Errorf("found a block of kind %d with %d bytes first, want 0 with %d", kind, size,
				len(data)))
		}
		if _, err := io.ReadFull(r, data[:]); err != nil {
			return nil, wrong(err)
		}
		x := binary.BigEndian.Uint64(data[10:])
		info = &flacInfo{
			rate: int(x >> 44), channels: int(x>>41&7) + 1, bits: int(x>>36&31) + 1, samples: int64(x & (1<<36 - 1)),
			sum: [16]byte(data[18:]),
		}
		if info.rate < 1 || info.bits < 4 || info.samples > mostFLAC {
			return nil, wrong(fmt.Errorf("found %d samples of %d bits at %d Hz, "+
				"want at most %d of 4 to 32 bits at 1 Hz or more", info.samples, info.bits, info.rate, int64(mostFLAC)))
		}
	}
	return info, nil
}

// Next reads the next sample of all channels.
func (s *flacSource) Next(row *Row) error {
	for s.at >= len(s.frame[0]) {
		if s.ended {
			return io.EOF
		}
		if err := s.nextFrame(); err != nil {
			return fmt.Errorf("%s, sample %d: %w", s.name, s.n+1, err)
		}
	}
	row.Place, row.Sequence, row.Name = Place{s.name, "sample", s.n + 1}, 0, s.title
	row.Step, row.Cells = 1/float64(s.info.rate), row.Cells[:0]
	for _, channel := range s.frame {
		row.Cells = append(row.Cells, RealCell(float64(channel[s.at])/s.full))
	}
	s.at++
	s.n++
	return nil
}

// nextFrame reads a frame, or finds the end.
func (s *flacSource) nextFrame() error {
	s.at = 0
	var err error
	if s.info.samples == 0 || s.n < s.info.samples {
		err = flacFrame(&s.bits, s.info, s.frame)
	} else {
		err = io.EOF // what follows is not sound
	}
	cut := errors.Is(err, io.ErrUnexpectedEOF) || s.bits.err == io.EOF
	switch {
	case cut || err == io.EOF:
		s.ended, s.frame[0] = true, nil
		if cut || s.n < s.info.samples {
			want := "more"
			if s.info.samples > 0 {
				want = fmt.Sprint(s.info.samples)
			}
			s.notes = append(s.notes, fmt.Sprintf("%s: found %d samples, want %s: the recording is cut off", s.name,
				s.n, want))
			return nil
		}
		if got := [16]byte(s.sum.Sum(nil)); s.info.sum != [16]byte{} && got != s.info.sum {
			return fmt.Errorf("found samples with the checksum %x, want %x: the file is damaged", got, s.info.sum)
		}
		return nil
	case err != nil:
		return err
	}
	most := s.info.samples
	if most == 0 {
		most = mostFLAC
	}
	if s.n+int64(len(s.frame[0])) > most {
		return fmt.Errorf("found more than %d samples, want at most that", most)
	}
	if s.info.sum != [16]byte{} {
		s.add()
	}
	return nil
}

// add adds the samples of the frame to the checksum: little-endian, with the minimum number of bytes for each.
func (s *flacSource) add() {
	s.packed = s.packed[:0]
	for k := range s.frame[0] {
		for _, channel := range s.frame {
			for i := range (s.info.bits + 7) / 8 {
				s.packed = append(s.packed, byte(channel[k]>>(8*i)))
			}
		}
	}
	s.sum.Write(s.packed)
}

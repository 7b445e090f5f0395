package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// source is one file of a corpus.
type source struct {
	name    string // see Source.Name
	path    string // path to open, and the name in messages
	format  Format // FormatText or FormatJSONL
	lenient bool   // found in a folder or by a glob: may be empty
	packing packing
	spool   *spool // standard input
	embed   []byte // content, if embedded in the binary
	content content
}

// packing is the compression of a file.
type packing int

const (
	plain packing = iota
	gzipped
	zstandard
)

// maxZstdWindow is the most memory that a .zst file may ask for. The zstd command has the same limit without --long.
const maxZstdWindow = 128 << 20

// newSource returns a source for the file at path, with format and compression by its name. force, if not FormatAuto,
// overrides the format.
func newSource(name, path string, force Format, lenient bool) source {
	s := source{name: name, path: path, format: force, lenient: lenient}
	stem := strings.ToLower(name)
	switch {
	case strings.HasSuffix(stem, ".gz"):
		s.packing, stem = gzipped, strings.TrimSuffix(stem, ".gz")
	case strings.HasSuffix(stem, ".zst"):
		s.packing, stem = zstandard, strings.TrimSuffix(stem, ".zst")
	}
	if force == FormatAuto {
		s.format = FormatText
		if strings.HasSuffix(stem, ".jsonl") || strings.HasSuffix(stem, ".ndjson") {
			s.format = FormatJSONL
		}
	}
	return s
}

// stdinSource spools standard input and detects its compression by its first bytes.
func stdinSource(opt SourceOptions) (source, error) {
	in := opt.Stdin
	if in == nil {
		in = os.Stdin
	}
	sp, err := newSpool(in, opt.TempDir)
	if err != nil {
		return source{}, err
	}
	s := newSource("-", "standard input", opt.Format, false)
	s.spool = sp
	head := make([]byte, 4)
	n, err := io.ReadFull(sp.reader(), head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return source{}, errors.Join(fmt.Errorf("data: %s: %w", s.path, err), sp.close())
	}
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		s.packing = gzipped
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		s.packing = zstandard
	}
	return s, nil
}

// open returns a reader of the decompressed bytes of s. Its errors, and the reader's, name the file.
func (s *source) open() (io.ReadCloser, error) {
	r := &sourceReader{path: s.path, packed: s.packing != plain}
	var raw io.Reader
	switch {
	case s.embed != nil:
		raw = bytes.NewReader(s.embed)
	case s.spool != nil:
		raw = s.spool.reader()
	default:
		f, err := os.Open(s.path)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err) // a PathError names the file
		}
		r.closers = append(r.closers, f.Close)
		raw = f
	}
	r.raw.r = raw
	raw = &r.raw
	r.r = raw
	switch s.packing {
	case gzipped:
		z, err := gzip.NewReader(bufio.NewReaderSize(raw, 1<<16))
		if err == io.EOF {
			r.r = bytes.NewReader(nil) // an empty file, for the caller to judge
			return r, nil
		}
		if err != nil {
			return nil, errors.Join(r.failed(err), r.Close())
		}
		r.r, r.closers = z, append(r.closers, z.Close)
	case zstandard:
		// A decoder without goroutines is far faster than any tokenizer.
		z, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, errors.Join(r.failed(err), r.Close())
		}
		r.r, r.closers = z, append(r.closers, func() error { z.Close(); return nil })
	}
	return r, nil
}

// Text compresses to a third or a tenth of its size. A file that expands far more than that, and to a large size, would
// fill disks.
var (
	mostUnpacked = int64(100) // times the compressed size read so far
	// bytes that are read at any compression ratio; a variable so that tests need fewer
	unpackedAnyway = int64(1 << 30)
)

// sourceReader adds the name of the file and the position to errors.
type sourceReader struct {
	path    string
	packed  bool
	raw     countReader // the compressed file
	r       io.Reader
	n       int64 // decompressed bytes so far
	closers []func() error
}

func (r *sourceReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	if err != nil && err != io.EOF {
		err = r.failed(err)
	}
	if r.packed && r.n > unpackedAnyway && r.n/mostUnpacked > r.raw.n {
		return n, fmt.Errorf("data: %s: the first %s of it unpack to more than %s, over %d times as much, "+
			"which text hardly does; if it is meant so, unpack it and name the result", r.path,
			status.Bytes(uint64(r.raw.n)), status.Bytes(uint64(unpackedAnyway)), mostUnpacked)
	}
	return n, err
}

func (r *sourceReader) failed(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("data: %s is truncated: its compressed data ends early, after %d bytes of text: %w", r.path,
			r.n, err)
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("data: %w", err)
	}
	return fmt.Errorf("data: %s: after %d bytes of text: %w", r.path, r.n, err)
}

// Close closes in the reverse order of opening.
func (r *sourceReader) Close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i]())
	}
	r.closers = nil
	return errors.Join(errs...)
}

// spool is a temporary copy of standard input.
type spool struct {
	file *os.File
	size int64
	// The file's name is removed. If the system permits, this is done at the start, so that a killed run leaves nothing
	// behind.
	removed bool
}

func newSpool(in io.Reader, dir string) (*spool, error) {
	f, err := disk.Temp(dir, "hippo-stdin")
	if err != nil {
		return nil, fmt.Errorf("data: spool standard input: %w", err)
	}
	s := &spool{file: f, removed: os.Remove(f.Name()) == nil}
	if s.size, err = io.Copy(f, in); err != nil {
		err = fmt.Errorf("data: spool standard input to %s, after %d bytes: %w", f.Name(), s.size, err)
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *spool) reader() io.Reader { return io.NewSectionReader(s.file, 0, s.size) }

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if !s.removed {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	s.file = nil
	return err
}

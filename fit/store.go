package fit

import (
	"bufio"
	"errors"
	"os"
	"unsafe"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// store is a table of float32. It is in memory if small, else in a mapped file, so that memory does not grow with the
// data.
type store struct {
	dir   string // folder of the file
	width int    // length of a row
	n     int    // number of rows
	mem   []float32
	file  *os.File
	out   *bufio.Writer
	m     disk.Mapping
}

// mostInMemory is the maximum number of elements of a store in memory.
var mostInMemory = 8 << 20 // a variable for tests

func newStore(dir string, width int) *store { return &store{dir: dir, width: width} }

// sizedStore returns a store with n rows, which put sets in any order.
func sizedStore(dir string, width, n int) (*store, error) {
	s := &store{dir: dir, width: width, n: n}
	if n*width <= mostInMemory {
		s.mem = make([]float32, n*width)
		return s, nil
	}
	if err := s.spill(); err != nil {
		return nil, err
	}
	if err := s.file.Truncate(int64(n) * int64(width) * 4); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// put writes rows to a store from sizedStore, starting at row at.
func (s *store) put(at int, rows []float32) error {
	if s.file == nil {
		copy(s.mem[at*s.width:], rows)
		return nil
	}
	_, err := s.file.WriteAt(bytesOf(rows), int64(at)*int64(s.width)*4)
	return err
}

// add appends a row.
func (s *store) add(row []float32) error {
	s.n++
	if s.file == nil && len(s.mem)+s.width <= mostInMemory {
		if cap(s.mem) < len(s.mem)+s.width { // double the capacity, to leave little garbage
			s.mem = append(make([]float32, 0, min(mostInMemory, max(1<<12, s.width, 2*cap(s.mem)))), s.mem...)
		}
		s.mem = append(s.mem, row...)
		return nil
	}
	if s.file == nil {
		if err := s.spill(); err != nil {
			return err
		}
	}
	_, err := s.out.Write(bytesOf(row))
	return err
}

// spill moves the store from memory to a file.
func (s *store) spill() (err error) {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return err
	}
	if s.file, err = disk.Temp(s.dir, "rows"); err != nil {
		return err
	}
	s.out = bufio.NewWriterSize(s.file, 1<<20)
	_, err = s.out.Write(bytesOf(s.mem))
	s.mem = nil
	return err
}

// finish ends adding. After it, rows can be read.
func (s *store) finish() error {
	if s.file == nil {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	var err error
	s.m, err = disk.Map(s.file, s.n*s.width*4)
	if err != nil {
		return err
	}
	s.mem = floatsOf(s.m.Data)
	return nil
}

// rows returns the rows from lo to hi, which must not be changed.
func (s *store) rows(lo, hi int) []float32 { return s.mem[lo*s.width : hi*s.width] }

// row returns row i, which must not be changed.
func (s *store) row(i int) []float32 { return s.rows(i, i+1) }

// release lets the system evict the memory of rows.
func (s *store) release(lo, hi int) {
	if s.file != nil {
		s.m.Release(bytesOf(s.rows(lo, hi)))
	}
}

// close releases the memory and removes the file.
func (s *store) close() error {
	if s.file == nil {
		return nil
	}
	var err error
	if s.m.Close != nil {
		err = s.m.Close()
	}
	s.mem = nil
	return errors.Join(err, s.file.Close(), os.Remove(s.file.Name()))
}

// bytesOf returns the memory of numbers, in native byte order: only the process that wrote a store reads it.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// floatsOf is the inverse of bytesOf.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
